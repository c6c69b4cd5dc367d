"""A table with a cursor: column titles below the title, long names elided in the middle."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from inspector.present.tables import Layout, Table, Tone, fit

from .lines_view import Layer, LinesView, segments_of


class TableView(LinesView[Table]):
    """Rows of cells; the columns are fitted to the width again whenever rows or width change."""

    HEADER_ROWS = 2

    def __init__(self, content: Table, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(content, id=id, classes=classes)
        self._layout_key: tuple[int, int] | None = None
        self._fitted = Layout(())

    def content_width(self) -> int:
        return 0

    @property
    def key(self) -> str | None:
        """Key of the row under the cursor."""
        return self.content.rows[self.cursor].key if self.content.rows else None

    def visible_keys(self) -> list[str]:
        """Keys of the rows on screen, top first."""
        top = round(self.scroll_offset.y)
        return [row.key for row in self.content.rows[top : top + self.page]]

    def update(self, content: Table) -> None:
        """Newer rows; the cursor stays on the same key, however many rows came before it."""
        key = self.key
        if key is not None and key in content.by_key:
            self.cursor = content.by_key[key]
        super().update(content)

    def draw_row(self, row: int, width: int, base: Style) -> list[Segment]:
        item = self.content.rows[row]
        layers: list[Layer]
        if item.wide:
            text, layers = "", []
            for cell in item.cells:
                if cell.text:
                    text += "  " if text else ""
                    layers += self._tone(len(text), len(text) + len(cell.text), cell.tone)
                    text += cell.text
            if cell_len(text) > width:
                text = f"{set_cell_size(text, max(width - 1, 0))}…"
        else:
            text, places = self._layout(width).line(self.content.columns, [cell.text for cell in item.cells])
            layers = [
                layer
                for cell, (start, end) in zip(item.cells, places, strict=True)
                for layer in self._tone(start, end, cell.tone)
            ]
        layers += self.match_layers(row, text)
        return segments_of(text, base, layers)

    def _tone(self, start: int, end: int, tone: Tone) -> list[Layer]:
        return [(start, end, self.style(f"tone--{tone}", partial=True))] if tone and end > start else []

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
        text, _ = self._layout(width - 1).line(
            self.content.columns, [column.title for column in self.content.columns]
        )
        return Strip([Segment(f" {text}", base)]).adjust_cell_length(width, base)
