"""Text in tones, drawn row by row."""

from __future__ import annotations

from collections.abc import Callable

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from inspector.present.spans import Page

from .lines_view import LinesView

_BESIDE = 3
"""Cells beside the text: the cursor's sign, the scrollbar, and one that stays empty."""


class TonedView(LinesView[Page]):
    """Text that is written for the view's width, again whenever that changes."""

    def __init__(self, content: Page, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(content, id=id, classes=classes)
        self._write: Callable[[int], Page] | None = None
        self._written_for = 0

    def show_written(self, write: Callable[[int], Page]) -> None:
        """Show what `write` makes of a width in cells; before the first layout it waits for that."""
        self._write = write
        self._written_for = self.outer_size.width - _BESIDE
        if self._written_for > 0:
            self.show(write(self._written_for))

    def show_again(self, write: Callable[[int], Page]) -> None:
        """A newer state of the same: cursor and scrolling stay."""
        self._write = write
        if self._written_for > 0:
            self.update(write(self._written_for))

    def on_resize(self) -> None:
        width = self.outer_size.width - _BESIDE
        if self._write is not None and width > 0 and width != self._written_for:
            first = self._written_for <= 0
            self._written_for = width
            text = self._write(width)
            if first:
                self.show(text)
            else:
                self.update(text)
        super().on_resize()

    def draw_row(self, row: int, width: int, base: Style) -> list[Segment]:
        left = round(self.scroll_offset.x)
        segments = self.line_segments(row, self.content.lines[row], base)
        return list(Strip(segments).crop(left, left + width))

    def content_width(self) -> int:
        return self.content.width + self.gutter_width + 1
