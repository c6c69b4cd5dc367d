"""An index of many runs: what can be asked of it, and the answer to the question under the cursor."""

from __future__ import annotations

from functools import partial

from textual.app import ComposeResult

from inspector.model.problem import InspectorError
from inspector.present.identity import run_name
from inspector.present.query import Answer, questions_table, run_of, screen_table
from inspector.present.tables import Table
from inspector.readers.locate import Located, locate
from inspector.tui.actions import bindings
from inspector.tui.navigation import IndexTarget, Open, RunTarget
from inspector.tui.widgets.lines_view import LinesView
from inspector.tui.widgets.table_view import TableView
from inspector.units import plural

from .base import InspectorScreen


class IndexScreen(InspectorScreen):
    """Questions above, the answer below; a thread asks, and only what was asked last is shown."""

    BINDINGS = bindings("index")

    def __init__(self, target: IndexTarget) -> None:
        super().__init__()
        self._catalogue = target.catalogue
        self._questions = TableView(questions_table(target.catalogue), id="questions")
        self._answers = TableView(Table("", ()), id="answers")
        self._asked = ""
        self._answer: Answer | None = None

    def compose_body(self) -> ComposeResult:
        yield self._questions
        yield self._answers

    def on_mount(self) -> None:
        self.headline.show(f"{run_name(self._catalogue.name)} · an index of many runs")
        self.focus_view(self._questions)
        self._ask()

    def on_lines_view_moved(self, message: LinesView.Moved) -> None:
        if message.view is self._questions:
            self._ask()

    def _ask(self) -> None:
        """What the cursor is on, unless that is what was asked last."""
        question = str(self._questions.key or "")
        if not question or question == self._asked:
            return
        self._asked, self._answer = question, None
        self._answers.show(Table(f"{question} · asking…", ()), 0)
        self.start(partial(self._find_out, question), "ask", partial(self.failed, "not answered"))

    def _find_out(self, question: str) -> None:
        try:
            answer = self._catalogue.ask(question)
        except InspectorError as error:
            self.call_later(self._refused, question, error)
        else:
            self.call_later(self._answered, question, answer)

    def _answered(self, question: str, answer: Answer) -> None:
        if question != self._asked:
            return
        self._answer = answer
        title = f"{question} · {plural(len(answer.rows), 'row')}"
        self._answers.show(screen_table(title, answer), 0)
        self.refresh_bindings()

    def _refused(self, question: str, error: InspectorError) -> None:
        if question == self._asked:
            self._answers.show(Table(f"{question} · no answer", ()), 0)
            self.failed(question, error)

    def action_other_part(self) -> None:
        self.focus_view(self._answers if self.view is self._questions else self._questions)

    def action_open(self) -> None:
        """The answer to the question, or the run that a row of it tells of."""
        row = self._answers.key
        if self.view is self._questions:
            self.focus_view(self._answers)
        elif self._answer is not None and isinstance(row, int):
            path = run_of(self._answer.columns, self._answer.rows[row])
            if path is None:
                self.bar.remark("this row is of no single run")
            else:
                self.bar.remark(f"opening {path}")
                self.start(partial(self._locate, path), "open", partial(self.failed, path))

    def _locate(self, path: str) -> None:
        try:
            located = locate(path)
        except InspectorError as error:
            self.call_later(self.bar.remark, str(error), "bad")
        else:
            self.call_later(self._open, located)

    def _open(self, located: Located) -> None:
        self.bar.remark("")
        self.post_message(Open(RunTarget(located)))
