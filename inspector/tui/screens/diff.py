"""Two runs side by side: what differs, and both sides of the row under the cursor."""

from __future__ import annotations

from functools import partial

from textual.app import ComposeResult
from textual.containers import Container

from inspector.analysis.diff.verdict import verdict
from inspector.comparison import Side, compare_sides
from inspector.present.diff_sides import GRAPH_TEXTS, Compared, changes_table, detail_page
from inspector.present.rows import DifferenceRow
from inspector.present.spans import Page, message_page
from inspector.present.tables import message_table
from inspector.readers.run import Run
from inspector.tui.actions import bindings
from inspector.tui.navigation import DiffTarget
from inspector.tui.widgets.lines_view import LinesView
from inspector.tui.widgets.table_view import TableView
from inspector.tui.widgets.toned_view import TonedView

from .base import InspectorScreen

_LIST_ROWS = 12


class DiffScreen(InspectorScreen):
    """The list above, both sides below it. Reading and comparing happen in threads."""

    BINDINGS = bindings("diff")
    opens_runs = True

    def __init__(self, target: DiffTarget) -> None:
        super().__init__()
        self._target = target
        self._compared: Compared | None = None
        self._everything = False
        self._text = 0
        self._shown: tuple[object, ...] = ()
        self._table = TableView(message_table("What differs", "reading both runs…"), id="diff-list")
        self._sides = TonedView(message_page("", ""), id="diff-sides")

    def compose_body(self) -> ComposeResult:
        with Container(id="diff-body"):
            yield self._table
            yield self._sides

    def on_mount(self) -> None:
        self.headline.show(f"A {self._target.a.shown} · B {self._target.b.shown}")
        self._table.styles.height = _LIST_ROWS
        self.focus_view(self._table)
        unread = partial(self.failed, "the runs cannot be compared")
        self.call_after_refresh(self.start, self._compare, "compare", unread)

    def _compare(self) -> None:
        a, b = Side(Run(self._target.a.opened())), Side(Run(self._target.b.opened()))
        self.call_later(self._ready, Compared(a, b, compare_sides(a, b)))

    def _ready(self, compared: Compared) -> None:
        self._compared = compared
        self.headline.show(verdict(compared.diff))
        self._list()

    def _list(self) -> None:
        if self._compared is not None:
            self._table.update(changes_table(self._compared.diff, self._everything))
            self._write()
        self.refresh_bindings()

    # -- both sides

    def on_lines_view_moved(self, message: LinesView.Moved) -> None:
        if message.view is self._table:
            self._write()

    def on_resize(self) -> None:
        self._shown = ()
        self._write()

    def _write(self) -> None:
        """Ask for both sides of the row under the cursor."""
        row, width = self._table.key, max(60, self._sides.inner_width - 2)
        wanted = (row, self._text, width)
        if self._compared is not None and isinstance(row, DifferenceRow) and wanted != self._shown:
            self._shown = wanted
            work = partial(self._write_in_thread, self._compared, row, self._text, width)
            self.start(work, "sides", partial(self.failed, "the two sides cannot be shown"))

    def _write_in_thread(self, compared: Compared, row: DifferenceRow, text: int, width: int) -> None:
        self.call_later(self._written, (row, text, width), detail_page(compared, row, text, width))

    def _written(self, wanted: tuple[object, ...], page: Page) -> None:
        if wanted == self._shown:
            self._sides.show(page)

    # -- keys

    def action_open(self) -> None:
        """A graph's next text; a kernel's two sides get the keys."""
        row = self._table.key
        if isinstance(row, DifferenceRow) and row.kind == "graph" and self._table.has_focus:
            self._text = (self._text + 1) % len(GRAPH_TEXTS)
            self._write()
        else:
            self.action_other_part()

    def action_other_part(self) -> None:
        self.focus_view(self._table if self._sides.has_focus else self._sides)

    def action_everything(self) -> None:
        """Only what changed, or all."""
        self._everything = not self._everything
        self._list()

    def action_step_match(self, direction: int) -> None:
        """Without a search to the next change."""
        if self.view is not None and self.view.matches is not None:
            super().action_step_match(direction)
            return
        rows = self._table.content.rows
        place = self._table.cursor + direction
        while 0 <= place < len(rows) and self._same(rows[place].key):
            place += direction
        if 0 <= place < len(rows):
            self._table.move_to(place)
            self._write()

    def _same(self, row: object) -> bool:
        if self._compared is None or not isinstance(row, DifferenceRow) or row.kind == "all":
            return False
        diff = self._compared.diff
        matches = diff.graphs if row.kind == "graph" else diff.kernels
        return matches[row.number].relation == "same"
