"""The structured trace of a run: each compilation with its time, guards, caches and stages, to be browsed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from textual.app import ComposeResult
from textual.containers import Container

from inspector.gather import TraceReport, trace_report
from inspector.present.documents import Document, message_document
from inspector.present.identity import run_name
from inspector.present.rows import TraceRow
from inspector.present.tables import message_table
from inspector.present.trace import ALL, Spot, trace_table
from inspector.present.trace_detail import overview_document, spot_document
from inspector.tui.actions import bindings
from inspector.tui.navigation import TraceTarget
from inspector.tui.widgets.code_view import CodeView
from inspector.tui.widgets.lines_view import LinesView
from inspector.tui.widgets.table_view import TableView

from .base import InspectorScreen

_WIDE = 120


class TraceScreen(InspectorScreen):
    """The list at the left or above; all about its row beside it. Reading and decoding happen in threads."""

    BINDINGS = bindings("trace")

    def __init__(self, target: TraceTarget) -> None:
        super().__init__()
        self.run = target.run
        self._report: TraceReport | None = None
        self._spots: Mapping[str, Spot] = {}
        self._expanded: set[str] = set()
        self._shown = ""
        self._table = TableView(message_table("Trace", "reading…"), id="trace-list")
        self._text = CodeView(message_document("", ""), id="trace-text")

    def compose_body(self) -> ComposeResult:
        with Container(id="panes"):
            yield self._table
            yield self._text

    def on_mount(self) -> None:
        self.headline.show(f"{run_name(self.run.shown)} · trace")
        self._arrange()
        unread = partial(self.failed, "the trace cannot be read")
        self.call_after_refresh(self.start, self._open, "open", unread)

    def _open(self) -> None:
        self.call_later(self._opened, trace_report(self.run))

    def _opened(self, report: TraceReport) -> None:
        self._report = report
        self._list()
        self._write()

    def _list(self) -> None:
        if self._report is not None:
            table, self._spots = trace_table(self._report, self._expanded)
            self._table.update(table)
        self.refresh_bindings()

    # -- the text beside

    def on_lines_view_moved(self, message: LinesView.Moved) -> None:
        if message.view is self._table:
            self._write()

    def _write(self) -> None:
        """Ask for the text of the row under the cursor."""
        key = self._key
        if self._report is not None and key and key != self._shown:
            self._shown = key
            width = max(60, self._text.inner_width - 2)
            write = partial(self._write_in_thread, self._report, key, self._spots.get(key), width)
            self.start(write, "text", partial(self._unwritten, key))

    def _write_in_thread(self, report: TraceReport, key: str, spot: Spot | None, width: int) -> None:
        if spot is None:
            document = overview_document(report, width)
        else:
            file = report.traces[spot.trace].file
            text = file.payload(spot.stage.event) if spot.stage is not None else ""
            document = spot_document(report, spot, text, width)
        self.call_later(self._written, key, document)

    def _unwritten(self, key: str, error: Exception) -> None:
        self._written(key, message_document("Cannot be shown", f"{type(error).__name__}: {error}"))

    def _written(self, key: str, document: Document) -> None:
        if key == self._key:
            self._text.show(document)

    @property
    def _key(self) -> str:
        """The row under the cursor, as `trace_table` names it; empty while the trace is read."""
        key = self._table.key
        return key.name if isinstance(key, TraceRow) else ""

    # -- keys

    def on_resize(self) -> None:
        self._arrange()
        self._shown = ""
        self._write()

    def _arrange(self) -> None:
        wide = self.app.size.width >= _WIDE
        self.query_one("#panes", Container).styles.layout = "horizontal" if wide else "vertical"
        self._text.styles.margin = (0, 0, 0, 1 if wide else 0)
        if self.focused is None:
            self.focus_view(self._table)

    def action_open(self) -> None:
        """Show a compilation's stages, or hide them; a stage's text gets the keys."""
        key = self._key
        spot = self._spots.get(key)
        if key == ALL or spot is None or spot.compilation is None or spot.stage is not None:
            self.focus_view(self._text)
            return
        self._expanded ^= {key}
        self._list()

    def action_other_part(self) -> None:
        self.focus_view(self._table if self._text.has_focus else self._text)
