"""Missed fusions, worst first."""

from __future__ import annotations

from inspector.analysis.reasons import CATEGORIES
from inspector.model.fusion import FusionReport
from inspector.model.links import Ref, Related

from .content import Rows, merge
from .fusion import places_text, short_name
from .spans import Span
from .tables import Column, Row, Table
from .units import size

_COLUMNS = (
    Column("", right=True),
    Column("bytes", right=True),
    Column("first", shrinks=True, least=12),
    Column("second", shrinks=True, least=12),
    Column("why apart", shrinks=True, least=24),
    Column("shares", shrinks=True, least=6, rank=3),
    Column("1st line", shrinks=True, least=10, rank=2),
    Column("2nd line", shrinks=True, least=10, rank=1),
)


def missed_table(report: FusionReport) -> Table:
    """One row per pair; its key is the position in `report.missed`."""
    rows = []
    of_group: dict[str, list[int]] = {}
    for position, missed in enumerate(report.missed):
        one, two = report.group(missed.first), report.group(missed.second)
        assert one is not None and two is not None
        for group in (one, two):
            of_group.setdefault(group.name, []).append(position)
        rows.append(
            Row(
                str(position),
                (
                    Span(position + 1, "dim"),
                    Span(size(missed.bytes), "warn"),
                    Span(short_name(one)),
                    Span(short_name(two)),
                    Span(CATEGORIES[missed.category].title, "bad" if missed.possible else "dim"),
                    Span(", ".join(access.buffer for access in missed.buffers), "dim"),
                    Span(places_text(missed.first_sources), "dim"),
                    Span(places_text(missed.second_sources), "dim"),
                ),
                Ref("node", one.nodes[0]),
            )
        )

    def find(related: Related) -> tuple[Rows, ...]:
        return merge((position, position) for name in related.entries for position in of_group.get(name, ()))

    if not rows:
        return Table("Missed fusions · none", (), (_nothing(report),))
    left_out = len(report.minor)
    more = f", {left_out} tiny or between library calls left out" if left_out else ""
    return Table(f"Missed fusions · {len(rows)}, worst first{more}", _COLUMNS, tuple(rows), find=find)


def _nothing(report: FusionReport) -> Row:
    text = "No two groups share memory worth a fusion."
    if not report.nodes:
        text = "Without a schedule nothing can be said."
    return Row("message", (Span(text, "good" if report.nodes else "dim"),), wide=True)
