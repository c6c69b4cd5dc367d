"""A word in all graphs of the run: their lines with it, and the way to each."""

from __future__ import annotations

from functools import partial

from textual.app import ComposeResult
from textual.events import Key
from textual.widgets import Input

from inspector.model.explain import Evidence
from inspector.model.run import GRAPH_FILES
from inspector.present.find import MOST, results_table
from inspector.present.identity import run_name
from inspector.present.rows import FoundRow
from inspector.tui.actions import bindings
from inspector.tui.navigation import FindTarget
from inspector.tui.widgets.table_view import TableView

from .base import InspectorScreen
from .explaining import Findings


class FindScreen(InspectorScreen):
    """Reads the graphs one after the other in a thread; lines come as they are met."""

    BINDINGS = bindings("find")

    def __init__(self, target: FindTarget) -> None:
        super().__init__()
        self.session = target.session
        self.evidence = Findings(self, self.session)
        self._query = target.query
        self._lines: list[tuple[str, Evidence]] = []
        self._table = TableView(results_table(target.query, (), False), id="results")

    def compose_body(self) -> ComposeResult:
        yield self._table

    async def on_mount(self) -> None:
        self.headline.show(f"{run_name(self.session.run.shown)} · search in all graphs")
        self.focus_view(self._table)
        if self._query:
            self._begin()
        else:
            await self.action_search()

    # -- the box searches everywhere, once enter was pressed

    def on_key(self, event: Key) -> None:
        """Nothing is typed ahead: the box is there at once."""

    def on_input_changed(self, event: Input.Changed) -> None:
        self._query = event.value

    async def _leave_search(self, keep: bool) -> None:
        self._search_view = None
        await self.query("SearchBox").remove()
        self.bar.display = True
        self.focus_view(self._table)
        self.refresh_bindings()
        if keep and self._query:
            self._begin()

    def _begin(self) -> None:
        self._lines = []
        self._table.show(results_table(self._query, (), False))
        self.start(partial(self._search, self._query), "find", partial(self.failed, "not searched"))

    def _search(self, query: str) -> None:
        words = query.casefold()
        left = MOST
        for graph in self.session.run.graphs:
            opened = graph if graph.ident in self.session.opened or graph.folder is None else graph.unread()
            lines = [
                (graph.ident, Evidence(graph.label(name), number, text))
                for name in GRAPH_FILES
                for number, text in enumerate((opened.text(name) or "").splitlines(), 1)
                if words in text.casefold()
            ][:left]
            left -= len(lines)
            if lines:
                self.call_later(self._met, query, lines, False)
            if not left or query != self._query:
                break
        self.call_later(self._met, query, [], True)

    def _met(self, query: str, lines: list[tuple[str, Evidence]], done: bool) -> None:
        if query == self._query:
            self._lines += lines
            self._table.update(results_table(query, self._lines, done))
            if done and not self._lines:
                self.bar.remark(
                    f"no line of any graph has it; {self.key('search')} searches for something else"
                )

    def action_open(self) -> None:
        if isinstance(key := self._table.key, FoundRow):
            self.evidence.look_up(self._lines[key.number][1], self.evidence.go_to)
