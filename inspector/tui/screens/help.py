"""`?`: what can be done here, made from the bindings that are active on the screen below."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from inspector.tui.actions import ASKING, bindings
from inspector.tui.help import MOUSE, HelpLine, help_columns
from inspector.tui.navigation import HelpTarget

_WIDE = 110


class HelpScreen(ModalScreen[None]):
    """Closes on what goes back, and on what opened it."""

    BINDINGS = bindings("scroll", "everywhere")

    def __init__(self, target: HelpTarget) -> None:
        super().__init__()
        self._sections = target.sections

    def compose(self) -> ComposeResult:
        columns = help_columns(self._sections, wide=self.app.size.width >= _WIDE)
        with VerticalScroll(id="help"):
            yield Static("What can be done here", id="help-title")
            with Horizontal(id="help-columns"):
                for column in columns:
                    yield Static(self._text(column), classes="help-column")
            yield Static(f"{ASKING}\n\n{MOUSE}", id="help-mouse")

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

    def action_scroll_down(self) -> None:
        self.query_one("#help", VerticalScroll).scroll_relative(y=1, animate=False)

    def action_scroll_up(self) -> None:
        self.query_one("#help", VerticalScroll).scroll_relative(y=-1, animate=False)

    def action_back(self) -> None:
        self.dismiss()

    def action_help(self) -> None:
        self.dismiss()

    def action_themes(self) -> None:
        self.app.search_themes()

    async def action_quit(self) -> None:
        await self.app.action_quit()
