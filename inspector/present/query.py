"""What an index answered, as a table; what can be asked of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from inspector.units import plural

from .spans import Line, Span, toned
from .tables import Column, Row, Table, table_lines

_WIDE = 60
"""Cells from which on a column gives way."""


def lines(columns: Sequence[str], rows: Sequence[Sequence[object]], width: int) -> Iterator[Line]:
    """The rows in the question's order."""
    cells = [[_text(value) for value in row] for row in rows]
    numbers = [all(isinstance(row[at], int | float | None) for row in rows) for at in range(len(columns))]
    shown = tuple(
        Column(name, right=numbers[at], shrinks=not numbers[at], least=min(_WIDE, max(8, len(name))))
        for at, name in enumerate(columns)
    )
    table = Table("", shown, tuple(Row(at, tuple(map(Span, row))) for at, row in enumerate(cells)))
    yield from table_lines(table, width)
    yield toned(plural(len(rows), "row"), "dim")


def offered(
    questions: Mapping[str, str], tables: Mapping[str, Iterable[tuple[str, str]]], width: int
) -> Iterator[Line]:
    """Ready questions, and each table's columns."""
    yield from lines(("question", "answers"), list(questions.items()), width)
    yield Line()
    told = [(name, ", ".join(f"{column} {kind}" for column, kind in typed)) for name, typed in tables.items()]
    yield from lines(("table", "columns"), told, width)


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
