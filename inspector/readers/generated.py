"""What the Python that Inductor generates is made of: arguments, extents, literals.

They work on one statement at a time and never evaluate anything. Text that was cut off gives what
stands before the cut.
"""

from __future__ import annotations

import re
from functools import lru_cache

from inspector.model.source import Size, parse_size

from .brackets import split_commas

Extents = tuple[Size, ...]

# ``reinterpret_tensor(buf1, (4, 8), (8, 1), 0), 'relu'``: what can hide a comma, and the comma itself.
_DELIMITER = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[()\[\]{},]""")

# ``buf0, (4, 8)``: text that cannot be split at every comma has one of these.
_NESTING = re.compile(r"""[(\[{'"]""")


def arguments(text: str, start: int) -> tuple[tuple[str, ...], int]:
    """The arguments of a call whose first one begins at `start`, just after the bracket.

    Returns their texts, stripped, and the position of the closing bracket; where the text ends
    first, the position is -1 and the last argument is whatever was there.
    """
    close = text.find(")", start)
    if close >= 0 and _NESTING.search(text, start, close) is None:
        return tuple(part for part in map(str.strip, text[start:close].split(",")) if part), close
    parts: list[str] = []
    depth, begin = 0, start
    for match in _DELIMITER.finditer(text, start):
        token = match[0]
        if token == ",":
            if depth == 0:
                parts.append(text[begin : match.start()].strip())
                begin = match.end()
        elif token in "([{":
            depth += 1
        elif token in ")]}":
            depth -= 1
            if depth < 0:
                last = text[begin : match.start()].strip()
                return (*parts, last) if last else tuple(parts), match.start()
    last = text[begin:].strip()
    return (*parts, last) if last else tuple(parts), -1


@lru_cache(maxsize=16384)
def parse_extents(text: str) -> Extents:
    """`"(4, s50, )"` becomes ``(4, "s50")``: sizes or strides in elements, symbolic ones as text."""
    text = text.strip()
    if text[:1] in "([" and text[-1:] in ")]":
        text = text[1:-1]
    return tuple(parse_size(part) for part in split_commas(text))


def parse_dtype(text: str) -> str:
    """`"torch.float32"` becomes ``"float32"``; other text stays as it is."""
    return text.removeprefix("torch.")


def unquote(text: str) -> str:
    """The text without its quotes: ``"'cuda:0'"`` becomes ``"cuda:0"``."""
    return text[1:-1] if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0] else text


def _keyword(argument: str) -> tuple[str, str]:
    """`"out=buf0"` becomes ``("out", "buf0")``; a positional argument has the name ``""``."""
    name, equals, value = argument.partition("=")
    if equals and name.isidentifier() and value[:1] != "=":
        return name, value
    return "", argument


def split_keywords(parts: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
    """A call's arguments, positional ones in order and the others by name."""
    positional: list[str] = []
    named: dict[str, str] = {}
    for part in parts:
        name, value = _keyword(part)
        if name:
            named[name] = value
        else:
            positional.append(value)
    return positional, named
