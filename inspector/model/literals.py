"""Python literals, read and never run."""

from __future__ import annotations

import ast
import re
from typing import Final

# What a literal holds besides strings, names like None, numbers and brackets could be code, or go too deep.
_STRING = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"")
_LITERAL = re.compile(r"[\w\s{}()\[\],:.]*(?:-(?=\d)[\w\s{}()\[\],:.]*)*\Z")
_DEEPEST = 20


class _None:
    """What stands for no literal: None is one."""


NO_LITERAL: Final = _None()


def literal(text: str) -> object:
    """The value of a Python literal, NO_LITERAL of a text that is none. What could be code, or is nested more
    deeply than any file of torch's is, does not get to Python's parser."""
    bare = _STRING.sub("''", text).replace("''", "")
    depth = deepest = 0
    for character in bare:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    if _LITERAL.match(bare) is None or deepest > _DEEPEST:
        return NO_LITERAL
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return NO_LITERAL
