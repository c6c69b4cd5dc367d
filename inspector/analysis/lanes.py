"""The schedule as a picture in text: one row per scheduler node, one lane per live buffer.

A buffer takes the leftmost free lane in the row that makes it and gives it back after the row that reads
it last, as branches do in a git log. Nothing is stored for the rows between, so a layout of thousands of rows
is as cheap as its buffers, and a view asks for the cells of the rows that it shows.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from inspector.model.fusion import Bracket, CellKind, FusionReport, LaneLayout, LaneRow, LaneSpan


def lay_out(report: FusionReport) -> LaneLayout:
    """Rows and lanes of a graph."""
    made: list[tuple[int, str]] = []
    reads: dict[str, list[int]] = {}
    for index, node in enumerate(report.nodes):
        for access in node.reads:
            reads.setdefault(access.buffer, []).append(index)
        for access in node.writes:
            made.append((index, access.buffer))
    spans = _spans(made, reads, report.outputs, [node.group for node in report.nodes])
    return LaneLayout(_rows(report), _assign(spans))


def _spans(
    made: Sequence[tuple[int, str]],
    reads: Mapping[str, list[int]],
    outputs: frozenset[str],
    groups: Sequence[str],
) -> list[LaneSpan]:
    """Buffers with their lifetimes in rows, not yet on a lane; those that nobody reads last one row."""
    spans = []
    for row, buffer in made:
        later = tuple(reader for reader in reads.get(buffer, ()) if reader > row)
        last = later[-1] if later else row
        inside = bool(later) and buffer not in outputs and all(groups[r] == groups[row] for r in later)
        spans.append(LaneSpan(-1, buffer, row, last, later, buffer in outputs, groups[row] if inside else ""))
    return spans


def _assign(spans: Sequence[LaneSpan]) -> tuple[tuple[LaneSpan, ...], ...]:
    """The spans by lane. They come in the order of their first row."""
    by_lane: list[list[LaneSpan]] = []
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    for span in spans:
        while busy and busy[0][0] < span.first:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane = len(by_lane)
            by_lane.append([])
        heapq.heappush(busy, (span.last, lane))
        by_lane[lane].append(
            LaneSpan(lane, span.buffer, span.first, span.last, span.reads, span.is_output, span.group)
        )
    return tuple(map(tuple, by_lane))


def _rows(report: FusionReport) -> tuple[LaneRow, ...]:
    groups = {group.name: group for group in report.groups}
    missed: dict[str, list[int]] = {}
    for position, pair in enumerate(report.missed):
        for name in (pair.first, pair.second):
            missed.setdefault(name, []).append(position)
    rows = []
    for index, node in enumerate(report.nodes):
        group = groups[node.group]
        first, last = node.name == group.nodes[0], node.name == group.nodes[-1]
        bracket: Bracket = "" if first and last else "first" if first else "last" if last else "middle"
        rows.append(
            LaneRow(
                index=index,
                node=node.name,
                kind=node.kind,
                group=node.group,
                bracket=bracket,
                is_wall=group.is_wall,
                ranges=node.ranges,
                bytes_read=node.bytes_read,
                bytes_written=node.bytes_written,
                saved=group.bytes_saved if first else None,
                missed=tuple(missed.get(group.name, ())) if first else (),
                sources=node.sources,
            )
        )
    return tuple(rows)


def kinds_by_row(layout: LaneLayout, most: int) -> list[list[CellKind | None]]:
    """What the first `most` lanes show in each row; None where no buffer of a lane lives."""
    shown = layout.by_lane[:most]
    grid: list[list[CellKind | None]] = [[None] * len(shown) for _ in layout.rows]
    for lane, spans in enumerate(shown):
        for span in spans:
            for row in range(span.first + 1, span.last):
                grid[row][lane] = "passes"
            for row in span.reads:
                grid[row][lane] = "read"
            grid[span.last][lane] = "last_read"
            grid[span.first][lane] = "made"
    return grid
