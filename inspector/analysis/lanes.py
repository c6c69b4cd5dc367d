"""The schedule as a picture in text: one row per scheduler node, one lane per live buffer.

A buffer takes the leftmost free lane in the row that makes it and gives it back after the row that reads
it last, as branches do in a git log. Nothing is stored for the rows between, so a layout of thousands of rows
is as cheap as its buffers, and a view asks for the cells of the rows that it shows.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Literal

from inspector.frozen import dataclass
from inspector.model.fusion import FusionReport

CellKind = Literal["made", "passes", "read", "last_read"]


@dataclass(frozen=True, slots=True)
class LaneSpan:
    """A buffer on its lane, from the row that makes it to the row that reads it last.

    Rows count scheduler nodes from 0. `reads` are the rows that read it, ascending; empty where nobody in the
    graph does, as for a result.
    """

    buffer: str
    first: int
    last: int
    reads: tuple[int, ...]


Lane = tuple[LaneSpan, ...]
"""In order of the first row; they never overlap."""


def lay_out(report: FusionReport) -> tuple[Lane, ...]:
    """A graph's buffers by lane; those that nobody reads last one row."""
    reads: dict[str, list[int]] = {}
    for row, node in enumerate(report.nodes):
        for access in node.reads:
            reads.setdefault(access.buffer, []).append(row)
    spans = []
    for row, node in enumerate(report.nodes):
        for access in node.writes:
            later = tuple(reader for reader in reads.get(access.buffer, ()) if reader > row)
            spans.append(LaneSpan(access.buffer, row, later[-1] if later else row, later))
    columns = side_by_side((span.first, span.last) for span in spans)
    lanes: list[list[LaneSpan]] = [[] for _ in set(columns)]
    for column, span in zip(columns, spans, strict=True):
        lanes[column].append(span)
    return tuple(map(tuple, lanes))


def side_by_side(stretches: Iterable[tuple[int, int]]) -> list[int]:
    """For each (first row, last row), in the order of the first ones, the leftmost column that is free."""
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    columns = []
    for first, last in stretches:
        while busy and busy[0][0] < first:
            heapq.heappush(free, heapq.heappop(busy)[1])
        columns.append(heapq.heappop(free) if free else len(busy))
        heapq.heappush(busy, (last, columns[-1]))
    return columns


def kinds_by_row(lanes: Sequence[Lane], rows: int, most: int) -> list[list[CellKind | None]]:
    """What the first `most` lanes show in each row; None where no buffer of a lane lives."""
    shown = lanes[:most]
    grid: list[list[CellKind | None]] = [[None] * len(shown) for _ in range(rows)]
    for lane, spans in enumerate(shown):
        for span in spans:
            for row in range(span.first + 1, span.last):
                grid[row][lane] = "passes"
            for row in span.reads:
                grid[row][lane] = "read"
            grid[span.last][lane] = "last_read"
            grid[span.first][lane] = "made"
    return grid
