"""Program text: line numbers, colours that arrive from a thread after the plain text is on screen."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from inspector.present.documents import Document, Region
from inspector.text import cells, clean
from inspector.tui.threads import start

from .lines_view import Layer, LinesView, segments_of

if TYPE_CHECKING:
    from inspector.present.highlight import Span

_WINDOW_MARGIN = 8
_SLOW_LINE = 4000
"""A longer line stays plain: nobody reads it by its colours, and cutting it up would cost a key press."""


class CodeView(LinesView[Document]):
    """A document with syntax colours and remarks behind lines."""

    def __init__(self, content: Document, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(content, id=id, classes=classes)
        self._spans: dict[int, list[Span]] = {}
        self._wanted: dict[int, Region] = {}
        self._working = False

    def show(self, content: Document, cursor: int | None = None) -> None:
        self._spans = {}
        self._wanted = {}
        super().show(content, cursor)

    @property
    def gutter_width(self) -> int:
        return 1 + self._digits + (1 if self._digits else 0)

    @property
    def _digits(self) -> int:
        first = self.content.first_number
        return len(str(first + self.content.count)) if first is not None else 0

    def content_width(self) -> int:
        notes = max(
            (cells(self.content.lines[row]) + cells(note) + 5 for row, note in self.content.notes.items()),
            default=0,
        )
        return max(self.content.width, notes) + self.gutter_width + 1

    def row_state(self, row: int) -> object:
        if row in self._spans:
            return True
        chunk = self.content.chunk_of(row)
        if chunk is not None and chunk.first not in self._wanted:
            if not self._wanted:
                self.call_next(self._colour)
            self._wanted[chunk.first] = chunk
        return False

    def draw_row(self, row: int, width: int, base: Style) -> list[Segment]:
        segments = []
        if self._digits:
            number = f"{row + (self.content.first_number or 0):>{self._digits}} "
            segments.append(Segment(number, base + self.style("lines--gutter", partial=True)))
            width -= len(number)
        return segments + self._draw_text(row, width, base)

    def _draw_text(self, row: int, width: int, base: Style) -> list[Segment]:
        line = self.content.lines[row]
        layers: list[Layer] = []
        if len(line) < _SLOW_LINE:
            layers += [
                (a, b, self.style(f"syntax--{role}", partial=True)) for a, b, role in self._spans.get(row, ())
            ]
        layers += [
            (a, b, self.style(f"tone--{tone}", partial=True))
            for a, b, tone in self.content.tones.get(row, ())
            if tone
        ]
        layers += self.match_layers(row, line)
        if note := clean(self.content.notes.get(row, "")):
            layers.append((len(line), len(line) + len(note) + 3, self.style("code--note", partial=True)))
            line = f"{line}   {note}"
        left = round(self.scroll_offset.x)
        more = Segment("…", base + self.style("lines--gutter", partial=True))
        if not line.isascii():
            return _crop(segments_of(line, base, layers), left, width, more)
        window = line[left : left + width]
        cut = len(line) > left + width
        inside = [(a - left, b - left, style) for a, b, style in layers if b > left and a < left + width]
        segments = segments_of(window[:-1] if cut else window, base, inside)
        return (
            [*segments, Segment("…", base + self.style("lines--gutter", partial=True))] if cut else segments
        )

    # -- colours

    def _colour(self) -> None:
        """Start a thread on what was drawn plain; what is out of sight by now is dropped."""
        if self._working or not self._wanted:
            return
        top = round(self.scroll_offset.y)
        seen = range(top - _WINDOW_MARGIN, top + self.page + _WINDOW_MARGIN)
        chunks = [
            chunk for chunk in self._wanted.values() if chunk.first <= seen.stop and chunk.last >= seen.start
        ]
        self._wanted = {chunk.first: chunk for chunk in chunks}
        if chunks:
            self._working = True
            start(self, partial(self._highlight, self.content, chunks), "colour")

    def _highlight(self, document: Document, chunks: list[Region]) -> None:
        from inspector.present.highlight import highlight

        results = []
        try:
            for chunk in chunks:
                lines = document.lines[chunk.first : chunk.last + 1]
                results.append((chunk.first, highlight(lines, chunk.language)))
        finally:
            self.call_later(self._coloured, document, results)

    def _coloured(self, document: Document, results: list[tuple[int, list[list[Span]]]]) -> None:
        """A stretch of `document` was coloured."""
        self._working = False
        if document is self.content:
            for first, spans in results:
                self._wanted.pop(first, None)
                self._spans.update(enumerate(spans, first))
            self.refresh()
        self._colour()


def _crop(segments: list[Segment], left: int, width: int, more: Segment) -> list[Segment]:
    """Cells `left` to `left + width` of characters that may be two cells wide; `more` ends what is cut."""
    strip = Strip(segments)
    if strip.cell_length <= left + width:
        return list(strip.crop(left, left + width))
    return [*strip.crop(left, left + width - 1), more]
