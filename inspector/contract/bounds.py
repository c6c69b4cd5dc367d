"""How much of an answer is printed: lists no longer than asked for, and what was left out beside them."""

from __future__ import annotations

import math
import sys
from collections import Counter
from typing import Any

LIMIT = 1_000
"""Entries of a list, where nobody asks for more or less."""
_TEXTS = frozenset({"change"})
"""Lists whose entries are lines of one text: half a change of code is another change."""


def bounded(data: dict[str, Any], limit: int = LIMIT) -> dict[str, Any]:
    """The same with at most `limit` entries in each list at every depth, the first ones; 0 bounds nothing.

    `left_out` counts the entries that are not there by their list, such as ``graphs[].decisions``: of what
    stood in an entry that is not there itself nothing is counted. Lists of numbers (sizes, times) stay whole,
    and so do lines that make one text.
    """
    left: Counter[str] = Counter()
    answer = _cut(data, limit, "", left) if limit else data
    assert isinstance(answer, dict)
    return {**answer, "left_out": dict(left)}


def finite(value: object) -> object:
    """The same with null for NaN and infinity, which JSON does not know, and for integers beyond what a
    double holds, which most that read JSON take for infinity."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value if value.bit_length() <= sys.float_info.max_exp else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        # A text has millions of lines, where it is damaged.
        return value if set(map(type, value)) == {str} else [finite(item) for item in value]
    return value


def _cut(value: object, limit: int, path: str, left: Counter[str]) -> object:
    if isinstance(value, dict):
        return {
            key: item if key in _TEXTS else _cut(item, limit, f"{path}.{key}" if path else key, left)
            for key, item in value.items()
        }
    if not isinstance(value, list | tuple) or all(isinstance(item, int | float) for item in value):
        return value
    if len(value) > limit:
        left[path] += len(value) - limit
    return [_cut(item, limit, f"{path}[]", left) for item in value[:limit]]
