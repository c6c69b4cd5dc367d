"""One run: a table of compiled graphs and events, and what there is to say about the row under the cursor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from inspector.analysis.ending import ending
from inspector.model.replay import ReplayResult
from inspector.model.run import RunFacts
from inspector.model.two_sides import GraphWork
from inspector.present.about import About, Story, about_rows, about_run
from inspector.present.detail import event_detail, graph_detail, run_detail, why_empty
from inspector.present.documents import message_document
from inspector.present.identity import identity, run_name
from inspector.present.rows import AboutRow, EventRow, GraphRow
from inspector.present.run import (
    Counts,
    Event,
    GraphEntry,
    events_of,
    graph_row,
    rank_name,
    run_table,
    verdict,
)
from inspector.present.spans import Line
from inspector.present.tables import replace_rows
from inspector.readers.graph import CompiledGraph
from inspector.tui.actions import bindings
from inspector.tui.navigation import ExplainTarget, GraphsTarget, GraphTarget, Open, TraceTarget
from inspector.tui.replaying import earlier_replays
from inspector.tui.widgets.code_view import CodeView
from inspector.tui.widgets.styles import lines_text
from inspector.tui.widgets.table_view import TableView

from .base import InspectorScreen, Place
from .counting import Counting
from .explaining import Findings
from .replays import Replays


class DetailScroll(VerticalScroll):
    """The details, where these need more room than they have."""

    BINDINGS = bindings("scroll")


class RunScreen(InspectorScreen):
    """Names at once, facts from logs and traces when read, counts for the rows on screen only."""

    BINDINGS = bindings("run")

    def __init__(self, target: GraphsTarget) -> None:
        super().__init__()
        self.session = target.session
        self.findings = Findings(self, self.session)
        self.replays = Replays(self, self.session, self.findings.measured)
        self.counting = Counting(self, self.session, self._show_counts)
        self.facts: RunFacts | None = None
        self.rank = ""
        """The only one shown; empty for all."""
        self._about: tuple[About, ...] = ()
        self._entries: list[GraphEntry] = []
        self._graphs: dict[str, CompiledGraph] = {}
        self._work: dict[str, GraphWork] = {}
        self._table = TableView(run_table((), {}, {}, None), id="graphs")
        self._remark = CodeView(message_document("", ""), id="empty")
        self._detail = Static(id="detail-text")
        self._below = DetailScroll(self._detail, id="detail")

    def compose_body(self) -> ComposeResult:
        yield self._table
        yield self._remark
        yield self._below

    def on_mount(self) -> None:
        self._remark.display = False
        self.session.join(self)
        run = self.session.run
        self._graphs = self.counting.graphs = {graph.ident: graph for graph in run.graphs}
        self._entries = [GraphEntry(graph.ident, graph.phase) for graph in run.graphs]
        self.show_session()
        # What is on screen first: threads would compete with the first paint for the interpreter.
        self.call_after_refresh(self._start_reading)

    def _start_reading(self) -> None:
        self.start(self._read_facts, "facts", partial(self.failed, "logs and traces cannot be read"))
        self._count_visible()

    # -- facts

    def _read_facts(self) -> None:
        from inspector.readers.text import keep
        from inspector.views.loading import rank_labels

        run = self.session.run
        # The run's first screen has read both.
        facts = self.session.facts or run.facts()
        keep()
        compile_ids = {graph.ident: graph.compile_id for graph in run.graphs}
        known = self.session.results
        replays = known or earlier_replays(run, partial(self.call_later, self.bar.remark))
        self.call_later(self._facts_read, facts, compile_ids, rank_labels(run), replays)

    def _facts_read(
        self,
        facts: RunFacts,
        compile_ids: dict[str, str | None],
        ranks: dict[str, str],
        replays: Sequence[ReplayResult],
    ) -> None:
        self.facts = facts
        self.session.learn(facts, replays)
        self._entries = [
            replace(entry, compile_id=compile_ids.get(entry.ident), rank=ranks.get(entry.ident, ""))
            for entry in self._entries
        ]
        self.show_session()
        unread = partial(self.failed, "compile time and ranks cannot be read")
        self.start(self._read_story, "facts", unread)

    def _read_story(self) -> None:
        from inspector.views.loading import load_story

        self.call_later(self._story_read, load_story(self.session.run))

    def _story_read(self, story: Story) -> None:
        self._about = about_run(story, self.facts)
        self.show_session()

    def show_session(self) -> None:
        """Everything, from what is known now."""
        answer = verdict(self.facts, self.session.graphs, len(self._entries))
        run = self.session.run
        above, below = about_rows(self._about)
        explanation = self.session.explanation
        if explanation is not None:
            # Only now: the rules behind it would delay the first paint.
            from inspector.analysis.two_sides import work_of_graphs
            from inspector.present.explain import short_verdict

            self._work = work_of_graphs(explanation.sides.joined) if explanation.sides is not None else {}
            failed = ending(self.facts.manifest) if self.facts is not None else ""
            if not failed or answer.text != failed:
                answer = short_verdict(explanation, answer.text)
        self.headline.show(identity(run_name(run.shown), len(self._entries), self.facts), answer)
        around, replays = (above, below), self.session.graphs
        self._table.update(
            run_table(self._entries, self.counting.counts, replays, self.facts, around, self.rank, self._work)
        )
        empty = not self._entries and not events_of(self.facts)
        if empty:
            self._remark.show(message_document("No compiled graph", why_empty(self.facts)))
        if empty != self._remark.display:
            self._remark.display, self._table.display = empty, not empty
            self.focus_view(self._remark if empty else self._table)
        self._show_detail()
        self.refresh_bindings()

    # -- counts

    def on_lines_view_scrolled(self) -> None:
        self._count_visible()

    def _count_visible(self) -> None:
        """Ask for the counts of the rows on screen."""
        keys = self._table.visible_keys()
        self.counting.count_visible([key.name for key in keys if isinstance(key, GraphRow)])

    def action_count_all(self) -> None:
        self.counting.count_all()

    def _show_counts(self, counts: Mapping[str, Counts]) -> None:
        changed = []
        for position, entry in enumerate(self._entries):
            if entry.ident in counts:
                if not self._graphs[entry.ident].files:
                    entry = self._entries[position] = replace(entry, empty=True)
                replay, work = self.session.graphs.get(entry.ident), self._work.get(entry.ident)
                changed.append(graph_row(entry, counts[entry.ident], replay, work))
        self._table.update(replace_rows(self._table.source, changed))
        if isinstance(key := self._table.key, GraphRow) and key.name in counts:
            self._show_detail()

    # -- the row under the cursor

    def on_lines_view_moved(self) -> None:
        self._show_detail()

    def _show_detail(self) -> None:
        shown = [*self._row_detail(), *(run_detail(self.facts) if self._entries else [])]
        self._detail.update(lines_text(self, shown))
        self._below.scroll_home(animate=False)
        self._below.display = bool(shown)

    def _row_detail(self) -> Sequence[Line]:
        match self._table.key:
            case EventRow(number):
                return event_detail(events_of(self.facts)[number])
            case AboutRow(number):
                return self._about[number].detail
            case GraphRow(ident):
                graph, counts = self._graphs[ident], self.counting.counts.get(ident)
                problems = dict.fromkeys(counts.problems if counts else ())
                missing = graph.missing if self.facts is not None else ()
                kind, replay = self.session.run.kind, self.session.graphs.get(ident)
                work = self._work.get(ident)
                return graph_detail(graph.ident, kind, graph.files, missing, problems, replay, work)
        return ()

    def action_other_part(self) -> None:
        here = self._remark if self._remark.display else self._table
        leaves = self._below.has_focus or not self._below.display
        self.focus_view(here if leaves else self._below)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("open", "replay", "replay_all", "count_all"):
            return bool(self._graphs)
        if action == "explain":
            return self.session.is_open
        if action == "trace":
            return self.session.is_open and bool(self.session.run.trace_paths)
        if action == "next_rank":
            return len(self._ranks) > 1
        if action == "stop":
            return self.session.running
        return super().check_action(action, parameters)

    # -- away

    def action_open(self, pane: str = "fx") -> None:
        match self._table.key:
            case GraphRow(ident):
                self.open_graph(ident, pane)
            case EventRow(number):
                self._open_source(events_of(self.facts)[number])
            case AboutRow(number) if self._about[number].traced:
                self.action_trace()
            case key:
                self.bar.remark("this row is told in full below" if key else "nothing to open")

    def open_graph(self, ident: str, pane: str = "fx") -> None:
        self.session.opened.add(ident)
        entry = next(entry for entry in self._entries if entry.ident == ident)
        label = entry.title if entry.rank else ""
        target = GraphTarget(self.session, self._graphs[ident], pane, label=label)
        self.post_message(Open(target, instead=True))

    def _open_source(self, event: Event) -> None:
        """The user's line, where the file is at hand; else what torch noted of it stands below."""
        from inspector.tui.sources import event_source

        source = event_source(event, self.session.run, events_of(self.facts))
        if isinstance(source, str):
            self.bar.remark(f"{source}; this row is told in full below")
        else:
            self.post_message(Open(source))

    def action_explain(self) -> None:
        self.post_message(Open(ExplainTarget(self.session)))

    def action_trace(self) -> None:
        if self.session.run.trace_paths:
            self.post_message(Open(TraceTarget(self.session.run)))
        else:
            self.bar.remark("no structured trace here: a capture writes one, and so does TORCH_TRACE=FOLDER")

    def places(self) -> Iterator[Place]:
        for ident in self._graphs:
            yield Place(ident, "compiled graph", partial(self.open_graph, ident))

    def on_screen_resume(self) -> None:
        self.counting.count_opened()

    def on_unmount(self) -> None:
        self.session.leave(self)
        self.replays.leave()
        self.findings.leave()

    # -- ranks

    @property
    def _ranks(self) -> list[str]:
        """What tells the run's processes apart, in order."""
        labels = {entry.rank for entry in self._entries if entry.rank}
        return sorted(labels, key=lambda label: (not label.isdigit(), label.rjust(12)))

    def action_next_rank(self) -> None:
        """One rank after the other, then all again."""
        choices = ["", *self._ranks]
        self.rank = choices[(choices.index(self.rank) + 1) % len(choices)]
        self.show_session()
        self._count_visible()
        shown = f"only {rank_name(self.rank)}" if self.rank else "all ranks"
        self.bar.remark(f"{shown}; {self.key('rank')} shows the next")

    # -- replay

    def action_replay(self) -> None:
        key = self._table.key
        self.replays.ask([self._graphs[key.name]] if isinstance(key, GraphRow) else [])

    def action_replay_all(self) -> None:
        self.replays.ask(list(self._graphs.values()))

    def action_stop(self) -> None:
        self.replays.stop()
