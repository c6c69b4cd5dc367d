"""The runs below a folder, or a page that says how to get one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message

from inspector.readers.locate import Located
from inspector.tui.actions import bindings
from inspector.tui.threads import start
from inspector.tui.views.document import message_document
from inspector.tui.views.runs import START_PAGE, RunSketch, runs_table, short_name
from inspector.tui.widgets.code_view import CodeView
from inspector.tui.widgets.lines_view import LinesView
from inspector.tui.widgets.table_view import TableView

from .base import InspectorScreen


class RunsScreen(InspectorScreen):
    """Names at once; versions, graphs and dates when a thread has looked."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("runs")

    class Sketched(Message):
        def __init__(self, sketches: dict[str, RunSketch]) -> None:
            super().__init__()
            self.sketches = sketches

    def __init__(self, located: Sequence[Located], below: str) -> None:
        super().__init__()
        self._located = {run.shown: run for run in located}
        self._below = below
        self._sketches: dict[str, RunSketch] = {}

    def compose_body(self) -> ComposeResult:
        if self._located:
            yield TableView(runs_table(list(self._located.values()), self._below, {}), id="runs")
        else:
            yield CodeView(message_document("No runs here", START_PAGE), id="start")

    def on_mount(self) -> None:
        name = short_name(self._below or ".", "")
        count = len(self._located)
        self.headline.show(f"inspector · {name}" if count else "inspector")
        if count:
            self.call_after_refresh(start, self, self._sketch, "sketch")

    def _sketch(self) -> None:
        from inspector.tui.loading import sketch_run

        for run in self._located.values():
            self.post_message(self.Sketched({run.shown: sketch_run(run)}))

    def on_runs_screen_sketched(self, message: Sketched) -> None:
        self._sketches.update(message.sketches)
        table = runs_table(list(self._located.values()), self._below, self._sketches)
        self.query_one("#runs", TableView).update(table)

    def on_lines_view_opened(self, message: LinesView.Opened) -> None:
        self.action_open()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return bool(self._located) if action == "open" else super().check_action(action, parameters)

    def action_open(self) -> None:
        from .run import RunScreen

        key = self.query_one("#runs", TableView).key
        if key is not None:
            self.app.push_screen(RunScreen(self._located[key]))
