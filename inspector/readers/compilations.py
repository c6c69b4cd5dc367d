"""A trace's events, gathered by compilation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from inspector.model.compilation import (
    GRAPH_STAGES,
    Compilation,
    CompileMetrics,
    EventKind,
    Failure,
    Stage,
    Status,
    TraceContent,
)
from inspector.model.logs import GraphBreak, Recompile
from inspector.model.trace import Trace, TraceEvent

from .trace import Occurrence
from .trace_events import compiled_graphs, graph_breaks, recompiles
from .trace_kinds import KINDS, kind_of

_GRAPHS = frozenset(GRAPH_STAGES)
_AOT_PHASE = re.compile(r"aot_(forward|backward|inference)_graph\Z")
_NO_STAGES = frozenset({"chromium_event", "str"})
_FIELDS = frozenset(item.name for item in fields(Compilation))

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
        known = gathered.get(ident)
        if known is not None and event.kind == "dynamo_start" and known.ended:
            # After torch._dynamo.reset() the numbers begin again.
            number = sum(1 for other in gathered.values() if other.compile_id == event.compile_id)
            ident = f"{event.compile_id}~{number + 1}"
            known = None
        if known is None:
            known = gathered[ident] = _Gathered(event.compile_id, ident, event)
            current[event.compile_id] = ident
        known.add(event)
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
    counts = Counter(event.label for event in trace.events)
    first: dict[str, TraceEvent] = {}
    for event in trace.events:
        first.setdefault(event.label, event)
    kinds = [
        EventKind(name, counts[name], kind_of(name) is not None, event.line, _example(event, data))
        for name, event in first.items()
    ]
    return tuple(sorted(kinds, key=lambda kind: (kind.known, kind.name)))


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
    events_of: dict[str, tuple[Any, ...]] = {}
    for event in events:
        same = [item for item in gathered.values() if item.compile_id == event.compile_id]
        begun = [item for item in same if item.first.line <= event.line] or same[:1]
        if begun:
            ident = begun[-1].ident
            events_of[ident] = (*events_of.get(ident, ()), event)
    return events_of


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
        self, gathered: _Gathered, breaks: tuple[GraphBreak, ...], again: tuple[Recompile, ...]
    ) -> Compilation:
        made = self._made(gathered.events)
        metrics: list[CompileMetrics] = list(made.pop("metrics", ()))
        own = next((item for item in metrics if not item.backward and not item.is_runtime), None)
        if own is not None and own.fail_type:
            failure = Failure(own.fail_type, own.fail_reason or own.fail_type, own.fail_location, own.line)
            made["failures"] = (*made.get("failures", ()), failure)
        function = own.function if own is not None else None
        if function is None and made.get("stack"):
            function = made["stack"][-1]
        if function is None and again:
            function = again[0].location
        return Compilation(
            compile_id=gathered.compile_id,
            ident=gathered.ident,
            rank=self._trace.rank,
            function=function,
            status=_status(gathered, made, own),
            attempts=max((event.attempt for event in gathered.events), default=0) + 1,
            line=gathered.first.line,
            started=gathered.started,
            stages=self.stages(gathered.events),
            facts={title: texts for title, texts in made.items() if title not in _FIELDS},
            breaks=breaks,
            recompiles=again,
            metrics=own,
            backward_metrics=tuple(item for item in metrics if item.backward and not item.is_runtime),
            runtime_metrics=tuple(item for item in metrics if item.is_runtime),
            **{name: items for name, items in made.items() if name in _FIELDS},
        )

    def _made(self, events: Iterable[TraceEvent]) -> dict[str, tuple[Any, ...]]:
        """What the table's handlers make of the events, by what they yield, in the table's order."""
        made: dict[str, Sequence[Any]] = {}
        for event in events:
            kind = kind_of(event.label)
            if kind is not None and kind.handler is not None:
                new = kind.handler(Occurrence(self._trace, self._data, event))
                made[kind.yields] = kind.merge(made.get(kind.yields, ()), new)
        order = dict.fromkeys(kind.yields for kind in KINDS)
        return {name: tuple(made[name]) for name in order if made.get(name)}

    def stages(self, events: Iterable[TraceEvent]) -> tuple[Stage, ...]:
        """Every text of these events in order; a repeated name gets a number."""
        seen: Counter[str] = Counter()
        stages = []
        for event in events:
            if event.payload is None or event.kind in _NO_STAGES:
                continue
            name = event.label
            seen[name] += 1
            aot = _AOT_PHASE.match(name)
            stages.append(
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
            for stage in stages
        )


def _status(
    gathered: _Gathered, made: Mapping[str, tuple[Any, ...]], metrics: CompileMetrics | None
) -> Status:
    if metrics is not None and metrics.fail_type:
        return "failed"
    if metrics is None:
        if made.get("failures"):
            return "failed"
        return "unfinished" if gathered.started is not None else "not compiled"
    if metrics.has_guarded_code is False:
        return "skipped"
    if not any(event.kind == "dynamo_output_graph" for event in gathered.events):
        return "no graph"
    caches = {lookup.cache: lookup.outcome for lookup in made.get("caches", ())}
    if caches.get("aotautograd") == "hit" or (
        caches.get("fx_graph") == "hit" and "aotautograd" not in caches
    ):
        return "cache hit"
    return "ok"
