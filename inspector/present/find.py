"""Lines of all graphs with a word in them, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from inspector.model.explain import Evidence
from inspector.text import file_name
from inspector.units import plural

from .rows import FoundRow
from .spans import Span
from .tables import Column, Row, Table

_COLUMNS = (
    Column("graph", shrinks=True, least=14, rank=1),
    Column("line", shrinks=True, least=16),
    Column("text", shrinks=True, least=24, prose=True),
)
_FAR, _BEFORE = 24, 12
"""Letters of a line before a match that are too many, and how many are shown of those."""
MOST = 2_000
"""Lines that are listed."""


def _from_match(text: str, query: str) -> str:
    """`text`, of which the beginning gives way where the match stands far behind it."""
    place = text.casefold().find(query.casefold())
    return f"…{text[place - _BEFORE :]}" if place > _FAR else text


def results_table(query: str, lines: Sequence[tuple[str, Evidence]], done: bool) -> Table:
    """`lines` with the graph that each is of; `done` once all graphs were read."""
    rows = tuple(
        Row(
            FoundRow(number),
            (
                Span(graph, "dim"),
                Span(f"{file_name(item.path)}:{item.line}", "accent"),
                Span(_from_match(item.text.strip(), query)),
            ),
        )
        for number, (graph, item) in enumerate(lines)
    )
    more = "" if done else "…"
    limit = ", no more are listed" if len(lines) >= MOST else ""
    title = f"“{query}” · {plural(len(lines), 'line')}{more}{limit}"
    return Table(title, _COLUMNS, rows)
