"""Splitting Python-like text at commas without running or compiling it."""

from __future__ import annotations

import re

# 'a, b'   "f32[2, 3]"   ([{   )]}   ,
_QUOTED = r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\""""
_QUOTES = re.compile(_QUOTED)
_TOKEN = re.compile(rf"{_QUOTED}|[(\[{{]|[)\]}}]|,")

# Any character that can hide a comma.
_HIDING = re.compile(r"""[(\[{'"]""")


def split_commas(text: str) -> tuple[str, ...]:
    """The pieces between top-level commas, stripped; a trailing comma makes no empty piece.

    Commas within brackets and quotes do not split. Unbalanced text never raises: what follows an
    unclosed bracket stays in one piece.
    """
    if not _HIDING.search(text):
        pieces = text.split(",")
    else:
        pieces = []
        depth = start = 0
        for match in _TOKEN.finditer(text):
            token = match.group()
            if token in "([{":
                depth += 1
            elif token in ")]}":
                depth = max(0, depth - 1)
            elif token == "," and depth == 0:
                pieces.append(text[start : match.start()])
                start = match.end()
        pieces.append(text[start:])
    if not pieces[-1].strip():
        pieces.pop()
    return tuple(piece.strip() for piece in pieces)


def leaves(text: str) -> tuple[str, ...]:
    """The items of a printed container, with those of inner lists, tuples and dictionaries (their values).

    Text that is no container is one item, as is a call or an index.
    """
    if text[:1] not in ("(", "[", "{"):
        return (text,)
    found: list[str] = []
    inside: list[str] = []
    start = hidden = 0
    begun = False
    """Whether the item is no container, so that none is looked for in it again."""

    def item(end: int) -> str:
        part = text[start:end]
        return (part.partition(": ")[2] if inside and inside[-1] == "{" else part).strip()

    for match in _TOKEN.finditer(text):
        token = match.group()
        if token in "([{":
            begun = begun or bool(inside and item(match.start()))
            if begun:
                hidden += 1
                continue
            inside.append(token)
        elif token in ")]}" and hidden:
            hidden -= 1
            continue
        elif token in ",)]}" and not hidden:
            if last := item(match.start()):
                found.append(last)
            if token != ",":
                if not inside:
                    break
                inside.pop()
        else:
            continue
        start, begun = match.end(), False
    if inside and (last := item(len(text))):
        found.append(last)
    return tuple(found)


def open_brackets(text: str) -> int:
    """How many more brackets `text` opens than it closes; those within quotes do not count."""
    if "'" in text or '"' in text:
        text = _QUOTES.sub("", text)
    return sum(map(text.count, "([{")) - sum(map(text.count, ")]}"))
