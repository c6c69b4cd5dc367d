"""A table in another order, or with some of its rows: what is shown of it, not what it says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from inspector.frozen import dataclass
from inspector.units import parse_figure

from .content import Rows, merge

if TYPE_CHECKING:
    from inspector.model.links import Related

    from .tables import Row, Table


_DOWN, _UP = " ↓", " ↑"


@dataclass(frozen=True, slots=True)
class Arrangement:
    """`column` to sort by, largest first where `down`; only rows with `words` in them."""

    column: int | None = None
    down: bool = True
    words: str = ""


def arranged(table: Table, how: Arrangement) -> Table:
    """Rows over all columns stand where they are to the rows before them, or at the end of sorted ones. What
    rows belong to a selection goes with them."""
    if how.column is None and not how.words:
        return table
    words = how.words.casefold()
    # What is asked for again has no columns until the answer is there.
    by = how.column if how.column is not None and how.column < len(table.columns) else None
    order = [number for number in range(table.count) if words in table.text(number).casefold()]
    if by is not None:
        column = by
        known = [number for number in order if _key(table.rows[number], column) is not None]
        known.sort(key=lambda number: _key(table.rows[number], column) or (0.0, ""), reverse=how.down)
        order = known + [number for number in order if number not in set(known)]
    places = {number: place for place, number in enumerate(order)}

    def find(related: Related) -> tuple[Rows, ...]:
        rows = (number for first, last in table.find(related) for number in range(first, last + 1))
        return merge((places[number], places[number]) for number in rows if number in places)

    title = f"{table.title} · only “{how.words}”" if how.words else table.title
    columns = table.columns
    if by is not None:
        # A table in an order of its own has such a mark already.
        titles = [column.title.removesuffix(_DOWN) for column in columns]
        titles[by] += _DOWN if how.down else _UP
        columns = tuple(replace(column, title=text) for column, text in zip(columns, titles, strict=True))
    rows = tuple(table.rows[number] for number in order)
    start = places.get(table.start, 0)
    return replace(table, title=title, columns=columns, rows=rows, find=find, start=start)


def _key(row: Row, column: int) -> tuple[float, str] | None:
    """Figures by size whatever their unit, before texts; None for what is empty or says nothing."""
    if row.wide or column >= len(row.cells):
        return None
    text = row.cells[column].text.strip()
    if text in ("", "·", "…", "–", "-", "?"):
        return None
    value = parse_figure(text)
    return (-math.inf, text) if value is None else (value, "")


def next_column(table: Table, how: Arrangement, shown: Sequence[int]) -> Arrangement:
    """By what of the shown columns comes next; after the last one as the table is."""
    places = [place for place in shown if place < len(table.columns)]
    after = places.index(how.column) + 1 if how.column in places else 0
    return replace(how, column=places[after] if after < len(places) else None, down=True)
