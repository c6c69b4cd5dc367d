"""The user's own program, at the line where the graph broke or a function was compiled again."""

from __future__ import annotations

from textual.app import ComposeResult

from inspector.tui.navigation import SourceTarget
from inspector.tui.widgets.code_view import CodeView

from .base import InspectorScreen


class SourceScreen(InspectorScreen):
    """One file."""

    def __init__(self, target: SourceTarget) -> None:
        super().__init__()
        self._target = target
        self._code = CodeView(target.document, id="program")

    def compose_body(self) -> ComposeResult:
        yield self._code

    def on_mount(self) -> None:
        self.headline.show(self._target.headline)
        if self._target.remark:
            self.bar.remark(self._target.remark, "warn")
        self._code.show(self._target.document)
        self.focus_view(self._code)
        # Only after the first layout is it known how many lines fit above the one that matters.
        self.call_after_refresh(self._code.bring_into_sight)
