"""Replays of the run that is open: starting and stopping them, and what is known from them so far."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from inspector.frozen import dataclass

if TYPE_CHECKING:
    from inspector.analysis.replay_history import PastKernel
    from inspector.lowered import Lowered
    from inspector.model.code import Kernel
    from inspector.model.edits import KernelEdit
    from inspector.model.explain import Explanation
    from inspector.model.peaks import Peaks
    from inspector.model.replay import GraphReplay, ReplayResult
    from inspector.model.run import RunFacts
    from inspector.model.trial import TrialReport
    from inspector.readers.graph import CompiledGraph
    from inspector.readers.run import Run
    from inspector.tui.trying import TrialJob
    from inspector.tui.widgets.bars import ChainBar


class SessionScreen(Protocol):
    """A screen that shows what a session knows."""

    bar: ChainBar

    def show_session(self) -> None:
        """Draw it anew."""

    def refresh_bindings(self) -> None:
        """Other keys may work."""


class ReplaySession:
    """What the screens of one run share: results, whether its code may run, and the replay that is running;
    what is known of the run as a whole, why it is slow, and the setting that is being tried.

    `results` are whole replays, oldest first; `graphs` what is known of each graph from these and from the
    replay that is still running.
    """

    def __init__(self) -> None:
        self._run: Run | None = None
        self._screens: list[SessionScreen] = []
        self.results: tuple[ReplayResult, ...] = ()
        self.graphs: dict[str, GraphReplay] = {}
        self.trusted: set[str | None] = set()
        """Why the run is not the user's own, None where it is: for these the answer was to go on."""
        self.foreign: str | None = None
        """Why repeating the run's command would not be the user's own doing, so that no try is offered; None
        where it would."""
        self.running = False
        self.stop = threading.Event()
        self.facts: RunFacts | None = None
        self.opened: set[str] = set()
        """Graphs that were gone to, by ident: these have been read whole."""
        self.explanation: Explanation | None = None
        self.explaining = False
        self.trials: dict[str, TrialReport] = {}
        """What came of settings that were tried, by the rule that advised them."""
        self.trial: TrialJob | None = None
        self._edits: dict[tuple[str, str], tuple[KernelEdit, ...]] = {}
        self._lowered: Lowered | None = None

    @property
    def run(self) -> Run:
        """The run that is open; screens that come after its own only know it so."""
        assert self._run is not None
        return self._run

    @run.setter
    def run(self, run: Run) -> None:
        self._run = run

    @property
    def is_open(self) -> bool:
        return self._run is not None

    # -- who shows it

    def join(self, screen: SessionScreen) -> None:
        self._screens.append(screen)

    def leave(self, screen: SessionScreen) -> None:
        if screen in self._screens:
            self._screens.remove(screen)

    def say(self, text: str) -> None:
        for screen in self._screens:
            screen.bar.remark(text)

    def changed(self) -> None:
        """All screens draw what is known."""
        for screen in self._screens:
            screen.show_session()
            screen.refresh_bindings()

    # -- what is known

    def learn(self, facts: RunFacts, replays: Sequence[ReplayResult]) -> None:
        """What was read of the run as a whole; replays that are known stay as they are."""
        self.facts = facts
        if not self.results:
            self._add_earlier(replays)

    def _add_earlier(self, results: Sequence[ReplayResult]) -> None:
        """What earlier replays left in the run."""
        from inspector.analysis.replay_history import latest, merged

        known = self.graphs
        self.results = (*results, *self.results)
        self.graphs = latest(self.results)
        for name, graph in known.items():
            self.graphs[name] = merged(self.graphs.get(name), graph)

    def add_graph(self, graph: GraphReplay) -> None:
        """One graph of the replay that is running."""
        from inspector.analysis.replay_history import merged

        self.graphs[graph.name] = merged(self.graphs.get(graph.name), graph)

    def add_result(self, result: ReplayResult) -> None:
        """A replay that has ended; its graphs were added as they came."""
        self.results = (*self.results, result)

    def edits(self, graph: CompiledGraph, kernel: Kernel) -> tuple[KernelEdit, ...]:
        """The replayed edits of a kernel, newest first; read from disk when first asked for."""
        from inspector.replay.edits import EditFolder

        key = (graph.ident, kernel.name)
        if key not in self._edits:
            self._edits[key] = EditFolder(graph.run, graph.ident, kernel).load(self.say)
        return self._edits[key]

    def add_edit(self, edit: KernelEdit) -> None:
        key = (edit.graph, edit.kernel)
        self._edits[key] = (edit, *self._edits.get(key, ()))

    def history(self, graph: str, call: int) -> tuple[PastKernel, ...]:
        """Every measurement of one launch, newest first."""
        from inspector.analysis.replay_history import kernel_history

        return kernel_history(self.results, graph, call)

    def ncu(self, graph: str, call: int) -> str:
        """What Nsight Compute measured of one launch, in words; empty where the run has no report of it."""
        from inspector.analysis.ncu import ncu_text
        from inspector.lowered import Lowered

        if self._lowered is None:
            self._lowered = Lowered(self.run)
        item = self._lowered.launch(graph, call) if self._lowered.reports else None
        return ncu_text(item.ncu) if item is not None else ""

    def peaks(self, kind: str | None) -> Peaks | None:
        """The peaks behind the roofline of a device kind."""
        from inspector.analysis.replay_history import peaks_used

        return peaks_used(self.results, kind)


def can_replay(graph: CompiledGraph) -> bool:
    """A graph out of a trace, or one that was never generated, has no code on disk to run."""
    return graph.folder is not None and "output_code.py" in graph.files


def replay(
    run: Run,
    graphs: Sequence[CompiledGraph],
    tell: Callable[[str, GraphReplay | None], object],
    should_stop: Callable[[], bool],
    call: int | None = None,
) -> ReplayResult | None:
    """One graph after the other, and rows as they come; None where no graph was finished.

    `call`: only this launch, of one graph; None for everything. `tell` hears what is being done and
    each result, also a graph's in part. A capture keeps what was measured, older results too.
    """
    from inspector.explain.profiles import launch_times
    from inspector.replay.plan import graph_files
    from inspector.replay.protocol import ReplayOptions
    from inspector.replay.spawn import replay_graphs
    from inspector.replay.store import save_result

    def progress(text: str) -> None:
        tell(f"replay: {text}", None)

    def finished(graph: GraphReplay) -> None:
        tell("", graph)

    profiled = launch_times(run)
    files = [graph_files(graph, profiled.get(graph.ident)) for graph in graphs if graph.folder is not None]
    result = replay_graphs(
        files,
        ReplayOptions(kernel=str(call), whole=False) if call is not None else ReplayOptions(),
        on_progress=progress,
        should_stop=should_stop,
        on_result=finished,
    )
    if not result.graphs:
        return None
    if run.kind == "capture" and os.access(run.root, os.W_OK):
        save_result(result, run.root)
    return result


@dataclass(frozen=True, slots=True)
class EditJob:
    """A changed source of a kernel, saved in `path`, to be replayed at the launch `call`."""

    run: Run
    graph: CompiledGraph
    kernel: Kernel
    call: int
    path: Path


def replay_changed(
    job: EditJob, tell: Callable[[str, None], object], should_stop: Callable[[], bool]
) -> KernelEdit:
    """The edit beside the original; the result is kept with the source."""
    from inspector.replay.edits import EditFolder, replay_edit, with_stages
    from inspector.replay.protocol import ReplayOptions

    def progress(text: str) -> None:
        tell(f"replay: {text}", None)

    source = job.path.read_text(encoding="utf-8")
    edit = replay_edit(
        job.graph,
        job.call,
        source,
        int(job.path.stem),
        ReplayOptions(),
        progress,
        should_stop,
    )
    edit = replace(edit, kernel=job.kernel.name)
    edit = with_stages(edit, job.run, ReplayOptions(), progress, should_stop)
    EditFolder(job.graph.run, job.graph.ident, job.kernel).save(edit)
    return edit


def earlier_replays(run: Run, tell: Callable[[str], object]) -> tuple[ReplayResult, ...]:
    """What earlier replays left in the run, oldest first; `tell` hears of what cannot be read."""
    from inspector.replay.store import load_results

    return load_results(run.root, tell) if run.root.is_dir() else ()
