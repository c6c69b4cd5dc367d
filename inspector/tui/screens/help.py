"""`?`: what can be done here, made from the bindings that are active on the screen below."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from inspector.present.documents import message_document
from inspector.tui.actions import ASKING, bindings, key_text
from inspector.tui.bounded import Bounded
from inspector.tui.help import MOUSE, HelpLine, help_columns
from inspector.tui.navigation import HelpTarget, Open, SourceTarget

_WIDE = 110


class Overlay(Bounded, ModalScreen[None]):
    """A page over the screen below, which scrolls in a container with the id `help`."""

    def action_scroll_down(self) -> None:
        self.query_one("#help", VerticalScroll).scroll_relative(y=1, animate=False)

    def action_scroll_up(self) -> None:
        self.query_one("#help", VerticalScroll).scroll_relative(y=-1, animate=False)


class HelpScreen(Overlay):
    """What the words under the cursor mean, and what can be done; closes on what goes back."""

    BINDINGS = bindings("scroll", "everywhere")

    def __init__(self, target: HelpTarget) -> None:
        super().__init__()
        self._sections = target.sections
        self._terms = target.terms

    def compose(self) -> ComposeResult:
        columns = help_columns(self._sections, wide=self.app.size.width >= _WIDE)
        with VerticalScroll(id="help"):
            if self._terms:
                yield Static("Words on this line", classes="help-title")
                yield Static(self._meanings(), id="help-terms")
            yield Static("What can be done here", classes="help-title")
            with Horizontal(id="help-columns"):
                for column in columns:
                    yield Static(self._text(column), classes="help-column")
            again = f"{key_text(self.app, 'help')} again: every word of these screens explained."
            yield Static(f"{ASKING}\n\n{MOUSE}\n{again}", id="help-mouse")

    def _meanings(self) -> Text:
        text = Text()
        for term, meaning in self._terms:
            text.append(f"{term}  ", "bold").append(f"{meaning}\n")
        text.rstrip()
        return text

    def _text(self, sections: list[list[HelpLine]]) -> Group:
        """Keys in a column of their own; what they do wraps beside them."""
        width = max((len(line.keys) for section in sections for line in section), default=0)
        key = self.app.theme_variables.get("accent", "")
        style = f"bold {key}" if key.startswith("#") else "bold"
        parts: list[Text | Table] = []
        for section in sections:
            for line in section:
                if not line.keys:
                    parts.append(Text(f"\n{line.text}" if parts else line.text, "bold"))
                    parts.append(grid := Table.grid(padding=(0, 2, 0, 0)))
                    grid.add_column(justify="right", style=style, min_width=width, no_wrap=True)
                else:
                    grid.add_row(Text(line.keys), Text(line.text))
        return Group(*parts)

    def action_back(self) -> None:
        self.dismiss()

    def action_help(self) -> None:
        """All words, in place of this."""
        from inspector.present.glossary import glossary

        self.dismiss()
        document = message_document("Glossary", glossary())
        self.app.post_message(Open(SourceTarget(document, "inspector · glossary")))

    def action_themes(self) -> None:
        self.app.search_themes()

    async def action_quit(self) -> None:
        await self.app.action_quit()
