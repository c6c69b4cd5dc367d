"""Python literals, read and never run."""

from __future__ import annotations

import ast
import re

from inspector.model.problem import Problem, Read

# What a literal holds besides strings, names like None, numbers and brackets could be code, or go too deep.
_STRING = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"")
_LITERAL = re.compile(r"[\w\s{}()\[\],:.]*(?:-(?=\d)[\w\s{}()\[\],:.]*)*\Z")
_DEEPEST = 20


def literal(text: str, label: str) -> Read[object]:
    """A Python literal; None, and a problem, for text that is none. What could be code, or is nested more
    deeply than any such file is, does not get to Python's parser."""
    bare = _STRING.sub("''", text).replace("''", "")
    depth = deepest = 0
    for character in bare:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    if _LITERAL.match(bare) is None or deepest > _DEEPEST:
        return None, (Problem(label, None, "no Python literal: it is not read"),)
    try:
        return ast.literal_eval(text), ()
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None, (Problem(label, None, "no Python literal, or cut short: it is not read"),)
