"""A line of text to be typed, or brought back from a history: what a terminal would obey is drawn as a sign
and stays what it is in the value."""

from __future__ import annotations

from rich.segment import Segment
from textual.strip import Strip
from textual.widgets import Input

from inspector.text import escaped, is_printable
from inspector.tui.bounded import Drawn

_SIGN = "\N{REPLACEMENT CHARACTER}"


class CleanInput(Drawn, Input):
    """Textual's input writes to the terminal whatever its value holds."""

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        if is_printable(strip.text):
            return strip
        shown = [
            Segment(escaped(segment.text, lambda _char: _SIGN), segment.style, segment.control)
            for segment in strip
        ]
        return Strip(shown).adjust_cell_length(strip.cell_length)
