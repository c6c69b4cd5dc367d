"""A table with a cursor: column titles below the title, long names elided in the middle."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from rich.segment import Segment
from rich.style import Style
from textual.events import Click
from textual.strip import Strip

from inspector.present.arrange import Arrangement, arranged, next_column
from inspector.present.tables import GAP, Layout, Table, fit, wide_line

from .lines_view import LinesView


class TableView(LinesView[Table]):
    """Rows of cells; the columns are fitted to the width again whenever rows or width change."""

    HEADER_ROWS = 2

    def __init__(self, content: Table, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(content, id=id, classes=classes)
        self.source = content
        """As it was given: what is shown of it is `content`."""
        self.arrangement = Arrangement()
        self._layout_key: tuple[int, int] | None = None
        self._fitted = Layout((), ())

    def content_width(self) -> int:
        return 0

    @property
    def key(self) -> Hashable | None:
        """Key of the row under the cursor."""
        return self.content.rows[self.cursor].key if self.content.rows else None

    def visible_keys(self) -> list[Hashable]:
        """Keys of the rows on screen, top first."""
        top = round(self.scroll_offset.y)
        return [row.key for row in self.content.rows[top : top + self.page]]

    def show(self, content: Table, cursor: int | None = None) -> None:
        self.source = content
        super().show(arranged(content, self.arrangement), cursor)

    def rearrange(self, how: Arrangement) -> None:
        """Other rows of the same, or in another order; the cursor stays on its row, or goes to the first."""
        self.arrangement = how
        key = self.key
        self.update(self.source)
        if key not in self.content.by_key:
            self.move_to(0, jump=True)
        self.keep_cursor_visible()

    def sort_by(self, column: int) -> None:
        """Largest first; the second time smallest first, the third as the table is."""
        same, how = column == self.arrangement.column, self.arrangement
        again = replace(how, down=False) if how.down else replace(how, column=None, down=True)
        self.rearrange(again if same else replace(how, column=column, down=True))

    def sort_by_next(self) -> None:
        shown = [place for place, width in enumerate(self._layout(self.inner_width - 1).widths) if width]
        self.rearrange(next_column(self.source, self.arrangement, shown))

    def on_click(self, event: Click) -> None:
        if event.y == self.HEADER_ROWS - 1:
            place = 1
            for column, width in enumerate(self._layout(self.inner_width - 1).widths):
                if width and place <= event.x < place + width + GAP:
                    self.sort_by(column)
                place += width + GAP if width else 0
        else:
            super().on_click(event)

    def update(self, content: Table) -> None:
        """Newer rows; the cursor stays on the same key, however many rows came before it."""
        self.source = content
        content = arranged(content, self.arrangement)
        key = self.key
        if key is not None and key in content.by_key:
            self.cursor = content.by_key[key]
        super().update(content)

    def draw_row(self, row: int, width: int, base: Style) -> list[Segment]:
        item = self.content.rows[row]
        if item.wide:
            return self.line_segments(row, wide_line(item, width), base)
        return self.line_segments(row, self._layout(width).line(item.cells), base)

    def _layout(self, width: int) -> Layout:
        key = (self._generation, width)
        if self._layout_key != key:
            self._layout_key = key
            self._fitted = fit(self.content, width)
        return self._fitted

    def header_strip(self, y: int, width: int) -> Strip:
        if y == 0:
            return super().header_strip(y, width)
        base = self.style("table--head")
        titles = self._layout(width - 1).head().text
        return Strip([Segment(f" {titles}", base)]).adjust_cell_length(width, base)
