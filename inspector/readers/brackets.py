"""Splitting Python-like text at commas without running or compiling it."""

from __future__ import annotations

import re

# 'a, b'   "f32[2, 3]"   ([{   )]}   ,
_TOKEN = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|[(\[{]|[)\]}]|,""")

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


def open_brackets(text: str) -> int:
    """How many more brackets `text` opens than it closes; those within quotes do not count."""
    counted = sum(map(text.count, "([{")) - sum(map(text.count, ")]}"))
    if counted == 0 or ("'" not in text and '"' not in text):
        return counted
    depth = 0
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token in "([{":
            depth += 1
        elif token in ")]}":
            depth -= 1
    return depth
