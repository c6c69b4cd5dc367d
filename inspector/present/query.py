"""What an index answered, as a table; what can be asked of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from inspector.frozen import dataclass
from inspector.units import plural

from .spans import Line, Span, toned
from .tables import Column, Row, Table, table_lines

_WIDE = 60
"""Cells from which on a column gives way."""
_RUN = ("run", "path")
"""Columns that name a run."""


class Answer(Protocol):
    """Columns by name, and rows with a value for each."""

    @property
    def columns(self) -> Sequence[str]: ...

    @property
    def rows(self) -> Sequence[Sequence[object]]: ...


@dataclass(frozen=True, slots=True)
class Catalogue:
    """An index as a screen needs it: its name, its questions with what they answer, and the way to ask."""

    name: str
    questions: Mapping[str, str]
    ask: Callable[[str], Answer]


def answer_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """The rows in the question's order, each with its place as its key."""
    numbers = [all(isinstance(row[at], int | float | None) for row in rows) for at in range(len(columns))]
    shown = tuple(
        Column(name, right=numbers[at], shrinks=not numbers[at], least=min(_WIDE, max(8, len(name))))
        for at, name in enumerate(columns)
    )
    cells = (tuple(Span(_text(value)) for value in row) for row in rows)
    return Table(title, shown, tuple(Row(at, row) for at, row in enumerate(cells)))


def screen_table(title: str, answer: Answer) -> Table:
    """The same for a screen: runs without the folder that all are in, columns that leave where there is no
    room, the last ones first."""
    places = [at for at, name in enumerate(answer.columns) if name in _RUN]
    paths = {str(row[at]) for row in answer.rows for at in places if os.path.isabs(str(row[at]))}
    common = os.path.commonpath(map(os.path.dirname, paths)) if paths else ""
    short = {path: os.path.relpath(path, common) for path in paths}
    rows = [[short.get(str(value), value) for value in row] for row in answer.rows]
    table = answer_table(title, answer.columns, rows)
    columns = (
        replace(column, rank=max(0, at - 2) * (at not in places), least=27 if at in places else column.least)
        for at, column in enumerate(table.columns)
    )
    return replace(table, columns=tuple(columns))


def questions_table(catalogue: Catalogue) -> Table:
    """What can be asked; the question is the row's key."""
    columns = (Column("question"), Column("answers", shrinks=True))
    rows = (Row(name, (Span(name, "accent"), Span(about))) for name, about in catalogue.questions.items())
    return Table("Questions", columns, tuple(rows))


def run_of(columns: Sequence[str], row: Sequence[object]) -> str | None:
    """The path of the run that a row tells of, where it tells of one."""
    told = (str(value) for name, value in zip(columns, row, strict=True) if name in _RUN and value)
    return next(told, None)


def lines(columns: Sequence[str], rows: Sequence[Sequence[object]], width: int) -> Iterator[Line]:
    """The rows in the question's order, and how many."""
    yield from table_lines(answer_table("", columns, rows), width)
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
