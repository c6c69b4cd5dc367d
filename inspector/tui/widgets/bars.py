"""The one-line bars: identity on top, the selection's chain, the keys that matter here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.style import Style
from rich.text import Text
from textual.events import Click
from textual.message import Message
from textual.widget import Widget

from inspector.present.chain import Chain
from inspector.present.spans import Span, Tone
from inspector.text import cells, elide, pad
from inspector.tui.actions import Action, key_name, keys_of
from inspector.tui.bounded import Drawn

from .styles import component, ink, plain_text, tone_style


class Headline(Drawn, Widget):
    """Identity at the left, the verdict at the right."""

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._left = ""
        self._right = Span("")

    def show(self, left: str, right: Span | None = None) -> None:
        right = right or Span("")
        if (left, right) != (self._left, self._right):
            self._left, self._right = left, right
            self.refresh()

    def render(self) -> Text:
        width = self.size.width
        right = self._right.text
        left = elide(self._left, max(0, width - cells(right) - (2 if right else 0)))
        bold = Style(bold=True)
        tone = bold + tone_style(self, self._right.tone)
        return _row(pad(left, width - cells(right)), bold, right, tone)


def _row(left: str, left_style: Style, right: str = "", right_style: Style | None = None) -> Text:
    text = Text(no_wrap=True, end="").append(plain_text(left, left_style))
    return text.append(plain_text(right, right_style or left_style))


class PaneTabs(Drawn, Widget):
    """The panes of a graph with their numbers; a click chooses one."""

    class Chosen(Message):
        def __init__(self, pane: str) -> None:
            super().__init__()
            self.pane = pane

    def __init__(self, labels: Mapping[str, str], id: str | None = None) -> None:
        super().__init__(id=id)
        self._labels = labels
        self._here = ""

    def show(self, pane: str) -> None:
        self._here = pane
        self.refresh()

    def get_content_width(self, _container: object, _viewport: object) -> int:
        return sum(map(len, self._labels.values()))

    def render(self) -> Text:
        text = Text(no_wrap=True, end="")
        for pane, label in self._labels.items():
            name = "tabs--here" if pane == self._here else "tabs--other"
            text.append(label, component(self, name))
        return text

    def on_click(self, event: Click) -> None:
        place = event.x
        for pane, label in self._labels.items():
            if place < len(label):
                self.post_message(self.Chosen(pane))
                return
            place -= len(label)


class ChainBar(Drawn, Widget):
    """The selection in words, with its evidence; or a remark of the moment, such as what was copied."""

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._chain = Chain(())
        self._remark: Span | None = None

    def show(self, chain: Chain) -> None:
        self._remark = None
        self._chain = chain
        self.refresh()

    def remark(self, text: str, tone: Tone = "dim") -> None:
        self._remark = Span(text, tone)
        self.refresh()

    @property
    def text(self) -> str:
        return self._remark.text if self._remark else self._chain.text(self.size.width)[0]

    def render(self) -> Text:
        width = self.size.width
        if self._remark is not None:
            tone = tone_style(self, self._remark.tone or "dim")
            return _row(elide(self._remark.text, width), tone)
        left, right = self._chain.text(width)
        return _row(pad(left, width - cells(right)), Style.null(), right, tone_style(self, "dim"))


class KeyBar(Drawn, Widget):
    """The keys of the footer, in the order of `actions`, as many as fit; a click does what the key does."""

    def __init__(self, actions: Sequence[Action], id: str | None = None) -> None:
        super().__init__(id=id)
        self._actions = actions

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.refresh())

    def _items(self) -> list[tuple[str, str]]:
        active = self.screen.active_bindings
        labelled = [action for action in self._actions if action.label]
        here = [(action, keys[0]) for action in labelled if (keys := keys_of(action, active))]
        # While a search is typed, letters are text and only the keys that end it mean something.
        typing = [item for item in here if item[0].scope == "search"]
        return [(key, action.label) for action, key in typing or here]

    def _fitting(self) -> list[tuple[str, str]]:
        """All that fit; help and quit are the last to be given up."""
        items = self._items()
        while (
            items and sum(len(key_name(key)) + len(label) + 3 for key, label in items) > self.size.width + 1
        ):
            items.pop(max(0, len(items) - 4) if len(items) > 4 else len(items) - 1)
        return items

    def render(self) -> Text:
        key_style: Style = ink(self, "keys--key")
        label_style: Style = ink(self, "keys--label")
        text = Text(no_wrap=True, end="")
        for key, label in self._fitting():
            text.append(f"{key_name(key)} ", key_style)
            text.append(f"{label}  ", label_style)
        return text

    def on_click(self, event: Click) -> None:
        place = event.x
        for key, label in self._fitting():
            size = len(key_name(key)) + len(label) + 3
            if place < size:
                self.app.simulate_key(key)
                return
            place -= size
