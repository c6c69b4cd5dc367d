"""What every list and text on screen has in common: rows, and what each row stands for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from inspector.model.links import Ref, Related

K = TypeVar("K", bound=Hashable)

Rows = tuple[int, int]
"""First and last row, counted from 0, both included."""


class RefIndex:
    """Rows -> what they stand for, and back. Spans may nest: the innermost one answers for a row."""

    def __init__(self, spans: Iterable[tuple[int, int, Ref]] = ()) -> None:
        self._spans = sorted(spans, key=lambda span: (span[0], -span[1]))
        self._firsts = [first for first, _, _ in self._spans]
        self._parents: list[int] = []
        self._rows: dict[Ref, list[Rows]] = {}
        open_spans: list[int] = []
        for index, (first, last, ref) in enumerate(self._spans):
            while open_spans and self._spans[open_spans[-1]][1] < first:
                open_spans.pop()
            self._parents.append(open_spans[-1] if open_spans else -1)
            open_spans.append(index)
            self._rows.setdefault(ref, []).append((first, last))

    def at(self, row: int) -> Ref | None:
        index = bisect_right(self._firsts, row) - 1
        while index >= 0 and self._spans[index][1] < row:
            index = self._parents[index]
        return self._spans[index][2] if index >= 0 else None

    def rows_of(self, refs: Iterable[Ref]) -> tuple[Rows, ...]:
        return merge(rows for ref in refs for rows in self._rows.get(ref, ()))


def merge(rows: Iterable[Rows]) -> tuple[Rows, ...]:
    """Sorted, with what overlaps or touches joined."""
    merged: list[Rows] = []
    for first, last in sorted(rows):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


def rows_at(positions: Mapping[K, int], names: Iterable[K]) -> tuple[Rows, ...]:
    """The rows of those `names` that have one in `positions`."""
    return merge((positions[name], positions[name]) for name in names if name in positions)


def contains(rows: tuple[Rows, ...], row: int) -> bool:
    """Whether `row` lies in one of the sorted, merged `rows`."""
    index = bisect_right(rows, (row, 1 << 60)) - 1
    return index >= 0 and rows[index][0] <= row <= rows[index][1]


class Content(Protocol):
    """Rows of text that stand for things."""

    @property
    def title(self) -> str: ...

    @property
    def count(self) -> int: ...

    @property
    def width(self) -> int:
        """Cells that the widest row needs, without line numbers."""

    @property
    def start(self) -> int:
        """Row that the cursor is on at first."""

    def text(self, row: int) -> str:
        """The row as it is searched and copied."""

    def ref_at(self, row: int) -> Ref | None: ...

    def rows_of(self, related: Related) -> tuple[Rows, ...]:
        """Rows that show something of `related`, sorted and merged."""
