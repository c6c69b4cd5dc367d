"""Where a search is typed. In a module of its own: Textual's Input is imported when first needed."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from .clean_input import CleanInput


class SearchBox(CleanInput):
    """A one-line input that says how it was left."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "End the search", show=False)]

    class Left(Message):
        """`keep`: left by enter, the matches stay; else by escape."""

        def __init__(self, keep: bool) -> None:
            super().__init__()
            self.keep = keep

    def __init__(self) -> None:
        super().__init__(placeholder="search: enter keeps the matches, esc drops them", compact=True)

    def action_leave(self) -> None:
        self.post_message(self.Left(False))

    async def action_submit(self) -> None:
        self.post_message(self.Left(True))
