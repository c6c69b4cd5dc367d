"""The base of every text and table: rows drawn one by one, a cursor, marks, search, a selection of lines.

Only the rows on screen are drawn (Textual's line API), so a file of 100,000 lines scrolls like one of 100.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.cache import LRUCache
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from inspector.present.content import Content, Rows, contains
from inspector.text import cells, clean, elide, pad
from inspector.tui.actions import bindings
from inspector.tui.bounded import Drawn
from inspector.tui.search import Matches, Searcher, find_in

from .styles import component, ink

if TYPE_CHECKING:
    from inspector.model.links import Ref
    from inspector.present.spans import Line

C = TypeVar("C", bound=Content)

Layer = tuple[int, int, Style]
"""Start, end and style; where layers overlap, the later one wins."""

_KEPT_STRIPS = 512
_MARGIN = 4
"""Rows kept in sight around what a selection elsewhere, or a search, brings into sight."""


class LinesView(Drawn, ScrollView, Generic[C], can_focus=True):
    """Shows one `Content`. A subclass says how a row is drawn."""

    BINDINGS = bindings("move")

    class Moved(Message):
        """The user moved the cursor."""

        def __init__(self, view: LinesView[Any], row: int) -> None:
            super().__init__()
            self.view = view
            self.row = row

    class Opened(Message):
        """The user opened a row by a double click."""

        def __init__(self, view: LinesView[Any], row: int) -> None:
            super().__init__()
            self.view = view
            self.row = row

    class Scrolled(Message):
        """Other rows are on screen now."""

    HEADER_ROWS = 1

    def __init__(self, content: C, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.content = content
        self.cursor = 0
        self.range_start: int | None = None
        self.marks: tuple[Rows, ...] = ()
        self.matches: Matches | None = None
        self.match_index = -1
        self._searcher: Searcher | None = None
        self._generation = 0
        self._strips: LRUCache[tuple[Any, ...], Strip] = LRUCache(_KEPT_STRIPS)
        self._styles: dict[tuple[str, bool], Style] = {}

    # -- what a subclass defines

    def draw_row(self, row: int, width: int, base: Style) -> list[Segment]:
        """The row's segments, `width` cells in all, on the style `base`."""
        raise NotImplementedError

    def row_state(self, _row: int) -> object:
        """Whatever else changes how a row looks; part of the key under which it is kept."""
        return None

    def content_width(self) -> int:
        return self.content.width

    def line_of(self, row: int) -> int:
        """The screen line, counted from the content's first, at which a row begins."""
        return row

    def row_on(self, line: int) -> tuple[int, int]:
        """The row that a screen line shows, and which of its lines that is."""
        return line, 0

    def draw_line(self, row: int, _line: int, width: int, base: Style) -> list[Segment]:
        """One of a row's screen lines."""
        return self.draw_row(row, width, base)

    # -- content

    def show(self, content: C, cursor: int | None = None) -> None:
        """Replace the content; search, marks and selection belong to the old one."""
        self.content = content
        self.range_start = None
        self.marks = ()
        self.matches = None
        self._searcher = None
        self.cursor = self._clamp(content.start if cursor is None else cursor)
        self.redraw()
        self.measure()
        self._scroll(x=0, y=0)
        self.keep_cursor_visible()

    def update(self, content: C) -> None:
        """Replace the content by a newer state of the same: cursor, scrolling and search stay."""
        self.content = content
        self._searcher = None
        self.cursor = self._clamp(self.cursor)
        self.redraw()
        self.measure()

    def measure(self) -> None:
        self.virtual_size = Size(self.content_width(), self.line_of(self.content.count) + self.HEADER_ROWS)

    def redraw(self) -> None:
        """Forget all drawn rows."""
        self._generation += 1
        self.refresh()

    @property
    def page(self) -> int:
        """Rows that fit below the header."""
        return max(1, self.scrollable_content_region.height - self.HEADER_ROWS)

    @property
    def inner_width(self) -> int:
        """Cells beside the scrollbar."""
        return self.scrollable_content_region.width

    @property
    def ref(self) -> Ref | None:
        """What the row under the cursor stands for."""
        return self.content.ref_at(self.cursor) if self.content.count else None

    def _clamp(self, row: int) -> int:
        return max(0, min(row, self.content.count - 1))

    def _scroll(self, x: float | None = None, y: float | None = None) -> None:
        """Scroll at once; `force`, because the scrollbar of new content is only known after a layout."""
        self.scroll_to(x, y, animate=False, force=True)

    # -- cursor

    def move_to(self, row: int, tell: bool = True, jump: bool = False) -> None:
        """Put the cursor on `row` and bring it into sight; a `jump` shows what is around it too."""
        row = self._clamp(row)
        moved = row != self.cursor
        self.cursor = row
        if jump:
            self.bring_into_sight()
        else:
            self.keep_cursor_visible()
        if moved:
            self.refresh()
            if tell:
                self.post_message(self.Moved(self, row))

    def keep_cursor_visible(self) -> None:
        top = round(self.scroll_offset.y)
        first, end = self.line_of(self.cursor), self.line_of(self.cursor + 1)
        if first < top or end - first >= self.page:
            self._scroll(y=first)
        elif end > top + self.page:
            self._scroll(y=end - self.page)

    def bring_into_sight(self, around: bool = False) -> None:
        """Like `keep_cursor_visible`, but a cursor out of sight gets some rows above and many below;
        with `around` one in sight too."""
        top = round(self.scroll_offset.y)
        first, end = self.line_of(self.cursor), self.line_of(self.cursor + 1)
        if around or not top <= first < end <= top + self.page - min(_MARGIN, self.page - 1):
            self._scroll(y=max(0, first - min(_MARGIN, self.page // 3)))

    def mark(self, rows: tuple[Rows, ...]) -> None:
        """Highlight rows that belong to the selection."""
        if rows != self.marks:
            self.marks = rows
            self.refresh()

    def reveal(self, rows: tuple[Rows, ...]) -> None:
        """Mark what belongs to a selection made elsewhere; go to the first, unless the cursor is on one."""
        self.mark(rows)
        if rows and not contains(rows, self.cursor):
            self.cursor = self._clamp(rows[0][0])
            self.bring_into_sight()
            self.refresh()

    def _from(self) -> int:
        """The row that keys go on from: after the mouse wheel the cursor may be out of sight."""
        top = round(self.scroll_offset.y)
        return max(self.row_on(top)[0], min(self.cursor, self.row_on(top + self.page - 1)[0]))

    def action_step(self, rows: int) -> None:
        self.move_to(self._from() + rows)

    def _step_lines(self, lines: int) -> None:
        start = self._from()
        row = self.row_on(max(0, self.line_of(start) + lines))[0]
        self.move_to(row if row != start else start + (1 if lines > 0 else -1))

    def action_half_page(self, direction: int) -> None:
        self._step_lines(direction * max(1, self.page // 2))

    def action_page(self, direction: int) -> None:
        self._step_lines(direction * self.page)

    def action_top(self) -> None:
        self.move_to(0)

    def action_bottom(self) -> None:
        self.move_to(self.content.count - 1)

    def action_scroll_left(self) -> None:
        self._scroll(x=max(0, self.scroll_offset.x - 8))

    def action_scroll_right(self) -> None:
        self._scroll(x=self.scroll_offset.x + 8)

    def action_line_start(self) -> None:
        self._scroll(x=0)

    def action_line_end(self) -> None:
        self._scroll(x=self.max_scroll_x)

    def step_mark(self, direction: int) -> bool:
        """Go to the next or previous stretch of marks; False where there is none."""
        firsts = [first for first, _ in self.marks]
        if direction > 0:
            target = next((first for first in firsts if first > self.cursor), firsts[0] if firsts else None)
        else:
            target = next(
                (first for first in reversed(firsts) if first < self.cursor), firsts[-1] if firsts else None
            )
        if target is None:
            return False
        self.move_to(target, tell=False, jump=True)
        return True

    # -- selection of lines

    @property
    def selected(self) -> Rows | None:
        """Rows of the selection, None where there is none."""
        if self.range_start is None:
            return None
        return min(self.range_start, self.cursor), max(self.range_start, self.cursor)

    def toggle_selection(self) -> None:
        self.range_start = self.cursor if self.range_start is None else None
        self.refresh()

    def copied_text(self) -> str:
        """The selected rows, else the row under the cursor."""
        if not self.content.count:
            return ""
        first, last = self.selected or (self.cursor, self.cursor)
        return "\n".join(self.content.text(row) for row in range(first, last + 1))

    # -- search

    def search(self, query: str, origin: int, top: float | None = None) -> None:
        """Find `query`, and go to the first match at or below `origin`; where there is none, back to it,
        with the row `top` at the upper edge."""
        if self._searcher is None:
            self._searcher = Searcher(self.content)
        self.matches = self._searcher.search(query) if query else None
        self.match_index = self.matches.nearest(origin) if self.matches else -1
        self.redraw()
        self._go_to_match(origin)
        if top is not None and (self.matches is None or not self.matches.places):
            self._scroll(y=top)

    def step_match(self, direction: int) -> bool:
        """Next or previous match, round the end; False where nothing was to step to."""
        if self.matches is None or not self.matches.places:
            return False
        self.match_index = (self.match_index + direction) % len(self.matches.places)
        self.redraw()
        self._go_to_match(self.cursor)
        return True

    def _go_to_match(self, otherwise: int) -> None:
        if self.matches is None or not self.matches.places:
            self.move_to(otherwise)
            return
        match = self.matches.places[self.match_index]
        self.move_to(match.row, jump=True)
        left, room = self.scroll_offset.x, self.inner_width - self.gutter_width - 1
        if room > 0 and not left <= match.start <= match.end <= left + room:
            self._scroll(x=max(0, match.end - room + 8) if match.end > room else 0)

    def match_layers(self, row: int, text: str) -> list[Layer]:
        """Styles of the matches in a row as it is displayed."""
        if self.matches is None or not self.matches.places:
            return []
        current = self.matches.places[self.match_index]
        layers = []
        for number, (start, end) in enumerate(find_in(text, self.matches.query)):
            here = current.row == row and (
                current.start == start or (number == 0 and len(text) < current.end)
            )
            layers.append((start, end, self.style("lines--match-current" if here else "lines--match")))
        return layers

    # -- mouse

    def _row_at(self, y: int) -> int | None:
        line = y - self.HEADER_ROWS + round(self.scroll_offset.y)
        inside = y >= self.HEADER_ROWS and line < self.line_of(self.content.count)
        return self.row_on(line)[0] if inside else None

    def on_mouse_down(self, event: events.MouseDown) -> None:
        row = self._row_at(event.y)
        if event.button == 1 and row is not None:
            self.range_start = None
            self.move_to(row)
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if event.button == 1 and self.app.mouse_captured is self:
            row = self._row_at(event.y)
            if row is not None and row != self.cursor:
                self.range_start = self.cursor if self.range_start is None else self.range_start
                self.move_to(row)

    def on_mouse_up(self) -> None:
        if self.app.mouse_captured is self:
            self.release_mouse()

    def on_click(self, event: events.Click) -> None:
        row = self._row_at(event.y)
        if event.chain == 2 and row is not None:
            self.post_message(self.Opened(self, row))

    # -- drawing

    @property
    def gutter_width(self) -> int:
        return 1

    def style(self, name: str, partial: bool = False) -> Style:
        """A component's style, looked up once for each theme; `partial`: without its background.

        The screen has them for all views: Textual works out components again whenever a widget's own
        state changes, and eight views with twenty each would make every change of focus slow.
        """
        key = (name, partial)
        if key not in self._styles:
            self._styles[key] = ink(self, name) if partial else component(self, name)
        return self._styles[key]

    @property
    def base_style(self) -> Style:
        key = ("", False)
        if key not in self._styles:
            self._styles[key] = self.rich_style
        return self._styles[key]

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self.call_after_refresh(self._restyle))

    def on_unmount(self) -> None:
        # What Textual calls then holds the view, its screen and the run for as long as the program lasts.
        self.app.theme_changed_signal.unsubscribe(self)

    def _restyle(self) -> None:
        self._styles.clear()
        self.redraw()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self.post_message(self.Scrolled())

    def on_resize(self) -> None:
        self.measure()
        self.bring_into_sight()
        self.post_message(self.Scrolled())

    def on_show(self) -> None:
        self.call_after_refresh(self.bring_into_sight)

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.inner_width
        if y < self.HEADER_ROWS:
            return self.header_strip(y, width)
        place = y - self.HEADER_ROWS + round(self.scroll_offset.y)
        if place >= self.line_of(self.content.count):
            return Strip.blank(width, self.base_style)
        row, line = self.row_on(place)
        selected = self.selected
        state = (
            row == self.cursor,
            self.has_focus,
            contains(self.marks, row),
            selected is not None and selected[0] <= row <= selected[1],
        )
        key = (self._generation, row, line, width, round(self.scroll_offset.x), state, self.row_state(row))
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = self._draw(row, line, width, *state)
        return strip

    def _draw(
        self, row: int, line: int, width: int, is_cursor: bool, focused: bool, marked: bool, ranged: bool
    ) -> Strip:
        if ranged:
            base = self.style("lines--range")
        elif is_cursor:
            base = self.style("lines--cursor-focus" if focused else "lines--cursor")
        elif marked:
            base = self.style("lines--mark")
        else:
            base = self.base_style
        # Signs and not colours alone tell cursor and marks: they stay where there are no colours.
        sign = "▸" if is_cursor and focused and not line else "▎" if marked else " "
        segments = [Segment(sign, base + self.style("lines--sign", partial=True))]
        segments += self.draw_line(row, line, width - 1, base)
        return Strip(map(_safe, segments)).adjust_cell_length(width, base)

    def header_strip(self, _y: int, width: int) -> Strip:
        """The title; at its right end the search, or where the cursor is."""
        base = self.style("lines--title-focus" if self.has_focus else "lines--title")
        info = self._info()
        room = width - cells(info) - 3
        title = elide(self.content.title, room) if room > 0 else ""
        segments = [
            Segment(pad(f" {title}", width - cells(info) - 1), base),
            Segment(f"{info} ", base + self.style("lines--info", partial=True)),
        ]
        return Strip(map(_safe, segments)).adjust_cell_length(width, base)

    def line_segments(self, row: int, line: Line, base: Style) -> list[Segment]:
        """A line with the styles of its tones, and of the matches in it."""
        layers: list[Layer] = []
        place = 0
        for span in line.spans:
            if span.tone:
                layers.append((place, place + len(span.text), self.style(f"tone--{span.tone}", partial=True)))
            place += len(span.text)
        text = line.text
        return segments_of(text, base, layers + self.match_layers(row, text))

    def _info(self) -> str:
        if self.matches is not None:
            return f"/{elide(self.matches.query, 20)}  {self.matches.label(self.match_index)}"
        count = self.content.count
        return f"{self.cursor + 1}/{count}" if count > self.page else ""


def _safe(segment: Segment) -> Segment:
    """The one way on screen for whatever a view shows: nothing in it is obeyed by the terminal."""
    text = clean(segment.text)
    return segment if text == segment.text else Segment(text, segment.style)


def segments_of(text: str, base: Style, layers: list[Layer]) -> list[Segment]:
    """`text` cut where layers begin and end, each piece with the styles over it."""
    if not layers:
        return [Segment(text, base)]
    cuts = sorted(
        {0, len(text), *(min(max(cut, 0), len(text)) for start, end, _ in layers for cut in (start, end))}
    )
    pieces: list[Segment] = []
    for start, end in pairwise(cuts):
        style = base
        for first, last, layer in layers:
            if first <= start and end <= last:
                style = style + layer
        pieces.append(Segment(text[start:end], style))
    return pieces
