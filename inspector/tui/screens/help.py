"""`?`: what can be done here, made from the bindings that are active on the screen below."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from inspector.tui.help import MOUSE, HelpLine, help_columns, help_lines

_WIDE = 110


class HelpScreen(ModalScreen[None]):
    """Closes on any of the keys that would leave it, the one that opened it included."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace,question_mark,f1,enter,q", "dismiss", "Close", show=False),
        Binding("j,down", "scroll(1)", "Down", show=False),
        Binding("k,up", "scroll(-1)", "Up", show=False),
    ]

    def __init__(self, below: Screen[Any]) -> None:
        super().__init__()
        self._active = {item.binding.action for item in below.active_bindings.values() if item.enabled}

    def compose(self) -> ComposeResult:
        sections = help_lines(self._active)
        columns = help_columns(sections, wide=self.app.size.width >= _WIDE)
        with VerticalScroll(id="help"):
            yield Static("What can be done here", id="help-title")
            with Horizontal(id="help-columns"):
                for column in columns:
                    yield Static(self._text(column), classes="help-column")
            yield Static(MOUSE, id="help-mouse")

    def _text(self, sections: list[list[HelpLine]]) -> Text:
        width = max((len(line.keys) for section in sections for line in section), default=0)
        key = self.app.theme_variables.get("accent", "")
        text = Text()
        for section in sections:
            for line in section:
                if line.keys:
                    text.append(f"{line.keys:>{width}}  ", f"bold {key}" if key.startswith("#") else "bold")
                    text.append(f"{line.text}\n")
                else:
                    text.append(f"\n{line.text}\n" if text else f"{line.text}\n", "bold")
        text.rstrip()
        return text

    def action_scroll(self, direction: int) -> None:
        self.query_one("#help", VerticalScroll).scroll_relative(y=direction, animate=False)
