"""The user's own program, at the line where the graph broke or a function was compiled again."""

from __future__ import annotations

from textual.app import ComposeResult

from inspector.present.documents import Document
from inspector.tui.widgets.code_view import CodeView

from .base import InspectorScreen


class SourceScreen(InspectorScreen):
    """One file; `remark` says why its lines may not be what was compiled."""

    def __init__(self, document: Document, headline: str, remark: str) -> None:
        super().__init__()
        self._headline = headline
        self._remark = remark
        self._document = document
        self._code = CodeView(document, id="program")

    def compose_body(self) -> ComposeResult:
        yield self._code

    def on_mount(self) -> None:
        self.headline.show(self._headline)
        if self._remark:
            self.bar.remark(self._remark, "warn")
        self._code.show(self._document)
        self.focus_view(self._code)
        # Only after the first layout is it known how many lines fit above the one that matters.
        self.call_after_refresh(self._code.bring_into_sight)
