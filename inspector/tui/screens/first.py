"""A run's first screen: faster or slower, why, what to do, where its time goes; all else is a key away."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal

from inspector.present.identity import identity, run_name, unpacking_text
from inspector.present.spans import Page
from inspector.tui.actions import Action, bindings, bindings_of
from inspector.tui.navigation import (
    CaptureTarget,
    ExplainTarget,
    GraphsTarget,
    GraphTarget,
    LineTarget,
    Open,
    RunTarget,
    TraceTarget,
)
from inspector.tui.replaying import ReplaySession
from inspector.tui.widgets.toned_view import TonedView
from inspector.views.panes import PANES, VIEW_OF_FILE

from .base import InspectorScreen, Place
from .explaining import Findings, Preview
from .replays import Replays
from .trials import Trials

if TYPE_CHECKING:
    from inspector.model.explain import Evidence, Finding
    from inspector.model.history import PastRun
    from inspector.model.replay import ReplayResult
    from inspector.model.run import RunFacts
    from inspector.present.answer import Target
    from inspector.readers.graph import CompiledGraph
    from inspector.readers.run import Run

EXPLAINED = 200
"""Graphs up to which the answer is worked out unasked: it takes reading all of them."""
_BESIDE = 150
"""Cells from which on the line to blame stands beside the answer."""
_ROOMY = 35
"""Rows from which on findings are told in several lines."""
_TURN_SECONDS = 0.25
_SIGNS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class FirstScreen(InspectorScreen):
    """One page that is written once the run is explained; a sign turns until then, and nothing else stands
    where the answer will."""

    own_actions: ClassVar[tuple[Action, ...]] = tuple(
        Action(f"pane('{pane.id}')", "", pane.about, "first", fixed=(pane.key,)) for pane in PANES
    )
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of(own_actions), *bindings("first")]
    opens_runs = True

    def __init__(self, target: RunTarget) -> None:
        super().__init__()
        self.session = ReplaySession()
        self.findings = Findings(self, self.session)
        self.replays = Replays(self, self.session, self.findings.measured)
        self.trials = Trials(self, self.session)
        self.located = target.located
        self._first_remark = target.remark
        self._past: tuple[PastRun, ...] | None = None
        self._targets: tuple[Target | None, ...] = ()
        self._turns = 0
        self._view = TonedView(Page("Answer"), id="answer")
        self._preview = Preview(self.findings, "The line to blame", _BESIDE)
        self._preview.can_focus = False

    def compose_body(self) -> ComposeResult:
        with Horizontal(id="panes"):
            yield self._view
            yield self._preview

    def on_mount(self) -> None:
        self.session.join(self)
        self.headline.show(identity(run_name(self.located.shown), None, None))
        if self._first_remark is not None:
            self.bar.remark(*self._first_remark)
        self._turning = self.set_interval(_TURN_SECONDS, self._turn)
        self._turn()
        self._preview.show_if_wide()
        self.trials.watch()
        self.focus_view(self._view)
        # What is on screen first: threads would compete with the first paint for the interpreter.
        self.call_after_refresh(self._begin)

    def on_resize(self) -> None:
        self._preview.show_if_wide()
        self._preview.look_at(self.evidence)

    def on_unmount(self) -> None:
        """A setting that is being tried is stopped: nobody would see what came of it."""
        self.session.leave(self)
        self.replays.leave()
        self.findings.leave()
        if self.session.trial is not None:
            self.session.trial.stop()

    # -- working it out

    def _turn(self) -> None:
        """One step of the sign."""
        if self.session.explanation is None and (self.session.explaining or not self.session.is_open):
            sign = _SIGNS[self._turns % len(_SIGNS)]
            self._turns += 1
            packed = self.located.listed and not self.session.is_open
            what = self._unpacking() if packed else "working out where the time goes, and why"
            self._view.update(_sign_page(f"{sign} {what}…"))
        elif self.session.explanation is not None:
            self._turning.stop()

    def _unpacking(self) -> str:
        from inspector.readers.archive import part_unpacked

        return unpacking_text(run_name(self.located.shown), part_unpacked(self.located.path))

    def _begin(self) -> None:
        unread = partial(self.failed, f"{self.located.shown} cannot be read")
        self.start(self._read, "open", unread)

    def _read(self) -> None:
        from inspector.readers.run import Run
        from inspector.replay.trust import foreign

        run = Run(self.located.opened())
        self.call_later(self._opened, run, foreign(run, repeats=True))

    def _opened(self, run: Run, why: str | None) -> None:
        self.session.run, self.session.foreign = run, why
        self.headline.show(identity(run_name(run.shown), len(run.graphs), None))
        if len(run.graphs) <= EXPLAINED:
            self.findings.work_out()
        else:
            text = f"{len(run.graphs):,} graphs: working out why takes reading all of them; "
            self._view.show(
                _sign_page(f"{text}{self.key('explain')} does so, {self.key('other')} lists them")
            )
        self.refresh_bindings()

    def _read_facts(self) -> None:
        from inspector.trial.history import past_runs

        run = self.session.run
        replays = self.findings.replays
        self.call_later(self._facts_read, run.facts(), replays)
        self.call_later(self._history_read, past_runs(run, replays))

    def _facts_read(self, facts: RunFacts, replays: Sequence[ReplayResult]) -> None:
        self.session.learn(facts, replays)
        run = self.session.run
        self.headline.show(identity(run_name(run.shown), len(run.graphs), facts))
        self.refresh_bindings()

    def _history_read(self, past: tuple[PastRun, ...]) -> None:
        self._past = past
        self.show_session()

    # -- the answer

    def show_session(self) -> None:
        if self.session.explanation is None:
            return
        if not self._targets:
            # Once there is an answer: what it needs has been read by then, so this is nearly for nothing.
            self.start(self._read_facts, "facts", partial(self.failed, "logs and traces cannot be read"))
            self._view.show_written(self._write)
        else:
            self._view.show_again(self._write)
        self._preview.look_at(self.evidence)
        self.refresh_bindings()

    def _write(self, width: int) -> Page:
        from inspector.present.answer import TRY_THERE, Offers, answer_rows

        explanation = self.session.explanation
        assert explanation is not None
        tries = TRY_THERE if self.session.foreign is not None else f"[{self.key('try')}] try"
        measures = "capture it with --baseline, to compare with eager"
        offers = Offers(
            tries,
            measures if self._why_not_again() else f"[{self.key('again')}] {measures}",
            f": {self.key('explain')} has all",
        )
        roomy = self.app.size.height >= _ROOMY
        rows = list(answer_rows(explanation, width, offers, self._past, self.session.trials, roomy))
        self._targets = tuple(target for _, target in rows)
        first = explanation.findings[0] if explanation.findings else None
        start = next(
            (row for row, target in enumerate(self._targets) if target is not None and target is first), 0
        )
        return Page("Answer", tuple(item for item, _ in rows), start)

    @property
    def target(self) -> Target | None:
        """What the line under the cursor tells of; above all of these, the first finding."""
        row = self._view.cursor
        return self._targets[row] if row < len(self._targets) else None

    @property
    def finding(self) -> Finding | None:
        """The finding under the cursor, else the first."""
        from inspector.model.explain import Finding

        explanation = self.session.explanation
        if isinstance(self.target, Finding):
            return self.target
        return next(iter(explanation.findings), None) if explanation is not None else None

    @property
    def evidence(self) -> Evidence | None:
        """The line of the program that the row under the cursor is about."""
        explanation = self.session.explanation
        if explanation is None:
            return None
        from inspector.explain.where import line_to_blame
        from inspector.model.explain import Place as CodePlace

        if isinstance(self.target, CodePlace):
            return self.target.source
        finding = self.finding
        return line_to_blame(explanation, finding) if finding is not None else None

    def on_lines_view_moved(self) -> None:
        self._preview.look_at(self.evidence)
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        busy = self.session.running or self.session.trial is not None
        if action in ("open", "explain", "pane", "graphs"):
            return self.session.is_open
        if action == "trace":
            return self.session.is_open and bool(self.session.run.trace_paths)
        if action == "stop":
            return busy
        if action == "replay_all":
            return self.session.is_open and not busy
        if action == "try_advice":
            return self.session.explanation is not None and not busy and self.session.foreign is None
        if action == "again":
            return self.session.is_open and self.session.run.manifest is not None
        return super().check_action(action, parameters)

    def action_whole_line(self) -> None:
        """Of a finding all that it says, of which a narrow screen has a line each."""
        from inspector.model.explain import Finding
        from inspector.present.answer import told_in_full

        if isinstance(self.target, Finding):
            self.post_message(Open(LineTarget(told_in_full(self.target))))
        else:
            super().action_whole_line()

    # -- away

    def action_open(self) -> None:
        """The line of the program that is to blame; of a past run its own screen."""
        from inspector.model.history import PastRun

        target, item = self.target, self.evidence
        if isinstance(target, PastRun):
            self._open_past(target)
        elif item is not None:
            self.findings.look_up(item, self.findings.go_to)
        else:
            self.action_graphs()

    def _open_past(self, past: PastRun) -> None:
        from inspector.model.problem import InspectorError
        from inspector.readers.locate import locate

        try:
            located = locate(past.path)
        except InspectorError as error:
            self.bar.remark(str(error), "warn")
        else:
            self.post_message(Open(RunTarget(located)))

    def action_explain(self) -> None:
        explanation = self.session.explanation
        number = None
        if explanation is not None and self.finding is not None:
            number = explanation.findings.index(self.finding)
        self.post_message(Open(ExplainTarget(self.session, number)))

    def action_graphs(self) -> None:
        self.post_message(Open(GraphsTarget(self.session)))

    def action_pane(self, pane: str) -> None:
        """The graph under the cursor, at the launch that the line there is about."""
        graph, at = self._graph_here()
        if graph is None:
            self.bar.remark("no compiled graph here")
            return
        self.session.opened.add(graph.ident)
        self.post_message(Open(GraphTarget(self.session, graph, pane, at)))

    def _graph_here(self) -> tuple[CompiledGraph | None, tuple[str, int] | None]:
        from inspector.model.explain import Place as CodePlace

        graphs = {graph.ident: graph for graph in self.session.run.graphs}
        explanation, target = self.session.explanation, self.target
        places = list(explanation.places) if explanation is not None else []
        finding = self.finding
        if isinstance(target, CodePlace):
            places.insert(0, target)
        elif finding is not None:
            for item in finding.evidence:
                if VIEW_OF_FILE.get(item.path.rpartition("/")[2]) == ("code", "code") and item.line:
                    name = item.path.split("/")[-2]
                    own = next((graph for graph in graphs.values() if graph.name == name), None)
                    if own is not None:
                        return own, ("code", item.line)
            places.sort(key=lambda place: place.graph != finding.graph)
        for place in places:
            if place.graph in graphs:
                return graphs[place.graph], ("code", place.launch) if place.launch else None
        return next((graph for graph in graphs.values() if graph.files), None), None

    def action_trace(self) -> None:
        self.post_message(Open(TraceTarget(self.session.run)))

    def action_again(self) -> None:
        """The run's command in the form, which asks before it runs it."""
        manifest = self.session.run.manifest
        if (why := self._why_not_again()) or manifest is None:
            self.bar.remark(why)
        else:
            self.post_message(Open(CaptureTarget(manifest.command, self.session.foreign)))

    def _why_not_again(self) -> str:
        """Why the run's command cannot be repeated from here; empty where it can."""
        run = self.session.run
        if run.manifest is None or not run.manifest.command:
            return "no command to repeat: only what inspector capture wrote has one"
        cwd = run.manifest.options.get("cwd")
        folder = os.path.normpath(run.root / cwd) if isinstance(cwd, str) else os.getcwd()
        if run.located.unpacked or not os.path.isdir(folder):
            return "it was captured elsewhere: capture it where its program is"
        same = os.path.samefile(folder, os.getcwd())
        return "" if same else f"its command runs in {folder}: start inspector there"

    def places(self) -> Iterator[Place]:
        for graph in self.session.run.graphs if self.session.is_open else ():
            yield Place(graph.ident, "compiled graph", partial(self._open_graph, graph))

    def _open_graph(self, graph: CompiledGraph) -> None:
        self.session.opened.add(graph.ident)
        self.post_message(Open(GraphTarget(self.session, graph), instead=True))

    # -- measuring and trying

    def action_replay_all(self) -> None:
        self.replays.ask(self.session.run.graphs)

    def action_try_advice(self) -> None:
        if self.finding is not None:
            self.trials.ask(self.finding)

    def action_stop(self) -> None:
        if not self.trials.stop():
            self.replays.stop()


def _sign_page(text: str) -> Page:
    from inspector.present.spans import toned

    return Page("Answer", (toned(text, "dim"),))
