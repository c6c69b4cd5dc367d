"""A capture while it runs: graphs as they are compiled, and what the program prints."""

from __future__ import annotations

from typing import Any

from textual.app import ComposeResult
from textual.containers import Container

from inspector.capture.progress import duration_text
from inspector.model.run import RunFacts
from inspector.present.capture import live_facts, live_headline, live_table, outcome_text
from inspector.present.documents import message_document
from inspector.present.spans import Span, Tone
from inspector.readers.locate import Located
from inspector.tui.actions import bindings
from inspector.tui.capturing import Sighting
from inspector.tui.navigation import LiveTarget, Open, RunTarget
from inspector.tui.widgets.code_view import CodeView
from inspector.tui.widgets.lines_view import LinesView
from inspector.tui.widgets.table_view import TableView

from .base import InspectorScreen

_TICK_SECONDS = 0.1
_WIDE = 120


class LiveScreen(InspectorScreen):
    """Draws what the job has seen, ten times a second at most; opens the run when the job has ended."""

    BINDINGS = bindings("live")

    def __init__(self, target: LiveTarget) -> None:
        super().__init__()
        self.job = target.job
        self._sighting: Sighting | None = None
        self._generation = -1
        self._told_end = False
        self._asked = 0
        self._said = ""
        self._table = TableView(live_table((), {}, live_facts((), ())), id="live-graphs")
        self._output = CodeView(message_document("Output", "nothing printed yet"), id="live-output")
        self._show_output = False

    def compose_body(self) -> ComposeResult:
        with Container(id="panes"):
            yield self._table
            yield self._output

    def on_mount(self) -> None:
        self._arrange()
        self.bar.remark(self.job.command)
        self._tick()
        self.set_interval(_TICK_SECONDS, self._tick)

    # -- what there is to see

    def _tick(self) -> None:
        job = self.job
        if job.stop_requests != self._asked:
            self._asked = job.stop_requests
            self.refresh_bindings()
        if job.said != self._said:
            self._said = job.said
            self.bar.remark(job.said)
        if job.sighting is not self._sighting:
            self._sighting = job.sighting
            self._follow_graphs()
        if job.output.generation != self._generation:
            self._generation = job.output.generation
            self._follow_output()
        self.headline.show(
            live_headline(job.sighting.entries, job.sighting.counts, self._facts()),
            self._state(),
        )
        # A question or the help on top is answered first.
        if not job.live and not self._told_end and self.is_current:
            self._told_end = True
            self._end()

    def _facts(self) -> RunFacts:
        return live_facts(self.job.sighting.graph_breaks, self.job.sighting.recompiles)

    def _state(self) -> Span:
        job, time = self.job, duration_text(self.job.seconds)
        if job.outcome is not None:
            tone: Tone = "bad" if job.outcome.exit_code else "good"
            return Span(f"exit code {job.outcome.exit_code} · {time}", tone)
        if job.stop_requests:
            return Span(f"stopping · {time}", "warn")
        return Span(time, "accent")

    def _follow_graphs(self) -> None:
        """Newer rows; a cursor on the last row goes along with them."""
        view, sighting = self._table, self.job.sighting
        at_end = view.cursor >= view.content.count - 1
        view.update(live_table(sighting.entries, sighting.counts, self._facts()))
        if at_end:
            view.cursor = max(0, view.content.count - 1)
            view.keep_cursor_visible()

    def _follow_output(self) -> None:
        """New lines; a cursor on the last line stays on the last one, another stays where it is."""
        view = self._output
        before = view.content
        at_end = view.cursor >= before.count - 1 and view.range_start is None
        document = self.job.output.document("Output")
        dropped = (document.first_number or 0) - (before.first_number or document.first_number or 0)
        if at_end:
            view.cursor = document.count - 1
        elif dropped > 0:
            view.cursor = max(0, view.cursor - dropped)
        view.update(document)
        if at_end:
            view.keep_cursor_visible()

    def _end(self) -> None:
        """The run opens on top; this screen stays below with what the program printed."""
        job = self.job
        self.refresh_bindings()
        if job.outcome is None or job.run is None:
            self.bar.remark(" ".join(job.error.split()), "bad")
            return
        self.bar.remark(*outcome_text(job.outcome))
        located = Located("capture", job.run, str(job.outcome.run))
        self.post_message(Open(RunTarget(located, outcome_text(job.outcome))))

    # -- halves

    def on_resize(self) -> None:
        self._arrange()

    def _arrange(self) -> None:
        wide = self.app.size.width >= _WIDE
        self.query_one("#panes", Container).styles.layout = "horizontal" if wide else "vertical"
        self._output.styles.margin = (0, 0, 0, 1 if wide else 0)
        self._table.display = wide or not self._show_output
        self._output.display = wide or self._show_output
        self.focus_view(self._shown)

    @property
    def _shown(self) -> LinesView[Any]:
        return self._output if self._show_output else self._table

    def action_other_part(self) -> None:
        self._show_output = not self._show_output
        self._arrange()

    # -- stopping

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("stop", "kill"):
            return self.job.live and (self.job.stop_requests > 0) == (action == "kill")
        return super().check_action(action, parameters)

    def action_stop(self) -> None:
        self.job.stop()
        self.bar.remark(f"interrupted as by Ctrl-C; {self.key('stop')} again kills it", "warn")
        self.refresh_bindings()

    def action_kill(self) -> None:
        self.job.stop()
        self.bar.remark("killed", "warn")

    def action_back(self) -> None:
        """Leaving means stopping: a program must not go on unseen."""
        view = self.view
        busy = view is not None and (view.range_start is not None or view.matches is not None)
        if busy or not self.job.live:
            super().action_back()
        else:
            stop, leave = self.key("stop"), self.key("quit")
            self.bar.remark(f"the capture is running: {stop} stops it, {leave} stops it and quits", "warn")
