"""A trace's events, gathered by compilation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from inspector.model.compilation import (
    GRAPH_STAGES,
    CacheLookup,
    Compilation,
    CompileMetrics,
    EventKind,
    Failure,
    Guard,
    KernelInfo,
    Stage,
    Status,
    Symbol,
    TraceContent,
)
from inspector.model.logs import GraphBreak, Recompile
from inspector.model.source import SourceLocation
from inspector.model.trace import Trace, TraceEvent

from . import trace_artifacts as artifacts
from .compile_metrics import METRICS_KINDS, parse_metrics
from .guards import parse_guards, shape_guard, stack_of, symbol
from .trace import payload
from .trace_events import compiled_graphs, graph_breaks, recompiles

_GRAPHS = frozenset(GRAPH_STAGES)
_AOT_PHASE = re.compile(r"aot_(forward|backward|inference)_graph\Z")

_KNOWN_KINDS = (
    _GRAPHS
    | METRICS_KINDS
    | artifacts.FAILURE_NAMES
    | {"str", "dynamo_start", "chromium_event", "dynamo_cpp_guards_str", "dynamo_guards", "guard_added_fast"}
    | {"guard_added", "create_symbol", "create_unbacked_symbol", "dynamo_graph_break_reason"}
    | {"recompile_reasons", "dynamo_side_effects", "triton_kernel_info", "inductor_collective_schedule"}
    | {"inductor_provenance_tracking_kernel_stack_traces", "inductor_provenance_tracking_node_mappings"}
    | {"fx_graph_runnable", "torch_version"}
    # Facts of each input tensor, before tracing; the graphs show the same of those that matter.
    | {"describe_storage", "describe_tensor", "describe_source"}
    # Texts without a reader of their own: shown as stages.
    | {"aot_forward_graph_fw_metadata", "torch._functorch.config", "runtime_wrapper_orchestration"}
    | {"aot_autograd_runtime_wrappers", "backward_prologue", "backward_epilogue", "compiled_fn_wrapper"}
    | {"compiled_function_forward", "compiled_function_backward"}
)
_KNOWN_ENDINGS = ("_BYTECODE", "_pre_grad", "_post_grad")
_NO_STAGES = frozenset({"chromium_event", "str"})

_EXAMPLE_WIDTH = 160


def read_content(trace: Trace, data: bytes) -> TraceContent:
    """Everything that `inspector trace` shows of one file. Texts of stages are not decoded."""
    gathered: dict[str, _Gathered] = {}
    current: dict[str, str] = {}
    general: list[TraceEvent] = []
    for event in trace.events:
        if event.compile_id is None:
            if event.payload is not None and event.kind not in _NO_STAGES:
                general.append(event)
            continue
        ident = current.get(event.compile_id, event.compile_id)
        found = gathered.get(ident)
        if found is not None and event.kind == "dynamo_start" and found.ended:
            # After torch._dynamo.reset() the numbers begin again.
            number = sum(1 for other in gathered.values() if other.compile_id == event.compile_id)
            ident = f"{event.compile_id}~{number + 1}"
            found = None
        if found is None:
            found = gathered[ident] = _Gathered(event.compile_id, ident, event)
            current[event.compile_id] = ident
        found.add(event)
    phases = _phases(trace, data)
    reader = _Reader(trace, data, phases)
    breaks = _by_compilation(graph_breaks(trace, data), gathered)
    again = _by_compilation(recompiles(trace, data), gathered)
    compilations = tuple(
        reader.compilation(item, breaks.get(item.ident, ()), again.get(item.ident, ()))
        for item in gathered.values()
    )
    process = trace.events[0].process if trace.events else ""
    return TraceContent(
        path=trace.path,
        rank=trace.rank,
        process=process,
        compilations=compilations,
        kinds=event_kinds(trace, data),
        general=reader.stages(general),
        problems=trace.problems,
    )


def event_kinds(trace: Trace, data: bytes) -> tuple[EventKind, ...]:
    """Every kind of event with its number, unknown ones first, each with an example."""
    counts = Counter(event.name or event.kind for event in trace.events)
    first: dict[str, TraceEvent] = {}
    for event in trace.events:
        first.setdefault(event.name or event.kind, event)
    kinds = [
        EventKind(name, counts[name], is_known(name), event.line, _example(event, data))
        for name, event in first.items()
    ]
    return tuple(sorted(kinds, key=lambda kind: (kind.known, kind.name)))


def is_known(name: str) -> bool:
    """Whether a view shows more of this kind than its name and its text."""
    return name in _KNOWN_KINDS or name.endswith(_KNOWN_ENDINGS) or artifacts.is_cache_event(name)


def _example(event: TraceEvent, data: bytes) -> str:
    if event.payload is None:
        return str(event.data)[:_EXAMPLE_WIDTH]
    start, stop = event.payload
    lines = data[start : min(stop, start + 2000)].decode("utf-8", errors="replace").split("\n")
    return next((line.strip()[:_EXAMPLE_WIDTH] for line in lines if line.strip(" \t\r[{")), "")


def _phases(trace: Trace, data: bytes) -> dict[int, str]:
    """Envelope line -> phase, for the events that belong to one graph's compilation."""
    phases: dict[int, str] = {}
    for graph in compiled_graphs(trace, data):
        for _, event in graph.files:
            if graph.phase != "unknown":
                phases[event.line] = graph.phase
    return phases


def _by_compilation(events: Iterable[Any], gathered: Mapping[str, _Gathered]) -> dict[str, tuple[Any, ...]]:
    """Breaks or recompiles by the compilation in which they happened: among several of one id, the
    last that began before."""
    found: dict[str, tuple[Any, ...]] = {}
    for event in events:
        same = [item for item in gathered.values() if item.compile_id == event.compile_id]
        begun = [item for item in same if item.first.line <= event.line] or same[:1]
        if begun:
            ident = begun[-1].ident
            found[ident] = (*found.get(ident, ()), event)
    return found


class _Gathered:
    """The events of one compilation."""

    def __init__(self, compile_id: str, ident: str, first: TraceEvent) -> None:
        self.compile_id = compile_id
        self.ident = ident
        self.first = first
        self.events: list[TraceEvent] = []
        self.ended = False
        self.started: int | None = None

    def add(self, event: TraceEvent) -> None:
        self.events.append(event)
        self.ended = self.ended or event.kind == "compilation_metrics"
        if event.kind == "dynamo_start" and self.started is None:
            self.started = event.line


class _Reader:
    def __init__(self, trace: Trace, data: bytes, phases: Mapping[int, str]) -> None:
        self._trace = trace
        self._data = data
        self._phases = phases

    def compilation(
        self, found: _Gathered, breaks: tuple[GraphBreak, ...], again: tuple[Recompile, ...]
    ) -> Compilation:
        facts = _Facts()
        for event in found.events:
            handler = _HANDLERS.get(event.name or event.kind)
            if handler is not None:
                handler(self, facts, event)
            elif artifacts.is_cache_event(event.name or event.kind):
                lookup = artifacts.cache_lookup(event, self._text(event))
                if lookup is not None:
                    facts.caches.append(lookup)
        metrics = next((item for item in facts.metrics if not item.backward and not item.is_runtime), None)
        if metrics is not None and metrics.fail_type:
            text = metrics.fail_reason or metrics.fail_type
            facts.failures.append(Failure(metrics.fail_type, text, metrics.fail_location, metrics.line))
        function = metrics.function if metrics is not None else None
        if function is None and facts.stack:
            function = facts.stack[-1]
        if function is None and again:
            function = again[0].location
        return Compilation(
            compile_id=found.compile_id,
            ident=found.ident,
            rank=self._trace.rank,
            function=function,
            status=_status(found, facts, metrics),
            attempts=max((event.attempt for event in found.events), default=0) + 1,
            line=found.first.line,
            started=found.started,
            stack=facts.stack,
            stages=self.stages(found.events),
            guards=tuple(facts.guards),
            symbols=tuple(facts.symbols),
            caches=tuple(facts.caches),
            kernels=tuple(facts.kernels),
            kernel_stacks=tuple(facts.kernel_stacks),
            side_effects=tuple(facts.side_effects),
            collectives=tuple(facts.collectives),
            failures=tuple(facts.failures),
            breaks=breaks,
            recompiles=again,
            metrics=metrics,
            backward_metrics=tuple(item for item in facts.metrics if item.backward and not item.is_runtime),
            runtime_metrics=tuple(item for item in facts.metrics if item.is_runtime),
        )

    def stages(self, events: Iterable[TraceEvent]) -> tuple[Stage, ...]:
        """Every text of these events in order; a repeated name gets a number."""
        seen: Counter[str] = Counter()
        found = []
        for event in events:
            if event.payload is None or event.kind in _NO_STAGES:
                continue
            name = event.name or event.kind
            seen[name] += 1
            aot = _AOT_PHASE.match(name)
            found.append(
                Stage(
                    name=name,
                    label=name if seen[name] == 1 else f"{name}#{seen[name]}",
                    attempt=event.attempt,
                    phase=aot[1] if aot else self._phases.get(event.line, ""),
                    is_graph=name in _GRAPHS,
                    size=event.payload[1] - event.payload[0],
                    event=event,
                )
            )
        return tuple(
            replace(stage, label=f"{stage.name}#1")
            if seen[stage.name] > 1 and "#" not in stage.label
            else stage
            for stage in found
        )

    def _text(self, event: TraceEvent) -> str:
        return payload(self._data, event)

    # -- one method for each kind of event that is read here

    def start(self, facts: _Facts, event: TraceEvent) -> None:
        if isinstance(event.data, dict):
            # 2.4 leaves the frame that is compiled out of its stack; the metrics name it.
            facts.stack = stack_of(self._trace, event.data.get("stack")) or facts.stack

    def guards(self, facts: _Facts, event: TraceEvent) -> None:
        # A restart or a later tree replaces what came before.
        kept = [guard for guard in facts.guards if guard.kind == "SHAPE"]
        facts.guards = [*kept, *parse_guards(self._text(event), event.line + 1)]

    def shape_guard(self, facts: _Facts, event: TraceEvent) -> None:
        guard = shape_guard(self._trace, event)
        if guard is not None:
            facts.guards.append(guard)

    def symbol(self, facts: _Facts, event: TraceEvent) -> None:
        made = symbol(self._trace, event)
        if made is not None:
            # Each attempt makes its symbols anew.
            facts.symbols = [*(other for other in facts.symbols if other.name != made.name), made]

    def kernels(self, facts: _Facts, event: TraceEvent) -> None:
        facts.kernels.extend(artifacts.kernel_infos(event, self._text(event)))

    def kernel_stacks(self, facts: _Facts, event: TraceEvent) -> None:
        facts.kernel_stacks.extend(artifacts.kernel_stacks(self._text(event)))

    def side_effects(self, facts: _Facts, event: TraceEvent) -> None:
        facts.side_effects.extend(artifacts.side_effects(self._text(event)))

    def collectives(self, facts: _Facts, event: TraceEvent) -> None:
        facts.collectives.extend(artifacts.collectives(self._text(event)))

    def failure(self, facts: _Facts, event: TraceEvent) -> None:
        facts.failures.append(artifacts.failure(event, self._text(event)))

    def metrics(self, facts: _Facts, event: TraceEvent) -> None:
        parsed = parse_metrics(event)
        if parsed is not None:
            facts.metrics.append(parsed)


class _Facts:
    """What is known of one compilation while its events are read."""

    def __init__(self) -> None:
        self.stack: tuple[SourceLocation, ...] = ()
        self.guards: list[Guard] = []
        self.symbols: list[Symbol] = []
        self.caches: list[CacheLookup] = []
        self.kernels: list[KernelInfo] = []
        self.kernel_stacks: list[tuple[str, tuple[str, ...]]] = []
        self.side_effects: list[str] = []
        self.collectives: list[str] = []
        self.failures: list[Failure] = []
        self.metrics: list[CompileMetrics] = []


_HANDLERS: dict[str, Callable[[_Reader, _Facts, TraceEvent], None]] = {
    "dynamo_start": _Reader.start,
    "dynamo_cpp_guards_str": _Reader.guards,
    "guard_added_fast": _Reader.shape_guard,
    "guard_added": _Reader.shape_guard,
    "create_symbol": _Reader.symbol,
    "create_unbacked_symbol": _Reader.symbol,
    "triton_kernel_info": _Reader.kernels,
    "inductor_provenance_tracking_kernel_stack_traces": _Reader.kernel_stacks,
    "dynamo_side_effects": _Reader.side_effects,
    "inductor_collective_schedule": _Reader.collectives,
    **dict.fromkeys(artifacts.FAILURE_NAMES, _Reader.failure),
    **dict.fromkeys(METRICS_KINDS, _Reader.metrics),
}


def _status(found: _Gathered, facts: _Facts, metrics: CompileMetrics | None) -> Status:
    if metrics is not None and metrics.fail_type:
        return "failed"
    if metrics is None:
        if facts.failures:
            return "failed"
        return "unfinished" if found.started is not None else "not compiled"
    if metrics.has_guarded_code is False:
        return "skipped"
    if not any(event.kind == "dynamo_output_graph" for event in found.events):
        return "no graph"
    caches = {lookup.cache: lookup.outcome for lookup in facts.caches}
    if caches.get("aotautograd") == "hit" or (
        caches.get("fx_graph") == "hit" and "aotautograd" not in caches
    ):
        return "cache hit"
    return "ok"
