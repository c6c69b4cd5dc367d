"""Two opened runs side by side, from what their files say. Executes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from inspector.analysis.diff.buffers import peak_bytes
from inspector.analysis.diff.compare import GraphFacts, Matched, match_runs
from inspector.analysis.diff.fusions import fusion_changes
from inspector.analysis.diff.guards import guard_changes
from inspector.analysis.diff.ledger import (
    Timed,
    compared_ms,
    difference,
    of_one_process,
    outcome,
    with_times,
)
from inspector.analysis.diff.moved import moved
from inspector.analysis.diff.settings import Values, cache_misses, differing, key_settings, script_settings
from inspector.analysis.diff.verdict import STEADY
from inspector.analysis.guard_words import guard_text
from inspector.analysis.linkage import link_graph
from inspector.analysis.program_calls import calls_by_node, program_graph
from inspector.explain import explain
from inspector.explain.ledger import ledger_again
from inspector.explain.profiles import load_profiles
from inspector.explain.times import call_again, measured_times
from inspector.gather import compile_time, fusion_of
from inspector.model.compile_time import CompileTime, Part
from inspector.model.diff import CacheKey, Change, RunDiff, Total
from inspector.model.explain import Explanation, Ledger
from inspector.model.fusion import FusionReport
from inspector.model.problem import Problem
from inspector.model.run import RunFacts
from inspector.model.two_sides import ProgramGraph
from inspector.readers.cache_keys import cache_keys
from inspector.readers.program_graphs import dynamo_graphs
from inspector.readers.run import Run
from inspector.readers.text import collection_paused, from_json
from inspector.readers.text import guarded as read_guarded
from inspector.replay.store import load_results
from inspector.units import from_to

_T = TypeVar("_T")

# TORCH_COMPILE_DEBUG_DIR, TORCH_TRACE, INSPECTOR_BOOTSTRAP: every capture has folders of its own.
_PLACE = re.compile(r"(?:_DIR|_OUT|_TRACE|_PATH)$|^INSPECTOR_")


class Side:
    """One of the two runs, read."""

    def __init__(self, run: Run, explanation: Explanation | None = None) -> None:
        """`explanation` of the run, where that was worked out before."""
        self.run = run
        self._explanation = explanation
        self.problems: list[Problem] = []
        self.facts: RunFacts = run.facts()
        self.keys: tuple[CacheKey, ...] = self.guarded(partial(cache_keys, run), (), "its cache keys")
        self.time: CompileTime | None = self.guarded(partial(compile_time, run), None, "its compile time")
        none: dict[str, ProgramGraph] = {}
        programs = self.guarded(self._programs, none, "its modules")
        self.reports: dict[str, FusionReport] = {}
        self.graphs = [self._graph(number, programs) for number in range(len(run.graphs))]

    def guarded(self, work: Callable[[], _T], instead: _T, what: str) -> _T:
        value, problems = read_guarded(work, instead, self.run.shown, what)
        self.problems += problems
        return value

    def _programs(self) -> dict[str, ProgramGraph]:
        """By compile id, as Dynamo traced them."""
        return {
            compile_id: program_graph(compile_id, fx) for compile_id, fx in dynamo_graphs(self.run).items()
        }

    def _graph(self, number: int, programs: dict[str, ProgramGraph]) -> GraphFacts:
        graph = self.run.graphs[number]
        artifacts = graph.artifacts()
        self.problems += artifacts.problems
        report = fusion_of(graph) if artifacts.post is not None else None
        if report is not None:
            self.reports[artifacts.ident] = report
        kernels = {
            kernel.name: kernel
            for record in self.run.records
            for kernel in record.kernels
            if kernel.graph in (None, artifacts.name)
        }
        program = programs.get(artifacts.compile_id or "")
        calls = calls_by_node(program, link_graph(artifacts)) if program is not None else {}
        modules = {
            name: next((path for call in own for path in call.modules), "") for name, own in calls.items()
        }
        moved = report.by_call(lambda group: group.bytes_moved) if report is not None else {}
        return GraphFacts(artifacts, kernels, moved, modules)

    def time_calls(self) -> Timed | None:
        """The ledger of a steady call, and what each launch took; None where no call was timed."""
        times = measured_times(self.run)
        if times.compiled_ms is None:
            return None
        explanation = self._explanation
        if explanation is None:
            results = load_results(self.run.root, lambda _text: None)
            explanation = explain(self.run, results, None, load_profiles(self.run))
        launches: dict[tuple[str, int], float] = {}
        if explanation.sides is not None and explanation.sides.joined.launches:
            runs = dict(explanation.sides.joined.runs)
            for item in explanation.sides.joined.launches:
                launches[item.graph, item.call] = item.ms * runs.get(item.graph, 1.0)
        elif explanation.account is not None:
            for part in explanation.account.parts:
                if part.how == "replayed" and len(part.launches) == 1:
                    launches[part.launches[0]] = part.ms
        again, beside = call_again(self.run, times.meant), None
        if again is not None and explanation.sides is not None:
            beside = ledger_again(explanation.ledger, explanation.sides, again.median_ms)
        busy = explanation.quality == "busy"
        return Timed(explanation.ledger, explanation.compiled, launches, busy, again, beside)

    def settings(self) -> dict[str, Values]:
        """How torch was set, by where that stands: what one place tells can be missing on the other side."""
        manifest, facts = self.facts.manifest, self.facts
        environment: dict[str, str] = dict(manifest.environment) if manifest is not None else {}
        state: dict[tuple[str, str], str] = {}
        for calls in facts.calls:
            if calls.state is not None:
                environment |= calls.state.environment
                if calls.state.states:
                    newest = calls.state.states[-1].values
                    state |= {("state", name): str(value) for name, value in newest.items()}
        scripts = [script for graph in self.run.graphs if (script := graph.runnable()) is not None]
        return {
            "machine": self._machine(),
            "environment": {
                ("environment", name): value for name, value in environment.items() if not _PLACE.search(name)
            },
            "keys": key_settings(self.keys),
            "metrics": self._metrics_settings(),
            "scripts": script_settings(line for script in scripts for line in script.config),
            "state": state,
        }

    def _machine(self) -> dict[tuple[str, str], str]:
        manifest, facts = self.facts.manifest, self.facts
        values = {
            "version": facts.torch_version,
            "devices": ", ".join(facts.devices),
            "triton": manifest.triton_version if manifest is not None else None,
            "python": manifest.python.partition(" ")[0] if manifest is not None else None,
        }
        return {("torch", name): value for name, value in values.items() if value}

    @property
    def hears(self) -> bool:
        """Whether a log or a trace tells of its graph breaks and recompiles."""
        return bool(self.run.logs or self.run.traces)

    def _metrics_settings(self) -> dict[tuple[str, str], str]:
        """Dynamo's settings, which the metrics of a compilation carry as JSON (torch/_dynamo/utils.py)."""
        settings: dict[tuple[str, str], str] = {}
        for file in self.run.traces:
            for compilation in file.content.compilations:
                for metrics in compilation.all_metrics:
                    for area in ("dynamo", "functorch"):
                        text = metrics.raw.get(f"{area}_config")
                        try:
                            values = from_json(text) if isinstance(text, str) else {}
                        except ValueError:
                            continue
                        if isinstance(values, dict):
                            settings |= {(area, str(name)): str(value) for name, value in values.items()}
        return settings


def compare(a: Run, b: Run, explained: Explanation | None = None) -> RunDiff:
    """Reads all graphs of both; `explained` is what explaining B gave, where that was done."""
    with collection_paused():
        return compare_sides(Side(a), Side(b, explained))


def compare_sides(a: Side, b: Side) -> RunDiff:
    matched = match_runs(a.graphs, b.graphs)
    partners = {other: match.a[0] for match in matched.graphs if match.a for other in match.b}
    times = [side.guarded(side.time_calls, None, "its times") for side in (a, b)]
    before, after = times
    if before is None or after is None:
        before = after = Timed(Ledger(None, None, (), None))
    told = of_one_process(before, after)
    return RunDiff(
        a=a.run.shown,
        b=b.run.shown,
        graphs=matched.graphs,
        kernels=with_times(matched.kernels, before.launches, after.launches),
        fusions=fusion_changes(matched.kernels, a.reports, b.reports),
        settings=differing(a.settings(), b.settings()),
        cache_misses=cache_misses(a.keys, b.keys, partners),
        events=(*_events(a, b), *_guard_changes(a, b), *moved(matched.graphs, matched.kernels)),
        totals=(*_steady(before, after), *_totals(a, b)),
        ledger=difference(*told, matched.kernels),
        outcome=outcome(before, after),
        notes=tuple(_notes(a, b, matched, (before, after), told)),
        problems=(*a.problems, *b.problems),
    )


def _events(a: Side, b: Side) -> Iterable[Change]:
    """Graph breaks and recompiles that only one side has, or not as often; a line may have moved. Dynamo's
    own debug.log words breaks otherwise and knows no recompile."""
    if not (a.hears and b.hears):
        return
    for what, ours, theirs in (
        ("graph break", _breaks(a.facts), _breaks(b.facts)),
        ("recompile", _recompiles(a.facts), _recompiles(b.facts)),
    ):
        for key in dict.fromkeys((*ours, *theirs)):
            left, right = ours.get(key, []), theirs.get(key, [])
            if len(left) != len(right):
                yield Change(what, _times(left), _times(right))


def _guard_changes(a: Side, b: Side) -> Iterable[Change]:
    """Where both have a trace: nothing else has guards."""
    ours, theirs = (
        [item for file in side.run.traces for item in file.content.compilations] for side in (a, b)
    )
    if not (any(item.guards for item in ours) and any(item.guards for item in theirs)):
        return ()
    return guard_changes(ours, theirs, a.facts.torch_version == b.facts.torch_version)


def _breaks(facts: RunFacts) -> dict[tuple[str, ...], list[str]]:
    """What a break is about -> its texts, with the place."""
    events: dict[tuple[str, ...], list[str]] = {}
    for event in facts.graph_breaks:
        place = event.location
        key = (
            (place.short.rpartition(":")[0], place.code or "", event.headline) if place else (event.headline,)
        )
        text = f"{place.short if place else 'unknown place'}: {event.headline}"
        events.setdefault(key, []).append(text)
    return events


def _recompiles(facts: RunFacts) -> dict[tuple[str, ...], list[str]]:
    events: dict[tuple[str, ...], list[str]] = {}
    for event in facts.recompiles:
        place = event.location.short if event.location else "unknown place"
        reason = guard_text(event.headline)
        events.setdefault((event.function, reason), []).append(f"{event.name} at {place}: {reason}")
    return events


def _times(texts: Sequence[str]) -> str | None:
    if not texts:
        return None
    return texts[0] if len(texts) == 1 else f"{texts[0]} ({len(texts)} times)"


def _steady(a: Timed, b: Timed) -> Iterable[Total]:
    walls = compared_ms(a, b)
    if walls is not None:
        yield Total(STEADY, "ms", *walls)


def _totals(a: Side, b: Side) -> Iterable[Total]:
    """Figures of the whole runs; one that a side does not have is None."""
    yield Total("graphs", "", len(a.graphs), len(b.graphs))
    yield Total("launches", "", _launches(a), _launches(b))
    yield Total("bytes unfused", "B", _bytes(a, "bytes_unfused"), _bytes(b, "bytes_unfused"))
    yield Total("bytes moved", "B", _bytes(a, "bytes_fused"), _bytes(b, "bytes_fused"))
    yield Total("most buffers alive in a graph", "B", _peak(a), _peak(b))
    yield Total("guards", "", _guards(a), _guards(b))
    if a.hears and b.hears:
        yield Total("graph breaks", "", len(a.facts.graph_breaks), len(b.facts.graph_breaks))
        yield Total("recompiles", "", len(a.facts.recompiles), len(b.facts.recompiles))
    if a.time is not None or b.time is not None:
        yield Total("compile time", "s", _seconds(a.time, None), _seconds(b.time, None))
        for part in dict.fromkeys((*(a.time.parts if a.time else ()), *(b.time.parts if b.time else ()))):
            yield Total(f"compile time: {part}", "s", _seconds(a.time, part), _seconds(b.time, part))


def _launches(side: Side) -> int:
    return sum(len(item.artifacts.code.calls) for item in side.graphs if item.artifacts.code is not None)


def _bytes(side: Side, what: str) -> float | None:
    figures = [getattr(report, what) for report in side.reports.values()]
    return sum(figures) if figures and None not in figures else None


def _peak(side: Side) -> float | None:
    """Of the graph that needs most; None where one is not known."""
    peaks = [peak_bytes(item.artifacts) for item in side.graphs if item.artifacts.code is not None]
    known = [peak for peak in peaks if peak is not None]
    return max(known) if known and len(known) == len(peaks) else None


def _guards(side: Side) -> float | None:
    """Conditions of all compilations, where the trace counts them."""
    counts = [
        item.metrics.guard_count
        for file in side.run.traces
        for item in file.content.compilations
        if item.metrics is not None and item.metrics.guard_count is not None
    ]
    return sum(counts) if counts else None


def _seconds(time: CompileTime | None, part: Part | None) -> float | None:
    if time is None:
        return None
    return (time.total_ns if part is None else time.parts.get(part, 0)) / 1e9


def _notes(
    a: Side, b: Side, matched: Matched, timed: tuple[Timed, Timed], told: tuple[Timed, Timed]
) -> Iterable[str]:
    """`timed` are both runs' times, `told` those that the rows of the difference are of."""
    if compared_ms(*timed) is not None and outcome(*timed) == "unknown":
        yield "too few steady calls, a busy machine, or another run that says something else: no evidence"
    if told != timed:
        calls = from_to(*(side.ledger.compiled_ms for side in told))
        yield f"where the difference is, is told of the runs that were profiled: {calls} a call there"
    for name, side in (("A", a), ("B", b)):
        if not side.graphs:
            yield f"{name} has no compiled graph: inspector summary {side.run.shown} says why"
        elif not any(item.artifacts.code is not None for item in side.graphs):
            yield f"{name} has no generated code, so no kernel to compare"
    alone = [match for match in matched.graphs if match.relation in ("only_a", "only_b")]
    if len(alone) == len(matched.graphs) and a.graphs and b.graphs:
        yield "no graph of A computes what one of B does: these seem to be different programs"
