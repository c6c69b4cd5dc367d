"""Program text: line numbers, colours that arrive from a thread after the plain text is on screen."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from inspector.present.documents import Document, Region
from inspector.text import cells, clean, fitting
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
        self._folded: tuple[Document, int, list[int]] | None = None

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

    # -- wrapped lines

    @property
    def wraps(self) -> bool:
        """Whether a line that is longer than the view goes on below, without a number."""
        return bool(getattr(self.app, "wraps", False))

    @property
    def _room(self) -> int:
        """Cells of text in a line, whether or not there is a scrollbar."""
        return max(8, self.outer_size.width - self.gutter_width - 1)

    @property
    def _starts(self) -> list[int]:
        """The screen line at which each row begins; last, how many there are."""
        if self._folded is None or self._folded[0] is not self.content or self._folded[1] != self._room:
            room = self._room
            counts = (len(_cuts(self._shown(row), room)) for row in range(self.content.count))
            self._folded = self.content, room, list(accumulate(counts, initial=0))
        return self._folded[2]

    def line_of(self, row: int) -> int:
        return self._starts[min(row, self.content.count)] if self.wraps else row

    def row_on(self, line: int) -> tuple[int, int]:
        if not self.wraps:
            return line, 0
        row = max(0, min(bisect_right(self._starts, line), self.content.count) - 1)
        return row, line - self._starts[row]

    def rewrap(self) -> None:
        """`wraps` is another; the cursor stays."""
        self.redraw()
        self.measure()
        self._scroll(x=0)
        self.keep_cursor_visible()

    def draw_line(self, row: int, line: int, width: int, base: Style) -> list[Segment]:
        if not self.wraps:
            return self.draw_row(row, width, base)
        text, layers = self._layers(row)
        cuts = [*_cuts(text, self._room), len(text)]
        first, end = cuts[line], cuts[line + 1]
        inside = [(a - first, b - first, style) for a, b, style in layers if b > first and a < end]
        number = self._number(row, base) if not line else [Segment(" " * (self.gutter_width - 1), base)]
        return [*number, *segments_of(text[first:end], base, inside)]

    def content_width(self) -> int:
        if self.wraps:
            return 0
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
        return [*self._number(row, base), *self._draw_text(row, width - self.gutter_width + 1, base)]

    def _number(self, row: int, base: Style) -> list[Segment]:
        if not self._digits:
            return []
        number = f"{row + (self.content.first_number or 0):>{self._digits}} "
        return [Segment(number, base + self.style("lines--gutter", partial=True))]

    def _shown(self, row: int) -> str:
        """A line, with the remark behind it."""
        note = clean(self.content.notes.get(row, ""))
        return f"{self.content.lines[row]}   {note}" if note else self.content.lines[row]

    def _layers(self, row: int) -> tuple[str, list[Layer]]:
        """A line as it is shown, and the styles over it."""
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
        text = self._shown(row)
        if len(text) > len(line):
            layers.append((len(line), len(text), self.style("code--note", partial=True)))
        return text, layers

    def _draw_text(self, row: int, width: int, base: Style) -> list[Segment]:
        line, layers = self._layers(row)
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
        top = self.row_on(round(self.scroll_offset.y))[0]
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


def _cuts(text: str, room: int) -> Sequence[int]:
    """Where each screen line of `room` cells begins in a text; an empty one has a line, too."""
    if text.isascii():
        return range(0, max(1, len(text)), room)
    cuts, place = [0], max(1, fitting(text, room))
    while place < len(text):
        cuts.append(place)
        place += max(1, fitting(text, room, place))
    return cuts


def _crop(segments: list[Segment], left: int, width: int, more: Segment) -> list[Segment]:
    """Cells `left` to `left + width` of characters that may be two cells wide; `more` ends what is cut."""
    strip = Strip(segments)
    if strip.cell_length <= left + width:
        return list(strip.crop(left, left + width))
    return [*strip.crop(left, left + width - 1), more]
