"""Where lines of a stage repeat: an unrolled loop is one body and how often it stands there."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Hashable, Sequence
from typing import NamedTuple

_LONGEST = 64
"""Lines of a block at the most; a longer one is a passage of its own to a reader."""
_TIMES, _HIDDEN = 3, 6
"""How often a block stands there at least, and how many lines that hides at least: else the line that says
so is no gain."""
# %r12 %tmp3_9 R14 UP2 $L__BB0_3 `(.L_x_2) c[0x0][0x210] [R2+0x40] #12 and addresses before instructions,
# but neither 2.5 nor 0f3FAA0000: other constants are another computation.
_VARYING = re.compile(
    r"/\*[0-9a-f]{4,}\*/|^\s*[0-9a-f]+:\t|%[\w.#:]+|\b(?:U?[RP]|B|SR?_?)\d+\b|\$?\.?L_+\w+|-?\b0x[0-9a-f]+|"
    r"(?<![\w.])-?\d+(?![\w.])"
)


class Repeat(NamedTuple):
    """The block of `size` rows at `first` stands there `times` times, one behind the other."""

    first: int
    size: int
    times: int

    @property
    def hidden(self) -> range:
        """The rows that say nothing new."""
        return range(self.first + self.size, self.first + self.size * self.times)


def shape(text: str) -> str:
    """A line without registers, names, addresses and offsets, which differ from round to round."""
    return _VARYING.sub("·", text).strip()


def repeats(keys: Sequence[Hashable]) -> tuple[Repeat, ...]:
    """From the top, at each row the block that hides most, of equal ones the shortest; none overlap."""
    result = []
    places: dict[Hashable, list[int]] = {}
    for row, key in enumerate(keys):
        places.setdefault(key, []).append(row)
    row = 0
    while row < len(keys):
        own = places[keys[row]]
        begin = bisect_right(own, row)
        again = own[begin : bisect_right(own, row + _LONGEST, begin)]
        best = max(
            (_repeat(keys, row, other - row) for other in again),
            key=lambda each: (len(each.hidden), -each.size),
            default=Repeat(row, 1, 1),
        )
        if best.times >= _TIMES and len(best.hidden) >= _HIDDEN:
            result.append(best)
            row = best.hidden.stop
        else:
            row += 1
    return tuple(result)


def _repeat(keys: Sequence[Hashable], first: int, size: int) -> Repeat:
    row = first
    while row + size < len(keys) and keys[row] == keys[row + size]:
        row += 1
    return Repeat(first, size, (row - first) // size + 1)
