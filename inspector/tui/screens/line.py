"""A row that has no room on its screen, whole."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from inspector.text import clean
from inspector.tui.actions import bindings
from inspector.tui.navigation import LineTarget

from .help import Overlay


class LineScreen(Overlay):
    """Closes on what goes back, and on what opened it."""

    BINDINGS = bindings("scroll", "line")

    def __init__(self, target: LineTarget) -> None:
        super().__init__()
        self._parts = target.parts

    def compose(self) -> ComposeResult:
        text = Text(overflow="fold")
        for title, part in self._parts:
            text.append(f"{title}  " if title else "", "bold").append(f"{clean(part)}\n")
        text.rstrip()
        with VerticalScroll(id="help"):
            yield Static(text, id="whole-line")

    def action_close(self) -> None:
        self.dismiss()
