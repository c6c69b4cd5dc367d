"""What commands and screens show of an open run, worked out from what its files say. Executes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from inspector.analysis.compile_time import compile_times, merge
from inspector.analysis.ranks import divergence
from inspector.analysis.summary import GraphWaste, RunSummary, summarise
from inspector.frozen import dataclass
from inspector.model.compilation import Compilation, Stage, TraceContent
from inspector.model.compile_time import CompileTime, CompileTimes
from inspector.model.problem import InspectorError, Problem, Read
from inspector.model.ranks import Divergence
from inspector.model.run import GraphArtifacts
from inspector.readers.graph import CompiledGraph
from inspector.readers.run import Run
from inspector.readers.text import guarded
from inspector.readers.trace_file import TraceFile

if TYPE_CHECKING:
    from inspector.model.fusion import FusionReport

_MOST_CHOICES = 12


def summary_of(run: Run, fusion: Callable[[CompiledGraph], FusionReport] | None = None) -> RunSummary:
    """The whole run; reads all graphs. `fusion` has a graph's report where the caller has worked it out."""
    graphs = [graph.artifacts() for graph in run.graphs]
    waste = [_waste(graph, fusion or _analysed) for graph in run.graphs if graph.files]
    time, failed = guarded(partial(compile_time, run), None, run.shown, "its compile time")
    ranks, more = guarded(partial(differences, run), (), run.shown, "how its ranks differ")
    facts = run.facts()
    problems = (*facts.problems, *failed, *more, *(problem for _, own in waste for problem in own))
    return summarise(
        replace(facts, problems=problems),
        graphs,
        time,
        ranks,
        run.records,
        run.variants,
        (item for item, _ in waste if item is not None),
    )


def _waste(graph: CompiledGraph, fusion: Callable[[CompiledGraph], FusionReport]) -> Read[GraphWaste | None]:
    return guarded(lambda: GraphWaste.of(fusion(graph)), None, graph.ident, "its fusion")


def fusion_of(graph: CompiledGraph) -> FusionReport:
    """One graph's fusion, symbolic sizes as `sizes_of` has them; of a damaged graph, where nothing can be
    worked out, an empty report that says so."""
    from inspector.analysis.fusion import analyse_fusion

    report, problems = guarded(partial(_analysed, graph), None, graph.ident, "its fusion")
    if report is not None:
        return report
    empty = GraphArtifacts(graph.ident, graph.name, graph.phase)
    return replace(analyse_fusion(empty), notes=tuple(map(str, problems)))


def _analysed(graph: CompiledGraph) -> FusionReport:
    from inspector.analysis.fusion import analyse_fusion
    from inspector.analysis.traffic import sizes_of

    artifacts = graph.artifacts()
    return analyse_fusion(artifacts, symbols=sizes_of(artifacts, graph.runnable(), graph.runs()))


def compile_time(run: Run) -> CompileTime | None:
    """Of all processes; None without a trace."""
    if not run.traces:
        return None
    times = []
    for file in run.traces:
        spans = file.timeline.spans
        # Only without timed sections are the metrics needed, which takes reading all events.
        times.append(compile_times(spans, () if spans else file.content.compilations))
    return merge(times)


def differences(run: Run) -> tuple[Divergence, ...]:
    """Between ranks, or processes whose rank is not known; none for a single process. Reads all graphs."""
    if len(run.traces) < 2 and len({graph.process for graph in run.graphs}) < 2:
        return ()
    from inspector.readers.ranks import rank_facts

    return divergence(rank_facts(run, [file.content for file in run.traces]))


# -- the structured trace


@dataclass(frozen=True, slots=True)
class ProcessTrace:
    """The trace of one process: the file, what it says, and where its time went."""

    file: TraceFile
    content: TraceContent
    times: CompileTimes


@dataclass(frozen=True, slots=True)
class TraceReport:
    """All traces of a run, or those of one rank."""

    root: str
    traces: tuple[ProcessTrace, ...]
    differences: tuple[Divergence, ...]
    problems: tuple[Problem, ...]

    @property
    def total(self) -> CompileTime:
        return merge([trace.times for trace in self.traces])

    def compilations(self, ident: str) -> list[tuple[ProcessTrace, Compilation]]:
        """The compilations of that id, one for each rank; InspectorError names the choices."""
        every = [(trace, item) for trace in self.traces for item in trace.content.compilations]
        if chosen := [(trace, item) for trace, item in every if item.ident == ident]:
            return chosen
        idents = list(dict.fromkeys(item.ident for _, item in every))
        choices = ", ".join(idents[:_MOST_CHOICES]) or "none: nothing was compiled"
        raise InspectorError(f"no compilation {ident}; there are: {choices}")

    def stages(self, label: str, ident: str | None) -> list[tuple[str, str]]:
        """(whose, text) of each stage of that label, of all compilations or of one; InspectorError names the
        choices."""
        owners = [
            (trace, item.ident, item.stages, item.stage(label))
            for trace in self.traces
            for item in trace.content.compilations
            if ident is None or item.ident == ident
        ]
        if ident is None:
            for trace in self.traces:
                general = trace.content.general
                same = tuple(stage for stage in general if label in (stage.name, stage.label))
                owners.append((trace, "general", general, same))
        texts = [
            (_owner(trace, name, stage), trace.file.payload(stage.event))
            for trace, name, _, matching in owners
            for stage in matching
        ]
        if not texts:
            labels = dict.fromkeys(stage.label for _, _, stages, _ in owners for stage in stages)
            raise InspectorError(f"no stage {label}; there are: {', '.join(labels) or 'none'}")
        return texts


def _owner(trace: ProcessTrace, name: str, stage: Stage) -> str:
    rank = f"rank {trace.content.rank} " if trace.content.rank is not None else ""
    return f"{rank}{name} {stage.label} {stage.phase}".rstrip()


def _named(content: TraceContent, wrappers: Mapping[str, str]) -> TraceContent:
    """Decorators' functions with the names of what they wrap, which torch's trace does not have."""
    if not wrappers:
        return content

    def named(item: Compilation) -> Compilation:
        at = item.function
        wrapped = wrappers.get(f"{at.path}:{at.line}") if at is not None else None
        if at is None or wrapped is None:
            return item
        again = tuple(replace(event, function=f"{event.function} of {wrapped}") for event in item.recompiles)
        return replace(item, function=replace(at, function=f"{at.function} of {wrapped}"), recompiles=again)

    return replace(content, compilations=tuple(map(named, content.compilations)))


def trace_report(run: Run, rank: int | None = None) -> TraceReport:
    """Reads all events. Raises InspectorError where there is no trace, or none of that rank."""
    files: Sequence[TraceFile] = [file for file in run.traces if rank in (None, file.content.rank)]
    if not files:
        known = sorted({file.content.rank for file in run.traces if file.content.rank is not None})
        if known:
            raise InspectorError(f"{run.shown}: no rank {rank}; there are: {', '.join(map(str, known))}")
        remedy = "write one with TORCH_TRACE=DIR, or with inspector capture"
        raise InspectorError(f"{run.shown}: no structured trace here; {remedy}")
    traces, failed = [], []
    for file in files:
        work = partial(compile_times, file.timeline.spans, file.content.compilations)
        times, problems = guarded(work, compile_times(()), file.label, "where its time went")
        traces.append(ProcessTrace(file, _named(file.content, run.wrappers), times))
        failed += [*file.problems, *file.timeline.problems, *problems]
    ranks, problems = guarded(partial(differences, run), (), run.shown, "how its ranks differ")
    return TraceReport(run.shown, tuple(traces), ranks, (*failed, *problems))
