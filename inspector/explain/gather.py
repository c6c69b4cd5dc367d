"""From an opened run to the case: reads what is there, runs nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Literal

from inspector.analysis.calls import compiled_more
from inspector.analysis.compile_time import compile_times, merge
from inspector.analysis.fusion import analyse_fusion
from inspector.analysis.linkage import link_graph
from inspector.analysis.load import run_busy, run_taken
from inspector.analysis.nothing import all_in_eager
from inspector.analysis.phases import in_meant
from inspector.analysis.program_calls import calls_by_node, program_graph
from inspector.analysis.steady import RUN_TO_RUN
from inspector.analysis.traffic import sizes_of, symbol_hints
from inspector.analysis.two_sides import side_doubt
from inspector.analysis.unasked import unasked_nodes
from inspector.analysis.whole_operators import whole_operators
from inspector.lowered import Lowered
from inspector.model.calls import GraphRuns
from inspector.model.code import Allocation
from inspector.model.explain import Host
from inspector.model.fx import FxGraph
from inspector.model.links import Linkage
from inspector.model.lowering import INSTRUCTIONS
from inspector.model.ncu import NcuKernel
from inspector.model.problem import Problem
from inspector.model.replay import GraphReplay, ReplayResult
from inspector.model.run import GraphArtifacts, RunFacts
from inspector.model.two_sides import ProgramCall, Sides
from inspector.readers.failures import program_failure
from inspector.readers.program_graphs import dynamo_graphs, fixed_by_tracing
from inspector.readers.programs import program_sources
from inspector.readers.text import guarded

from .case import Case, GraphCase, Launch
from .doubts import apart
from .estimate import host_costs, peak, wrapper_ms
from .in_vain import constant_parts, repeated
from .launches import launches_of
from .least import machine_of
from .profiles import Profiles, compare, load_profiles
from .program import Program, read_program
from .times import all_counters, all_events, first_rank, graph_times, measured_times, recorded_calls

if TYPE_CHECKING:
    from inspector.readers.graph import CompiledGraph
    from inspector.readers.run import Run

LEAST_SEEN = 10
"""Runs whose arguments were looked at: fewer are a warm-up's, which every program does alike."""
_LEAST_IN_KERNELS = 0.2
"""Of a graph's time, however short: its kernels are not free."""
_NEVER_COUNTED: tuple[float, float | None] = (-1.0, None)
"""Stands for a run whose recorder counted no graph at all."""
# #pragma omp parallel num_threads(2)
_OMP_THREADS = re.compile(r"#pragma omp parallel num_threads\((\d+)\)")
# [0/1] -> frame 0
_FRAME = re.compile(r"^!?(?:\d+/)?(\d+)/(\d+)")


def gather(
    run: Run,
    results: Sequence[ReplayResult] = (),
    host: Host | None = None,
    profiles: Profiles | None = None,
    reports: Sequence[NcuKernel] = (),
) -> Case:
    """Everything that the rules look at: the run, `results` of replaying it, oldest first, the machine on
    which it is explained, `profiles`, by default the run's own, and `reports` of Nsight Compute beside those
    that it keeps. Never raises for what is missing; rules then see less."""
    facts = of_first_rank(run.facts())
    replays, machine = newest_replays(results)
    processes = first_rank(recorded_calls(run))
    times = measured_times(run, all_in_eager(facts, len(run.graphs)))
    failed: list[Problem] = []
    programs: list[Program] = []
    for shown, text in program_sources(run):
        program, problems = guarded(partial(read_program, text, shown), None, shown, "its source")
        programs.append(program or Program(shown, tuple(text.splitlines())))
        failed += problems
    graphs = [graph for graph in run.graphs if graph.files and (graph.rank or 0) == 0]
    threads = _threads(graphs, programs)
    same = host is not None and run.manifest is not None and run.manifest.host == host.name
    shares = runs_per_call(graphs)
    meant = in_meant(processes, times.meant)
    taken = graph_times(meant)
    trained = any(item.kind == "backward" and item.calls for each in meant for item in each.callables)
    counted = {**taken.of, **(_backward_runs(graphs, taken.of) if trained else {})}
    if slowed(counted.values(), times.compiled_ms):
        counted = {key: (runs, None) for key, (runs, _) in counted.items()}
    profiles = profiles or load_profiles(run)
    alone = profiles is not None or times.eager_ms is not None
    alone = alone or any(replay.operators for replay in replays.values())
    # Read once, and only where somebody asks.
    traced = cache(partial(dynamo_graphs, run))
    sides: Sides | None = None
    if profiles is not None:
        work = partial(compare, run, profiles, times.eager_ms, times.compiled_ms, traced())
        sides, problems = guarded(work, None, run.shown, "both sides' profiles")
        failed += problems
    fits = sides is None or not side_doubt(sides.joined, "compiled", times.compiled_ms)
    profiled: dict[str, dict[int, float]] = {}
    for item in sides.joined.launches if sides is not None else ():
        profiled.setdefault(item.graph, {})[item.call] = item.ms
    ran = dict(sides.joined.runs) if sides is not None else {}
    elsewhere = runs_elsewhere(ran, counted.values())
    cases: list[GraphCase] = []
    for graph in graphs:
        case, problems = guarded(
            partial(
                _graph_case,
                run,
                graph,
                shares.get(graph.ident, 1.0),
                counted.get((graph.process, graph.name), None if counted else _NEVER_COUNTED),
                facts.devices,
                threads,
                replays.get(graph.ident),
                profiled.get(graph.ident, {}),
                fits,
                ran.get(graph.ident, elsewhere),
                times.compiled_ms,
                traced,
                alone,
            ),
            None,
            graph.ident,
            "what its kernels do",
        )
        cases += [case] if case is not None else []
        failed += problems
    compile_time, in_trace = None, None
    compile_source: Literal["calls", "trace"] | None = None
    if run.traces:
        spans = [
            compile_times(file.timeline.spans, () if file.timeline.spans else file.content.compilations)
            for file in run.traces
        ]
        in_trace = merge(spans)
        compile_time, compile_source = in_trace.total_ns / 1e9, "trace"
    if times.cold_ms is not None and (run.graphs or times.source == "compiled run"):
        # Of one run in which nothing was compiled first calls took longer for other reasons: imports, memory.
        compile_time, compile_source = times.cold_ms / 1e3, "calls"
    whole = Case(
        facts=facts,
        graphs=tuple(cases),
        times=times,
        events=all_events(processes),
        counters=all_counters(processes),
        records=tuple(record for log in run.logs for record in log.records),
        log_path=run.logs[0].path if run.logs else "",
        programs=tuple(programs),
        threads=threads,
        compile_s=compile_time,
        compile_source=compile_source,
        in_trace=in_trace,
        host=host if same else None,
        machine=machine,
        spilled=tuple(
            (kernel.name, kernel.spills)
            for record in run.records
            for kernel in record.kernels
            if kernel.spills
        ),
        paired_ms=taken.wall_ms,
        ranks=len({graph.rank for graph in run.graphs} - {None}) or 1,
        busy=run_busy(run.variants, profiled=False),
        taken=run_taken(run.variants),
        profile_busy=run_busy(run.variants, timed=False),
        compiled_more=compiled_more(run.variants),
        sides=sides,
        failure=program_failure(run),
        problems=tuple(failed),
        traced=traced,
        fixed=partial(fixed_by_tracing, run),
        lowered=Lowered(run, reports=reports, stages=INSTRUCTIONS).known,
    )
    peaks = machine_of(whole).peaks
    return replace(whole, costs=host_costs(peaks.costs if peaks is not None else None, whole.gpu))


def slowed(graphs: Iterable[tuple[float, float | None]], wall_ms: float | None) -> bool:
    """Whether (runs in a call, milliseconds of one) of the captured run's graphs take longer together than a
    call of the run without debug output, as on a busy machine: they say nothing of that then."""
    inside = sum(runs * (ms or 0.0) for runs, ms in graphs)
    return wall_ms is not None and inside > wall_ms and apart(inside, wall_ms)


def of_first_rank(facts: RunFacts) -> RunFacts:
    """A run of several ranks is explained by its first: what the others did alike is not counted again."""
    return replace(
        facts,
        graph_breaks=tuple(item for item in facts.graph_breaks if not item.rank),
        given_up=tuple(item for item in facts.given_up if not item.rank),
        recompiles=tuple(item for item in facts.recompiles if not item.rank),
        calls=tuple(first_rank(facts.calls)),
    )


def newest_replays(results: Sequence[ReplayResult]) -> tuple[dict[str, GraphReplay], dict[str, object]]:
    """Each graph's newest result that has times, and the machine of the newest of all."""
    newest: dict[str, GraphReplay] = {}
    machine: dict[str, object] = {}
    for result in results:
        machine = dict(result.machine)
        for graph in result.graphs:
            known = newest.get(graph.name)
            if graph.compiled is not None and (known is None or graph.kernels or not known.kernels):
                newest[graph.name] = graph
    return newest, machine


def _graph_case(
    run: Run,
    graph: CompiledGraph,
    share: float,
    counted: tuple[float, float | None] | None,
    devices: Sequence[str],
    threads: int | None,
    replay: GraphReplay | None,
    profiled: Mapping[int, float],
    fits: bool,
    ran: float | None,
    wall_ms: float | None,
    traced: Callable[[], Mapping[str, FxGraph]],
    alone: bool,
) -> GraphCase:
    artifacts = graph.artifacts()
    script = graph.runnable()
    linkage = link_graph(artifacts)
    # A replay makes its inputs in the sizes that the graph was compiled for.
    symbols = sizes_of(artifacts, script, graph.runs() if replay is None else None)
    fusion = analyse_fusion(artifacts, linkage, symbols)
    gpu = _on_gpu(graph)
    launches = launches_of(
        artifacts, fusion, linkage, symbols, peak(devices, gpu, threads), gpu, threads or 2, replay
    )
    if profiled:
        launches = tuple(
            # What a profile of slower calls has are shares of a graph's time, and no times.
            replace(
                launch,
                ms=launch.ms if launch.measured and not fits else profiled[launch.call.index],
                measured=launch.measured or fits,
                profiled_ms=profiled[launch.call.index],
            )
            for launch in launches
        )
    hints = {**symbol_hints(artifacts.code, artifacts.fx_after), **symbols} if artifacts.code else symbols
    in_process = counted[1] if counted is not None else None
    asked = seen.asked if (seen := graph.runs()) is not None else ()

    def program() -> FxGraph | None:
        return traced().get(artifacts.compile_id or "")

    runs = share if counted is _NEVER_COUNTED else counted[0] if counted else 0.0
    runs = ran if ran is not None else runs
    if not (profiled and fits):
        inside = in_process if not gpu else None
        whole = inside if inside is not None or not runs or wall_ms is None else wall_ms / runs
        launches = launches if whole is None else of_this_run(launches, whole)
        launches = launches if inside is None else shared_out(launches, inside)
    case = GraphCase(
        artifacts=artifacts,
        fusion=fusion,
        launches=launches,
        runs=runs,
        config=dict(script.config) if script is not None else {},
        folder=run.label(graph.folder) if graph.folder is not None else graph.ident,
        gpu=gpu,
        replay=replay,
        in_process_ms=in_process,
        quickest_ms=_quickest(graph.runs()),
        state=graph.state(),
        same_inputs=same_inputs(artifacts.fx_after, graph.runs()),
        hints=hints,
        subnormal=_subnormal(artifacts.fx_after, graph.runs()),
        asked=asked,
        unasked=unasked_nodes(artifacts.fx_after, program(), asked) if asked else frozenset(),
        operators=whole_operators(artifacts, linkage, program(), hints) if alone else (),
        program=_program(artifacts, linkage, traced) if any(not each.sources for each in launches) else {},
    )
    vain = constant_parts(case)
    for launch, items in repeated(case):
        vain[launch.call.index] = vain.get(launch.call.index, 0.0) + sum(item.part for item in items)
    useful = (max(0.0, 1 - vain.get(launch.call.index, 0.0)) for launch in launches)
    return replace(
        case,
        launches=tuple(replace(launch, useful=part) for launch, part in zip(launches, useful, strict=True)),
    )


def runs_elsewhere(ran: Mapping[str, float], counted: Iterable[tuple[float, float | None]]) -> float | None:
    """How often graphs that no profiled call has run in one: never, where that has as many as calls have by
    the record, (runs, milliseconds) of each; None where it has fewer, and the record counts.

    A search makes one network after the other: each call has one of their graphs, and a profile those of one.
    """
    whole = sum(runs for runs, _ in counted)
    return 0.0 if ran and sum(ran.values()) >= (1 - RUN_TO_RUN) * whole else None


def same_inputs(fx: FxGraph | None, ran: GraphRuns | None) -> frozenset[str]:
    """Names of a graph's inputs that were the same in all runs looked at; none where these were few."""
    inputs = fx.placeholders if fx is not None else ()
    if ran is None or ran.seen < LEAST_SEEN or ran.given != len(inputs):
        return frozenset()
    return frozenset(inputs[position].name for position in ran.same if position < len(inputs))


def _quickest(ran: GraphRuns | None) -> float | None:
    return min(ran.ms, default=None) if ran is not None else None


def _subnormal(fx: FxGraph | None, ran: GraphRuns | None) -> dict[str, float]:
    """Names of a graph's inputs -> the part of their elements that was subnormal."""
    inputs = fx.placeholders if fx is not None else ()
    if ran is None or ran.given != len(inputs):
        return {}
    return {inputs[position].name: share for position, share in ran.subnormal if position < len(inputs)}


def of_this_run(launches: tuple[Launch, ...], whole_ms: float) -> tuple[Launch, ...]:
    """Launches of a graph whose run took `whole_ms` at most, kernels, wrapper, all. Replayed ones that take
    longer together ran under another load: what each has of their time is its share of the run, no time."""
    replayed = sum(launch.ms for launch in launches if launch.measured)
    if replayed <= whole_ms or not apart(replayed, whole_ms):
        return launches
    return tuple(
        replace(launch, ms=launch.ms * whole_ms / replayed, measured=False) if launch.measured else launch
        for launch in launches
    )


def _program(
    artifacts: GraphArtifacts, linkage: Linkage, traced: Callable[[], Mapping[str, FxGraph]]
) -> dict[str, tuple[ProgramCall, ...]]:
    fx = traced().get(artifacts.compile_id or "") if linkage.pre_fx else None
    return calls_by_node(program_graph(artifacts.compile_id or "", fx), linkage) if fx is not None else {}


def shared_out(launches: tuple[Launch, ...], whole_ms: float) -> tuple[Launch, ...]:
    """Launches of a graph on a CPU whose run took `whole_ms`: what nobody measured shares, by its estimate,
    what the wrapper and measured launches leave. Measured ones stay as they are."""
    measured = sum(launch.ms for launch in launches if launch.measured)
    guessed = sum(launch.ms for launch in launches if not launch.measured)
    room = max(whole_ms - wrapper_ms(len(launches)), whole_ms * _LEAST_IN_KERNELS) - measured
    if not guessed or room <= 0:
        return launches
    return tuple(
        launch if launch.measured else replace(launch, ms=launch.ms * room / guessed) for launch in launches
    )


def _backward_runs(
    graphs: Sequence[CompiledGraph], counted: Mapping[tuple[str, str], tuple[float, float]]
) -> dict[tuple[str, str], tuple[float, None]]:
    """Backward graphs that nobody counted, as autograd runs those of a GPU in a thread of its own: each runs
    as often as the forward graph of its compilation, and its time is not known."""
    runs = {
        (graph.process, graph.compile_id): counted[graph.process, graph.name][0]
        for graph in graphs
        if graph.phase == "forward" and (graph.process, graph.name) in counted
    }
    return {
        (graph.process, graph.name): (runs[graph.process, graph.compile_id], None)
        for graph in graphs
        if graph.phase == "backward"
        and (graph.process, graph.name) not in counted
        and (graph.process, graph.compile_id) in runs
    }


def _on_gpu(graph: CompiledGraph) -> bool:
    """Whether any of its memory is on a GPU."""
    code = graph.code()
    if code is None:
        return False
    made = any(isinstance(step, Allocation) and step.device != "cpu" for step in code.steps)
    return made or any(
        (example.device or "cpu").split(":")[0] not in ("cpu", "meta") for example in code.example_inputs
    )


def runs_per_call(graphs: Sequence[CompiledGraph]) -> dict[str, float]:
    """How often each graph runs in one call, where nobody counted: the variants of one frame share one."""
    variants: dict[tuple[str, str, str], list[str]] = {}
    for graph in graphs:
        match = _FRAME.match(graph.compile_id or "")
        frame = match[1] if match else graph.ident
        variants.setdefault((graph.process, frame, graph.phase), []).append(graph.ident)
    shares: dict[str, float] = {}
    for names in variants.values():
        shares.update(dict.fromkeys(names, 1.0 / len(names)))
    return shares


def _threads(graphs: Iterable[CompiledGraph], programs: Sequence[Program]) -> int | None:
    for graph in graphs:
        match = _OMP_THREADS.search(graph.text("output_code.py") or "")
        if match:
            return int(match[1])
    for program in programs:
        if program.threads is not None:
            return program.threads[0]
    return None
