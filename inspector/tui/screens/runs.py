"""The runs below a folder, or a page that says how to get one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from textual.app import ComposeResult

from inspector.model.problem import InspectorError
from inspector.present.documents import message_document
from inspector.present.rows import RunRow
from inspector.present.runs import ORDERS, START_PAGE, Order, RunSketch, runs_table, short_name
from inspector.readers.locate import Located, find_runs
from inspector.tui.actions import bindings
from inspector.tui.navigation import CaptureTarget, DiffTarget, DoctorTarget, Open, RunTarget
from inspector.tui.widgets.code_view import CodeView
from inspector.tui.widgets.table_view import TableView

from .base import InspectorScreen


class RunsScreen(InspectorScreen):
    """Names at once; versions, graphs and dates when a thread has looked."""

    BINDINGS = bindings("runs")

    def __init__(self, located: Sequence[Located], below: str) -> None:
        super().__init__()
        self._located = {run.shown: run for run in located}
        self._below = below
        self._sketches: dict[str, RunSketch] = {}
        self._captured = False
        self._order: Order = ORDERS[0]
        self._known = False
        self._marked = ""
        """The run, by what it is shown as, that the next one to be marked is compared with."""

    def compose_body(self) -> ComposeResult:
        yield TableView(runs_table(list(self._located.values()), self._below, {}), id="runs")
        yield CodeView(message_document("No runs here", START_PAGE), id="start")

    def on_mount(self) -> None:
        self._arrange()
        self.call_after_refresh(self._begin_sketching)

    def _arrange(self) -> None:
        """The table where there is a run, else the page that says how to get one."""
        any_run = bool(self._located)
        table, page = self.query_one("#runs", TableView), self.query_one("#start", CodeView)
        table.display, page.display = any_run, not any_run
        self.focus_view(table if any_run else page)
        self.headline.show(f"inspector · {short_name(self._below or '.', '')}" if any_run else "inspector")

    def _begin_sketching(self) -> None:
        self.start(self._sketch, "sketch", partial(self.failed, "runs cannot be looked at"))

    def _sketch(self) -> None:
        from inspector.views.loading import sketch_run

        for run in tuple(self._located.values()):
            self.call_later(self._sketched, run.shown, sketch_run(run))
        self.call_later(self._all_sketched)

    def on_screen_resume(self) -> None:
        """Runs that were captured meanwhile are listed too, and what was seen of the others is seen again."""
        if self._captured:
            self.start(self._list_again, "list", partial(self.failed, "runs cannot be listed"))

    def _list_again(self) -> None:
        with suppress(InspectorError):
            self.call_later(self._listed, find_runs(self._below or None))

    def _listed(self, located: Sequence[Located]) -> None:
        self._located = {run.shown: run for run in located}
        self._show_table()
        self._arrange()
        self._begin_sketching()

    def _show_table(self) -> None:
        order = self._order if self._known else "name"
        table = runs_table(list(self._located.values()), self._below, self._sketches, order)
        self.query_one("#runs", TableView).update(table)
        self._show_marks()

    def action_sort(self) -> None:
        """By what comes next."""
        self._order = ORDERS[(ORDERS.index(self._order) + 1) % len(ORDERS)]
        self._show_table()
        self.query_one("#runs", TableView).move_to(0)

    def action_mark(self) -> None:
        """The first of two; the second opens the comparison, with the run that started earlier as A."""
        key = self.query_one("#runs", TableView).key
        if not isinstance(key, RunRow):
            return
        both = [name for name in (self._marked, key.name) if name in self._located]
        self._marked = "" if self._marked else key.name
        if len(set(both)) > 1:
            both.sort(key=lambda name: self._sketches[name].started if name in self._sketches else 0.0)
            self.post_message(Open(DiffTarget(*(self._located[name] for name in both))))
        elif self._marked:
            self.bar.remark(f"marked: {self.key('mark')} on another run compares them, here it ends that")
        else:
            self.bar.remark("not marked any more")
        self._show_marks()

    def _show_marks(self) -> None:
        table = self.query_one("#runs", TableView)
        row = table.content.by_key.get(RunRow(self._marked))
        table.mark(((row, row),) if row is not None else ())

    def _all_sketched(self) -> None:
        """Only now in order: rows would jump while one after the other becomes known."""
        self._known = True
        table = self.query_one("#runs", TableView)
        first = table.cursor == 0
        self._show_table()
        if first:
            table.move_to(0)

    def _sketched(self, shown: str, sketch: RunSketch) -> None:
        self._sketches[shown] = sketch
        self._show_table()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return (
            bool(self._located)
            if action in ("open", "mark", "sort")
            else super().check_action(action, parameters)
        )

    def action_capture(self) -> None:
        self._captured = True
        self.post_message(Open(CaptureTarget()))

    def action_doctor(self) -> None:
        self.post_message(Open(DoctorTarget()))

    def action_open(self) -> None:
        key = self.query_one("#runs", TableView).key
        if isinstance(key, RunRow):
            self.post_message(Open(RunTarget(self._located[key.name])))
