"""Tables: columns that give way by rank, rows that stand for things, everything measured in cells."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from inspector.frozen import dataclass
from inspector.text import cells, crop, elide, pad

from .content import RefIndex, Rows
from .rows import MessageRow
from .spans import Line, Span, toned

if TYPE_CHECKING:
    from inspector.model.links import Ref, Related

GAP = 2


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    `rank`: where the width does not suffice, columns leave in order of rank, the highest first, 0
    never. `shrinks`: before that, long cells are elided in the middle, to `least` cells; those of `prose`
    lose their end instead. `optional`: left out where no row has anything in it.
    """

    title: str
    right: bool = False
    rank: int = 0
    shrinks: bool = False
    least: int = 10
    optional: bool = False
    prose: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """`key` identifies the row while the table is filled and refreshed. A `wide` row is one text over
    all columns, as for a graph break among graphs."""

    key: Hashable
    cells: tuple[Span, ...]
    ref: Ref | None = None
    wide: bool = False


@dataclass(frozen=True)
class Table:
    """Title, columns, rows; `find` turns a selection into the rows that show it."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...] = ()
    find: Callable[[Related], tuple[Rows, ...]] = lambda _related: ()
    width: int = 0
    start: int = 0
    by_key: dict[Hashable, int] = field(init=False, repr=False)
    refs: RefIndex = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_key", {row.key: index for index, row in enumerate(self.rows)})
        refs = RefIndex((index, index, row.ref) for index, row in enumerate(self.rows) if row.ref is not None)
        object.__setattr__(self, "refs", refs)

    @property
    def count(self) -> int:
        return len(self.rows)

    def text(self, row: int) -> str:
        return "  ".join(cell.text for cell in self.rows[row].cells if cell.text)

    def ref_at(self, row: int) -> Ref | None:
        return self.rows[row].ref

    def rows_of(self, related: Related) -> tuple[Rows, ...]:
        return self.find(related)


@dataclass(frozen=True, slots=True)
class Layout:
    """Cells of each column, 0 for one that is left out."""

    columns: tuple[Column, ...]
    widths: tuple[int, ...]

    def head(self) -> Line:
        """The columns' titles."""
        return self.line([Span(column.title) for column in self.columns])

    def line(self, row: Sequence[Span]) -> Line:
        """A row's cells with the gaps between them; of a padded cell the blanks have its tone too."""
        spans: list[Span] = []
        for column, width, cell in zip(self.columns, self.widths, row, strict=True):
            if width:
                gap = (Span(" " * GAP),) if spans else ()
                text = crop(cell.text, width) if column.prose else elide(cell.text, width)
                spans += (*gap, Span(pad(text, width, column.right), cell.tone))
        return Line(tuple(spans))


def message_table(title: str, message: str) -> Table:
    """A remark in place of rows: still loading, absent, or unreadable."""
    rows = (
        Row(MessageRow(index), (Span(text),), wide=True) for index, text in enumerate(message.split("\n"))
    )
    return Table(title, (), tuple(rows))


def replace_rows(table: Table, rows: Iterable[Row]) -> Table:
    """The same table with rows of the same keys exchanged."""
    changed = list(table.rows)
    for row in rows:
        if row.key in table.by_key:
            changed[table.by_key[row.key]] = row
    return replace(table, rows=tuple(changed))


def fit(table: Table, width: int) -> Layout:
    """Column widths for `width` cells: shrink what may shrink, then drop columns by rank."""
    columns = table.columns
    longest = [0] * len(columns)
    for row in table.rows:
        if not row.wide:
            for index, item in enumerate(row.cells):
                longest[index] = max(longest[index], cells(item.text))
    wanted = [max(size, cells(column.title)) for size, column in zip(longest, columns, strict=True)]
    # The widest gives first, so that none which may shrink stays wider than all of it.
    wanted = [
        min(size, max(c.least, width)) if c.shrinks else size for size, c in zip(wanted, columns, strict=True)
    ]
    shown = [bool(size) or not column.optional for size, column in zip(longest, columns, strict=True)]
    while True:
        excess = (
            sum(size for size, on in zip(wanted, shown, strict=True) if on) + GAP * (sum(shown) - 1) - width
        )
        give = [
            max(0, size - c.least) if on and c.shrinks else 0
            for size, on, c in zip(wanted, shown, columns, strict=True)
        ]
        droppable = [index for index, column in enumerate(columns) if shown[index] and column.rank]
        if excess <= sum(give) or not droppable:
            break
        shown[max(droppable, key=lambda index: columns[index].rank)] = False
    widths = [size if on else 0 for size, on in zip(wanted, shown, strict=True)]
    while excess > 0 and any(give):
        index = max(range(len(give)), key=lambda index: (give[index] > 0, widths[index]))
        widths[index] -= 1
        give[index] -= 1
        excess -= 1
    return Layout(columns, tuple(widths))


def wide_line(row: Row, width: int) -> Line:
    """A row over all columns, its end given up where it does not fit."""
    spans: list[Span] = []
    room = width
    for item in row.cells:
        if item.text and room > 0:
            gap = "  " if spans else ""
            spans += (Span(gap), Span(crop(item.text, room - len(gap)), item.tone))
            room -= len(gap) + cells(item.text)
    return Line(tuple(span for span in spans if span.text))


def table_lines(table: Table, width: int) -> list[Line]:
    """The table as it is printed, titles first; no wider than `width` where columns can give way."""
    layout = fit(table, width)
    lines = [toned(layout.head().text, "dim")] if table.columns else []
    return lines + [wide_line(row, width) if row.wide else layout.line(row.cells) for row in table.rows]
