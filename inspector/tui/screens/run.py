"""One run: a table of compiled graphs and events, and what there is to say about the row under the cursor."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Static

from inspector.analysis.ending import ending
from inspector.model.replay import ReplayResult
from inspector.model.run import RunFacts
from inspector.present.about import ABOUT_KEY, About, Story, about_rows, about_run
from inspector.present.detail import event_detail, graph_detail, run_detail, why_empty
from inspector.present.documents import message_document
from inspector.present.run import (
    EVENT_KEY,
    FINDING_KEY,
    Counts,
    Event,
    GraphEntry,
    events_of,
    graph_row,
    identity,
    rank_name,
    run_name,
    run_table,
    verdict,
)
from inspector.present.spans import Line
from inspector.present.tables import replace_rows
from inspector.readers.graph import CompiledGraph
from inspector.readers.run import Run
from inspector.tui.actions import bindings
from inspector.tui.navigation import ExplainTarget, GraphTarget, Open, RunTarget
from inspector.tui.replaying import ReplaySession, earlier_replays
from inspector.tui.threads import start
from inspector.tui.widgets.code_view import CodeView
from inspector.tui.widgets.lines_view import LinesView
from inspector.tui.widgets.styles import lines_text, plain_text
from inspector.tui.widgets.table_view import TableView
from inspector.units import plural

from .base import Place, WorkFailed
from .ways import RunWays

EXPLAINED = 200
"""Graphs up to which findings are worked out unasked: it takes reading all of them."""
_REPORT_EVERY_S = 0.05
"""How often a counting thread reports: the table is fitted anew for each report."""


class DetailScroll(VerticalScroll):
    """The details, where these need more room than they have."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("scroll")


class RunScreen(RunWays):
    """Names at once, facts from logs and traces when read, counts for the rows on screen only."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("run")

    class Opened(Message):
        """A trace or archive is open: its graphs are known."""

        def __init__(self, run: Run) -> None:
            super().__init__()
            self.run = run

    class FactsRead(Message):
        def __init__(
            self,
            facts: RunFacts,
            compile_ids: dict[str, str | None],
            ranks: dict[str, str],
            replays: Sequence[ReplayResult],
        ) -> None:
            super().__init__()
            self.facts = facts
            self.compile_ids = compile_ids
            self.ranks = ranks
            self.replays = replays

    class StoryRead(Message):
        def __init__(self, story: Story) -> None:
            super().__init__()
            self.story = story

    class Counted(Message):
        """Counts of some graphs; `done` ends the batch."""

        def __init__(self, counts: dict[str, Counts], done: bool) -> None:
            super().__init__()
            self.counts = counts
            self.done = done

    def __init__(self, target: RunTarget) -> None:
        super().__init__(None, ReplaySession())
        self.located = target.located
        self._first_remark = target.remark
        self._about: tuple[About, ...] = ()
        self._graphs: dict[str, CompiledGraph] = {}
        self._counts: dict[str, Counts] = {}
        self._wanted: tuple[str, ...] = ()
        self._with_code = False
        self._counting = False
        self._table = TableView(run_table((), {}, {}, None), id="graphs")
        self._remark = CodeView(message_document("", ""), id="empty")
        self._detail = Static(id="detail-text")
        self._verdict = Static(id="verdict")

    def compose_body(self) -> ComposeResult:
        yield self._verdict
        yield self._table
        yield self._remark
        with DetailScroll(id="detail"):
            yield self._detail

    def on_mount(self) -> None:
        self._remark.display = self._verdict.display = False
        if self._first_remark is not None:
            self.bar.remark(*self._first_remark)
        if self.located.kind != "trace":
            self.run = Run(self.located)
            self._start(self.run)
        else:
            self.headline.show(identity(run_name(self.located.shown), 0, None))
            self.bar.remark(f"reading {self.located.shown}…")
            start(self, self._open, "open")

    def _open(self) -> None:
        try:
            self.post_message(self.Opened(Run(self.located)))
        except Exception as error:
            self.post_message(WorkFailed(f"{self.located.shown} cannot be read", error))

    def on_run_screen_opened(self, message: Opened) -> None:
        self.bar.remark("")
        self.run = message.run
        self._start(message.run)

    def _start(self, run: Run) -> None:
        self._graphs = {graph.ident: graph for graph in run.graphs}
        self._entries = [GraphEntry(graph.ident, graph.phase) for graph in run.graphs]
        self._show_table()
        # What is on screen first: threads would compete with the first paint for the interpreter.
        self.call_after_refresh(self._start_reading)

    def _start_reading(self) -> None:
        start(self, self._read_facts, "facts")
        self._count_visible()

    # -- facts

    def _read_facts(self) -> None:
        from inspector.tui.loading import keep, load_story, rank_labels

        assert self.run is not None
        try:
            facts = self.run.facts()
            keep()
            compile_ids = {graph.ident: graph.compile_id for graph in self.run.graphs}
            ranks = rank_labels(self.run)
            self.post_message(self.FactsRead(facts, compile_ids, ranks, earlier_replays(self.run)))
        except Exception as error:
            self.post_message(WorkFailed("logs and traces cannot be read", error))
            return
        try:
            self.post_message(self.StoryRead(load_story(self.run)))
        except Exception as error:
            self.post_message(WorkFailed("compile time and ranks cannot be read", error))

    def on_run_screen_facts_read(self, message: FactsRead) -> None:
        self.facts = self.session.facts = message.facts
        self.session.add_earlier(message.replays)
        self._entries = [
            dataclasses.replace(
                entry,
                compile_id=message.compile_ids.get(entry.ident),
                rank=message.ranks.get(entry.ident, ""),
            )
            for entry in self._entries
        ]
        self._show_table()

    def on_run_screen_story_read(self, message: StoryRead) -> None:
        self._about = about_run(message.story, self.facts)
        self._show_table()
        if len(self._graphs) <= EXPLAINED:
            self.begin_explaining()

    def _show_table(self) -> None:
        """Everything, from what is known now."""
        answer = verdict(self.facts, self.session.graphs, len(self._entries))
        above, below = about_rows(self._about)
        explanation = self.session.explanation
        if explanation is not None:
            # Only now: the rules behind it would delay the first paint.
            from inspector.present.explain import finding_rows, short_verdict

            failed = ending(self.facts.manifest) if self.facts is not None else ""
            if not failed or answer.text != failed:
                answer = short_verdict(explanation, answer.text)
            below = [*finding_rows(explanation), *below]
            self._verdict.update(plain_text(explanation.verdict))
            self._verdict.display = True
        self.headline.show(identity(run_name(self.located.shown), len(self._entries), self.facts), answer)
        around = (above, below)
        self._table.update(
            run_table(self._entries, self._counts, self.session.graphs, self.facts, around, self.rank)
        )
        empty = not self._entries and not events_of(self.facts)
        if empty:
            self._remark.show(message_document("No compiled graph", why_empty(self.facts)))
        if empty != self._remark.display:
            self._remark.display, self._table.display = empty, not empty
            self.focus_view(self._remark if empty else self._table)
        self._show_detail()
        self.refresh_bindings()

    def show_rank(self) -> None:
        self._show_table()
        self._count_visible()

    # -- counts

    def on_lines_view_scrolled(self, message: LinesView.Scrolled) -> None:
        self._count_visible()

    def _count_visible(self) -> None:
        """Ask for the counts of the rows on screen; what was asked before and is not done is dropped."""
        wanted = [
            key for key in self._table.visible_keys() if key in self._graphs and key not in self._counts
        ]
        if not self._with_code:
            self._count(tuple(wanted))

    def action_count_all(self) -> None:
        self._with_code = True
        wanted = [key for key in self._graphs if self._needs_code(key)]
        self.bar.remark(f"counting {plural(len(wanted), 'graph')}…" if wanted else "everything is counted")
        self._count(tuple(wanted))

    def _needs_code(self, key: str) -> bool:
        return key not in self._counts or self._counts[key].kernels is None

    def _count(self, wanted: tuple[str, ...]) -> None:
        self._wanted = wanted
        if wanted and not self._counting:
            self._counting = True
            start(self, self._count_in_thread, "count")

    def _count_in_thread(self) -> None:
        from inspector.tui.loading import count_graph

        batch, with_code = self._wanted, self._with_code
        found: dict[str, Counts] = {}
        reported = time.monotonic()
        for ident in batch:
            if self._wanted is not batch:
                break
            opened = ident in self.session.opened
            found[ident] = count_graph(self._graphs[ident], with_code or opened, keep=opened)
            if time.monotonic() - reported > _REPORT_EVERY_S:
                self.post_message(self.Counted(found, done=False))
                found, reported = {}, time.monotonic()
        self.post_message(self.Counted(found, done=True))

    def on_run_screen_counted(self, message: Counted) -> None:
        self._counts.update(message.counts)
        for position, entry in enumerate(self._entries):
            if entry.ident in message.counts and not self._graphs[entry.ident].files:
                self._entries[position] = dataclasses.replace(entry, empty=True)
        changed = [
            graph_row(entry, self._counts.get(entry.ident), self.session.graphs.get(entry.ident))
            for entry in self._entries
            if entry.ident in message.counts
        ]
        self._table.update(replace_rows(self._table.content, changed))
        if self._table.key in message.counts:
            self._show_detail()
        if message.done:
            self._counting = False
            left = tuple(key for key in self._wanted if key not in message.counts and self._is_wanted(key))
            if self._with_code and not left:
                self._with_code = False
                self.bar.remark("counted")
            self._count(left)

    def _is_wanted(self, key: str) -> bool:
        return (
            self._needs_code(key)
            if self._with_code or key in self.session.opened
            else key not in self._counts
        )

    # -- the row under the cursor

    def on_lines_view_moved(self, message: LinesView.Moved) -> None:
        self._show_detail()

    def _show_detail(self) -> None:
        key = self._table.key
        lines: Sequence[Line] = ()
        if key is not None and key.startswith(EVENT_KEY):
            lines = event_detail(self._event(key))
        elif key is not None and key.startswith(ABOUT_KEY):
            lines = self._about[int(key.removeprefix(ABOUT_KEY))].detail
        elif key is not None and key.startswith(FINDING_KEY) and self.session.explanation is not None:
            from inspector.present.explain import finding_detail

            number = int(key.removeprefix(FINDING_KEY))
            lines = finding_detail(self.session.explanation.findings[number])
        elif key is not None and self.run is not None:
            graph = self._graphs[key]
            counts = self._counts.get(key)
            problems = dict.fromkeys(counts.problems if counts else ())
            missing = graph.missing if self.facts is not None else ()
            lines = graph_detail(
                graph.ident, self.run.kind, graph.files, missing, problems, self.session.graphs.get(key)
            )
        about_run = run_detail(self.facts) if self._entries else []
        shown = [*lines, *about_run]
        self._detail.update(lines_text(self, shown))
        self.query_one(DetailScroll).scroll_home(animate=False)
        self.query_one(DetailScroll).display = bool(shown)

    def _event(self, key: str) -> Event:
        return events_of(self.facts)[int(key.removeprefix(EVENT_KEY))]

    def action_other_part(self) -> None:
        detail = self.query_one(DetailScroll)
        here = self._remark if self._remark.display else self._table
        self.focus_view(here if detail.has_focus or not detail.display else detail)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("open", "open_fusion", "replay", "replay_all", "count_all"):
            return bool(self._graphs)
        if action == "explain":
            return self.run is not None
        return super().check_action(action, parameters)

    def action_open_fusion(self) -> None:
        self.action_open("fusion")

    def action_open(self, pane: str = "fx") -> None:
        key = self._table.key
        if key is not None and key in self._graphs:
            self.open_graph(key, pane)
        elif key is not None and key.startswith(EVENT_KEY):
            self._open_source(self._event(key))
        elif key is not None and key.startswith(FINDING_KEY):
            self._open_explain(int(key.removeprefix(FINDING_KEY)))
        elif key is not None and self._about[int(key.removeprefix(ABOUT_KEY))].traced:
            self.action_trace()
        else:
            self.bar.remark("this row is told in full below" if key else "nothing to open")

    def show_explanation(self) -> None:
        self._show_table()

    def action_explain(self) -> None:
        key = self._table.key or ""
        number = key.removeprefix(FINDING_KEY)
        self._open_explain(int(number) if number != key else None)

    def _open_explain(self, finding: int | None) -> None:
        assert self.run is not None
        self.post_message(Open(ExplainTarget(self.run, self.session, finding)))

    def open_graph(self, ident: str, pane: str = "fx") -> None:
        assert self.run is not None
        self.session.opened.add(ident)
        entry = next(entry for entry in self._entries if entry.ident == ident)
        label = f"{rank_name(entry.rank)} · {entry.label}" if entry.rank else ""
        target = GraphTarget(self.run, self._graphs[ident], self.session, pane, label=label)
        self.post_message(Open(target, instead=True))

    def on_lines_view_opened(self, message: LinesView.Opened) -> None:
        self.action_open()

    def on_unmount(self) -> None:
        """A setting that is being tried is stopped: nobody would see what came of it."""
        if self.session.trial is not None:
            self.session.trial.stop()

    def on_screen_resume(self) -> None:
        """Graphs that were opened have been read whole: their kernels can be counted for nothing."""
        fresh = tuple(key for key in self.session.opened if self._needs_code(key))
        if fresh and not self._counting:
            self._count(fresh)

    # -- replay

    def action_replay(self) -> None:
        graph = self._graphs.get(self._table.key or "")
        self.ask_for_replay([graph] if graph is not None else [])

    def action_replay_all(self) -> None:
        self.ask_for_replay(list(self._graphs.values()))

    def show_replays(self) -> None:
        self._show_table()

    def replayed_run(self) -> Run:
        assert self.run is not None
        return self.run

    def places(self) -> Iterator[Place]:
        for ident in self._graphs:
            yield Place(ident, "compiled graph", partial(self.open_graph, ident))
