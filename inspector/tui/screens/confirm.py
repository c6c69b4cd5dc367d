"""The one question that is asked: replay executes code that came with the run."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from inspector.tui.bounded import Bounded
from inspector.tui.widgets.styles import plain_text


class ConfirmScreen(Bounded, ModalScreen[bool]):
    """Yes only by `y`; everything else that closes it is a no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes", show=False),
        Binding("n,escape,backspace,q,enter", "dismiss(False)", "No", show=False),
    ]

    def __init__(self, question: str, remark: str) -> None:
        super().__init__()
        self._question = question
        self._remark = remark

    def compose(self) -> ComposeResult:
        with Vertical(id="confirm"):
            yield Static(plain_text(self._question), id="confirm-question")
            with VerticalScroll(id="confirm-scroll"):
                yield Static(plain_text(self._remark), id="confirm-remark")
            yield Static("y  yes        n  no", id="confirm-keys")
