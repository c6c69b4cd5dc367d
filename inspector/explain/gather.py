"""From an opened run to the case: reads what is there, runs nothing."""

from __future__ import annotations

import os
import platform
import re
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from inspector.analysis.compile_time import compile_times, merge
from inspector.analysis.fusion import analyse_fusion
from inspector.analysis.linkage import link_graph
from inspector.model.calls import CompiledCallable, Event, ProcessCalls
from inspector.model.code import Allocation
from inspector.model.replay import GraphReplay, ReplayResult
from inspector.replay.store import load_results

from .case import Case, GraphCase, Times
from .estimate import peak
from .launches import launches_of
from .program import Program, read_program

if TYPE_CHECKING:
    from inspector.readers.graph import CompiledGraph
    from inspector.readers.run import Run

_MOST_SOURCES = 20
_LARGEST_SOURCE = 1 << 20
_NEVER_COUNTED: tuple[float, float | None] = (-1.0, None)
"""Stands for a run whose recorder counted no graph at all."""
# #pragma omp parallel num_threads(2)
_OMP_THREADS = re.compile(r"#pragma omp parallel num_threads\((\d+)\)")
# [0/1] -> frame 0
_FRAME = re.compile(r"^!?(?:\d+/)?(\d+)/(\d+)")


def gather(run: Run) -> Case:
    """Everything that the rules look at. Never raises for what is missing; rules then see less."""
    facts = run.facts()
    results = load_results(run.root) if run.kind == "capture" else ()
    replays, machine = newest_replays(results)
    processes = _calls(run)
    times = measured_times(run)
    programs = tuple(_programs(run))
    graphs = [graph for graph in run.graphs if graph.files and (graph.rank or 0) == 0]
    threads = _threads(graphs, programs)
    same = run.manifest is not None and run.manifest.host == platform.node()
    shares = runs_per_call(graphs)
    counted = _counted_runs(processes)
    # Graphs were timed in the captured run; the run without debug output is the one that counts.
    captured = times.captured_ms or times.compiled_ms
    scale = (times.compiled_ms or 0.0) / captured if captured else 1.0
    cases = tuple(
        _graph_case(
            run,
            graph,
            shares.get(graph.ident, 1.0),
            counted.get((graph.process, graph.name), None if counted else _NEVER_COUNTED),
            scale,
            facts.devices,
            threads,
            replays.get(graph.ident),
        )
        for graph in graphs
    )
    compile_time = None
    if run.traces:
        spans = [
            compile_times(file.timeline.spans, () if file.timeline.spans else file.content.compilations)
            for file in run.traces
        ]
        compile_time = merge(spans).total_ns / 1e9
    if times.cold_ms is not None:
        compile_time = times.cold_ms / 1e3
    return Case(
        facts=facts,
        graphs=cases,
        times=times,
        events=_events(processes),
        counters=_counters(processes),
        records=tuple(record for log in run.logs for record in log.records),
        log_path=run.logs[0].path if run.logs else "",
        programs=programs,
        threads=threads,
        compile_s=compile_time,
        same_machine=same,
        machine=machine,
        spilled=tuple(
            (kernel.name, kernel.spills)
            for record in run.records
            for kernel in record.kernels
            if kernel.spills
        ),
    )


def newest_replays(results: Sequence[ReplayResult]) -> tuple[dict[str, GraphReplay], dict[str, object]]:
    """Each graph's newest result that has times, and the machine of the newest of all."""
    found: dict[str, GraphReplay] = {}
    machine: dict[str, object] = {}
    for result in results:
        machine = dict(result.machine)
        for graph in result.graphs:
            known = found.get(graph.name)
            if graph.compiled is not None and (known is None or graph.kernels or not known.kernels):
                found[graph.name] = graph
    return found, machine


def _graph_case(
    run: Run,
    graph: CompiledGraph,
    share: float,
    counted: tuple[float, float | None] | None,
    scale: float,
    devices: Sequence[str],
    threads: int | None,
    replay: GraphReplay | None,
) -> GraphCase:
    artifacts = graph.artifacts()
    script = graph.runnable()
    linkage = link_graph(artifacts)
    symbols = script.symbols if script is not None else {}
    fusion = analyse_fusion(artifacts, linkage, symbols)
    gpu = _on_gpu(graph)
    launches = launches_of(
        artifacts, fusion, linkage, symbols, peak(devices, gpu, threads), gpu, threads or 2, replay
    )
    return GraphCase(
        artifacts=artifacts,
        fusion=fusion,
        launches=launches,
        runs=share if counted is _NEVER_COUNTED else counted[0] if counted else 0.0,
        runs_counted=counted is not _NEVER_COUNTED,
        config=dict(script.config) if script is not None else {},
        folder=run.label(graph.folder) if graph.folder is not None else graph.ident,
        gpu=gpu,
        replay=replay,
        in_process_ms=counted[1] * scale if counted and counted[1] is not None else None,
    )


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


# -- calls


def _calls(run: Run) -> tuple[ProcessCalls, ...]:
    return tuple(record.calls for record in run.records if record.calls is not None)


def _events(processes: Iterable[ProcessCalls]) -> tuple[Event, ...]:
    return tuple(event for calls in processes for event in calls.events)


def _counters(processes: Iterable[ProcessCalls]) -> dict[str, int]:
    counters: dict[str, int] = {}
    for calls in processes:
        for name, value in calls.counters:
            counters[name] = counters.get(name, 0) + value
    return counters


def _counted_runs(processes: Sequence[ProcessCalls]) -> dict[tuple[str, str], tuple[float, float | None]]:
    """(process folder, graph) -> (runs in one call, median milliseconds of one run)."""
    found: dict[tuple[str, str], tuple[float, float | None]] = {}
    for calls in processes:
        most = max((item.calls for item in calls.callables), default=0)
        for graph in calls.graph_runs:
            if most:
                median = statistics.median(graph.ms) if graph.ms else None
                found[(graph.process, graph.graph)] = (graph.runs / most, median)
    return found


def measured_times(run: Run) -> Times:
    """Times of the first rank, from the run without debug output where there is one."""
    variants = {variant.variant: variant.processes for variant in getattr(run, "variants", ())}
    captured = variants.get("captured") or _calls(run)
    compiled = variants.get("compiled") or ()
    chosen, source = (compiled, "compiled run") if _has_steady(compiled) else (captured, "captured run")
    called = [item for calls in _first_rank(chosen) for item in calls.callables if item.calls]
    if not called:
        return Times()
    eager = [
        item for calls in _first_rank(variants.get("eager") or ()) for item in calls.callables if item.calls
    ]
    most = max(item.calls for item in called)
    steady = _per_call(called, most)
    main = max(called, key=lambda item: item.total_ms)
    cold, again, cold_calls = _cold(called)
    return Times(
        compiled_ms=steady,
        eager_ms=_per_call(eager, max(item.calls for item in eager)) if eager else None,
        source=source,
        captured_ms=_steady_ms(captured),
        calls=most,
        steady_calls=len(main.steady_ms),
        cold_ms=cold,
        recompile_ms=again,
        cold_calls=cold_calls,
        spread=max(_spread(main), _spread(max(eager, key=lambda item: item.total_ms)) if eager else 0.0),
        grad=main.grad,
        training=main.training,
        callables=tuple(dict.fromkeys(item.name for item in called)),
        backends=tuple(dict.fromkeys(item.backend for item in called if item.backend)),
        modes=tuple(dict.fromkeys(item.mode for item in called if item.mode)),
    )


def _steady_ms(processes: Sequence[ProcessCalls]) -> float | None:
    called = [item for calls in _first_rank(processes) for item in calls.callables if item.calls]
    return _per_call(called, max(item.calls for item in called)) if called else None


def _first_rank(processes: Sequence[ProcessCalls]) -> list[ProcessCalls]:
    ranks = sorted({calls.rank or 0 for calls in processes})
    return [calls for calls in processes if (calls.rank or 0) == (ranks[0] if ranks else 0)]


def _has_steady(processes: Sequence[ProcessCalls]) -> bool:
    return any(item.steady_ms for calls in processes for item in calls.callables)


def _per_call(called: Sequence[CompiledCallable], most: int) -> float | None:
    """One pass over all callables: medians, each as often as it is called for one call of the most called."""
    total = 0.0
    known = False
    for item in called:
        median = item.steady_median_ms
        if median is not None:
            total += median * item.calls / most
            known = True
    return total if known else None


def _cold(called: Sequence[CompiledCallable]) -> tuple[float, float, int]:
    """(all cold time beyond steady calls, the part after each first call, number of cold calls)."""
    cold = again = 0.0
    count = 0
    for item in called:
        steady = item.steady_median_ms or 0.0
        cold += item.setup_ms
        for place, (index, ms) in enumerate(zip(item.cold_index, item.cold_ms, strict=False)):
            extra = max(ms - steady, 0.0)
            cold += extra
            count += 1
            if index > 0 and place > 0:
                again += extra
    return cold, again, count


def _spread(item: CompiledCallable) -> float:
    if len(item.steady_ms) < 4:
        return 0.0
    low, middle, high = statistics.quantiles(item.steady_ms, n=4)
    return (high - low) / middle if middle else 0.0


# -- the user's source


def _programs(run: Run) -> Iterable[Program]:
    """The script of the manifest's command first, then files that graphs name and that can be read."""
    seen: set[str] = set()
    for shown, path in _source_paths(run):
        if shown in seen or len(seen) >= _MOST_SOURCES:
            continue
        seen.add(shown)
        try:
            if path.stat().st_size > _LARGEST_SOURCE:
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        yield read_program(text, shown)


def _source_paths(run: Run) -> Iterable[tuple[str, Path]]:
    manifest = run.manifest
    if manifest is not None:
        cwd = run.root / str(manifest.options.get("cwd") or ".")
        for word in manifest.command:
            if word.endswith(".py"):
                yield word, _existing(run, Path(os.path.normpath(cwd / word)))
                break
        for position, word in enumerate(manifest.command[:-1]):
            if word == "-m":
                name = manifest.command[position + 1].replace(".", "/")
                yield f"{name}.py", _existing(run, Path(os.path.normpath(cwd / f"{name}.py")))
                break
    for graph in run.graphs:
        fx = graph.fx("transformed") or graph.fx("readable")
        for node in fx.nodes if fx is not None else ():
            if node.source is not None and _users(node.source.path):
                yield node.source.path, _existing(run, Path(node.source.path))


def _users(path: str) -> bool:
    """Whether a file is the user's own Python, and not a library's."""
    return path.endswith(".py") and "site-packages" not in path and "/lib/python" not in path


def _existing(run: Run, path: Path) -> Path:
    """`path`, or the file of its name inside the run where a copy was kept."""
    beside = run.root / path.name
    return path if path.is_file() or not beside.is_file() else beside
