"""What to capture: the command, how to compile it, and what was captured before."""

from __future__ import annotations

import os
import shlex
from functools import partial

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Static

from inspector.capture.environment import CaptureOptions
from inspector.capture.history import past_commands, remember
from inspector.model.problem import InspectorError
from inspector.present.capture import FIELDS, RUNS, Field, Value, capture_options, history_table
from inspector.present.rows import PastRow
from inspector.text import clean
from inspector.tui.actions import bindings
from inspector.tui.capturing import CaptureJob
from inspector.tui.navigation import Ask, CaptureTarget, LiveTarget, Open, Started
from inspector.tui.widgets.form import ChoiceLine, CommandInput, FormInput
from inspector.tui.widgets.styles import plain_text
from inspector.tui.widgets.table_view import TableView

from .base import InspectorScreen

_TICK_SECONDS = 0.1


class CaptureFormScreen(InspectorScreen):
    """Starts a capture and stays below it, filled in, to start the next one."""

    BINDINGS = bindings("form")

    def __init__(self, target: CaptureTarget) -> None:
        super().__init__()
        self._target = target
        self._folder = os.getcwd()
        self._past = past_commands(self._folder)
        self._job: CaptureJob | None = None
        self._command = CommandInput(
            "python train.py, -m package.train, torchrun --nproc-per-node 2 train.py, ...",
            [past.command for past in self._past],
            id="form-command",
        )
        self._fields = {field.name: self._widget(field) for field in FIELDS}
        self._error = Static(id="form-error")
        self._table = TableView(history_table(self._past, self._folder), id="form-past")

    @staticmethod
    def _widget(field: Field) -> FormInput | ChoiceLine:
        if field.choices:
            return ChoiceLine(field.choices, field.hint, f"form-{field.name}", field.start)
        return FormInput(field.hint, id=f"form-{field.name}")

    def compose_body(self) -> ComposeResult:
        with Horizontal(classes="form-line"):
            yield Static("Command", classes="form-label")
            yield self._command
        for field in FIELDS:
            with Horizontal(classes="form-line"):
                yield Static(field.label, classes="form-label")
                yield self._fields[field.name]
        yield self._error
        yield self._table

    def on_mount(self) -> None:
        self.headline.show(f"inspector · capture in {self._folder}")
        self._table.can_focus = bool(self._past)
        self._complain("")
        self.set_focus(self._command)
        if self._target.command:
            self._command.value = shlex.join(self._target.command)
        self.set_interval(_TICK_SECONDS, self._tick)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "open":
            return self._table.has_focus
        if action == "start_capture":
            return not self._table.has_focus
        return super().check_action(action, parameters)

    def on_descendant_focus(self) -> None:
        for line in self.query(".form-line"):
            line.set_class(self.focused in line.children, "form-here")
        self.refresh_bindings()

    def action_form_help(self) -> None:
        self.action_help()

    def action_step(self, direction: int) -> None:
        if direction > 0:
            self.focus_next()
        else:
            self.focus_previous()

    # -- starting

    def values(self) -> dict[str, Value]:
        """What the form holds, by the names of CaptureOptions."""
        return {
            name: widget.chosen if isinstance(widget, ChoiceLine) else widget.value
            for name, widget in self._fields.items()
        }

    def action_open(self) -> None:
        """Bring the command under the cursor back to the first line, to be changed or started."""
        key = self._table.key
        if isinstance(key, PastRow):
            self._command.value = self._past[key.number].command
            self._command.cursor_position = len(self._command.value)
            self.set_focus(self._command)

    def action_start_capture(self) -> None:
        if self._job is not None:
            return
        try:
            options = capture_options(self._command.value, self.values())
        except InspectorError as error:
            self._complain(str(error))
            return
        self._complain("")
        question = "Run this command, and capture what torch.compile makes of it?"
        cost = f"For the baseline {RUNS}. " if options.baseline else ""
        remark = (
            f"{clean(self._command.value.strip())}\nIt runs in {clean(self._folder)}. {cost}{self.stopping}"
        )
        if self._target.why is not None:
            why = f"not known to be your capture ({self._target.why})"
            # First, as a command may be longer than the screen.
            remark = f"The run that it is from is {why}.\n{remark}"
        self.post_message(Ask(question, remark, partial(self._start, options)))

    def _start(self, options: CaptureOptions, yes: bool) -> None:
        if not yes:
            self.bar.remark("not started")
            return
        # What is left for the program beside the graphs, or all of the width.
        size = self.app.size
        self._job = CaptureJob(options, self._command.value.strip(), (max(40, size.width - 8), size.height))
        self.bar.remark("starting…")
        self.post_message(Started(self._job))
        self._job.start()

    def _tick(self) -> None:
        """Once the command runs, or can't, say so."""
        job = self._job
        if job is None or job.state == "starting":
            return
        self._job = None
        if job.state == "failed" and job.run is None:
            self.bar.remark("not started", "bad")
            self._complain(job.error)
            return
        self.bar.remark("")
        try:
            remember(job.command, self._folder)
        except OSError as error:
            self.bar.remark(f"this command is not kept for next time: {error.strerror or error}", "warn")
        self.post_message(Open(LiveTarget(job)))

    def _complain(self, text: str) -> None:
        """What is wrong with what was typed, whole: it says what to do."""
        self._error.update(plain_text(" ".join(text.split())))
        self._error.display = bool(text)
