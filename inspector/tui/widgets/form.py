"""Lines of a form: a text to be typed, or one of a few choices. Imported when a form first opens."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.events import Click
from textual.message import Message
from textual.widget import Widget

from inspector.text import elide
from inspector.tui.actions import bindings
from inspector.tui.bounded import Drawn

from .clean_input import CleanInput
from .styles import component, plain_text, tone_style


class FormInput(CleanInput):
    """A one-line text; enter starts what the form is about, as everywhere on it."""

    BINDINGS = bindings("form")

    def __init__(self, placeholder: str, id: str) -> None:
        super().__init__(placeholder=placeholder, id=id, compact=True)


class CommandInput(FormInput):
    """Arrow keys bring back what was typed before, as in a shell."""

    BINDINGS = bindings("command")

    def __init__(self, placeholder: str, past: Sequence[str], id: str) -> None:
        super().__init__(placeholder, id)
        self._past = list(dict.fromkeys(past))
        self._place = -1
        self._typed = ""

    def action_recall(self, step: int) -> None:
        """Go `step` commands back; -1 goes forward, in the end to what was being typed."""
        place = self._place + step
        if not -1 <= place < len(self._past):
            return
        if self._place == -1:
            self._typed = self.value
        self._place = place
        self.value = self._typed if place == -1 else self._past[place]
        self.cursor_position = len(self.value)


class ChoiceLine(Drawn, Widget, can_focus=True):
    """All choices in a row, the chosen one marked; arrow keys or a click choose."""

    BINDINGS = bindings("form", "choice")

    class Chosen(Message):
        """Another choice was made."""

    def __init__(self, choices: Sequence[str], hint: str, id: str, start: int = 0) -> None:
        super().__init__(id=id)
        self._choices = tuple(choices)
        self._hint = hint
        self.chosen = start

    def action_choose(self, step: int) -> None:
        self._choose((self.chosen + step) % len(self._choices))

    def _choose(self, index: int) -> None:
        self.chosen = index
        self.refresh()
        self.post_message(self.Chosen())

    def _labels(self) -> list[tuple[int, str]]:
        """Index and text of what fits, from the first choice with which the chosen one can be seen."""
        labels = [f" {choice} " for choice in self._choices]
        first = 0
        while first < self.chosen and sum(map(len, labels[first : self.chosen + 1])) > self.size.width:
            first += 1
        return list(enumerate(labels))[first:]

    def render(self) -> Text:
        text = Text(no_wrap=True, end="")
        for index, label in self._labels():
            name = "tabs--here" if index == self.chosen else "tabs--other"
            text.append(label, component(self, name))
        room = self.size.width - text.cell_len - 2
        if room > len(self._hint) // 2:
            text.append(plain_text(f"  {elide(self._hint, room)}", tone_style(self, "dim")))
        return text

    def on_click(self, event: Click) -> None:
        place = event.x
        for index, label in self._labels():
            if place < len(label):
                self._choose(index)
                return
            place -= len(label)
