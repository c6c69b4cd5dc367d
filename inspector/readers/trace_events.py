"""What the events of a structured trace say: graph breaks, recompiles, caches, compiled graphs.

Pure functions of a Trace and the bytes that it indexes; each decodes only the payloads it needs.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Literal

from inspector.model.logs import GraphBreak, Recompile
from inspector.model.source import SourceLocation
from inspector.model.trace import Trace, TracedGraph, TraceEvent

from .dynamo_messages import parse_graph_break, without_announcements
from .text import from_json
from .trace import payload
from .trace_artifacts import CACHE

Phase = Literal["forward", "backward", "inference", "unknown"]

# # AOT ID: ['0_forward']
_AOT_ID = re.compile(rb"# AOT ID: \['(\w+)'\]")
# "pytorch_version": "2.13.0+cpu"
_VERSION_ARTIFACT = re.compile(r'"pytorch_version": *"([^"]+)"')
# # torch version: 2.4.1+cu121
_VERSION_COMMENT = re.compile(r"^# torch version: (\S+)", re.M)

_AOT_ID_WITHIN = 512
"""Bytes of output code in which the ``AOT ID`` comment stands: its first or second line."""

_FILES = {
    "fx_graph_runnable": "fx_graph_runnable.py",
    "before_post_grad_graph": "fx_graph_readable.py",
    "inductor_post_grad_graph": "fx_graph_transformed.py",
    "inductor_output_code": "output_code.py",
    "inductor_provenance_tracking_node_mappings": "inductor_provenance_tracking_node_mappings.json",
}
"""Event (artifact or kind, by version) -> the file of a compiled-graph folder with the same text."""

_AOT_KINDS = frozenset({"aot_joint_graph", "aot_forward_graph", "aot_backward_graph", "aot_inference_graph"})
_PHASES: dict[str, Phase] = {"forward": "forward", "backward": "backward", "inference": "inference"}
_OUTPUT_CODE = "output_code.py"
_READABLE = "fx_graph_readable.py"
_BEFORE_CODE = frozenset({"fx_graph_runnable.py", "fx_graph_transformed.py", _READABLE})


def graph_breaks(trace: Trace, data: bytes) -> tuple[GraphBreak, ...]:
    """The events of 2.6 and later (``dynamo_graph_break_reason``); `line` is the envelope's.

    The payload is the log's text with the user's stack, never shortened for a repetition, followed
    by the exception's traceback.
    """
    events = trace.artifacts("dynamo_graph_break_reason")
    return without_announcements(
        [
            replace(
                parse_graph_break(payload(data, event), event.compile_id, event.line),
                rank=_rank(trace, event),
            )
            for event in events
        ]
    )


def recompiles(trace: Trace, data: bytes) -> tuple[Recompile, ...]:
    """Functions that were compiled again, with the guards that failed.

    2.5 and later write ``recompile_reasons``. Before there are no artifacts, and the start of a
    compilation whose ``frame_compile_id`` is not 0 tells of the recompile, without a reason.
    """
    functions = _Functions(trace)
    if any(event.kind == "artifact" for event in trace.events):
        return tuple(
            replace(functions.recompile(event, _reasons(payload(data, event))), rank=_rank(trace, event))
            for event in trace.artifacts("recompile_reasons")
        )
    again = {event.compile_id: event for event in trace.of_kind("dynamo_start") if _recompiled(event)}
    return tuple(
        replace(functions.recompile(event, ()), rank=_rank(trace, event)) for event in again.values()
    )


def _rank(trace: Trace, event: TraceEvent) -> int | None:
    return event.rank if event.rank is not None else trace.rank


def torch_version(trace: Trace, data: bytes) -> str | None:
    """From the ``torch_version`` artifact (2.13 and later), else from a repro script's comments."""
    for event in trace.artifacts("torch_version"):
        if match := _VERSION_ARTIFACT.search(payload(data, event)):
            return match[1]
    for event in trace.artifacts("fx_graph_runnable"):
        if match := _VERSION_COMMENT.search(payload(data, event)):
            return match[1]
    return None


def cache_events(trace: Trace) -> dict[str, int]:
    """How often each cache hit, missed or was bypassed: ``fx_graph_cache_miss`` -> 3."""
    names = (event.label for event in trace.events)
    return dict(sorted(Counter(name for name in names if CACHE.match(name)).items()))


def kind_counts(trace: Trace) -> dict[str, int]:
    """Number of events by artifact name, or by kind for those that are not artifacts."""
    return dict(sorted(Counter(event.label for event in trace.events).items()))


def compiled_graphs(trace: Trace, data: bytes) -> tuple[TracedGraph, ...]:
    """Inductor's compilations, in the order in which they began.

    Forward and backward share a compile id. Their events are told apart by order: those before an
    output code belong to it, as do the provenance maps after it, and an event that came already
    begins the next compilation.
    """
    compilations: list[_Compilation] = []
    running: dict[tuple[str | None, int], _Compilation] = {}
    stages: dict[str | None, dict[str, TraceEvent]] = {}
    for event in trace.events:
        if event.kind in _AOT_KINDS:
            stages[event.compile_id] = _next_stage(stages.get(event.compile_id, {}), event)
        file = _FILES.get(event.label)
        if file is None:
            continue
        key = (event.compile_id, event.attempt)
        current = running.get(key)
        if current is None or current.ends_before(file):
            stage = stages.get(event.compile_id, {})
            current = running[key] = _Compilation(event, current.occurrence + 1 if current else 0, stage)
            compilations.append(current)
        current.files[file] = event
    return _named(compilations, data)


def aot_id_of(data: bytes, code: TraceEvent) -> str | None:
    """``0_forward`` from the first lines of an ``inductor_output_code``."""
    if code.payload is None:
        return None
    start, stop = code.payload
    match = _AOT_ID.search(data, start, min(stop, start + _AOT_ID_WITHIN))
    return match[1].decode() if match else None


def _next_stage(stage: dict[str, TraceEvent], event: TraceEvent) -> dict[str, TraceEvent]:
    """AOT autograd's graphs for what is compiled next; a joint or an inference graph begins anew.
    One frame may have several in turn, as DDP splits its graph."""
    begins = event.kind in ("aot_joint_graph", "aot_inference_graph")
    return {event.kind: event} if begins else {**stage, event.kind: event}


class _Compilation:
    """The events of one compilation while they are gathered."""

    def __init__(self, first: TraceEvent, occurrence: int, stage: dict[str, TraceEvent]) -> None:
        self.first = first
        self.occurrence = occurrence
        self.stage = stage
        self.files: dict[str, TraceEvent] = {}

    def ends_before(self, file: str) -> bool:
        return file in self.files or (_OUTPUT_CODE in self.files and file in _BEFORE_CODE)

    def aot_id(self, data: bytes) -> str | None:
        code = self.files.get(_OUTPUT_CODE)
        return aot_id_of(data, code) if code is not None else None

    def phase(self, aot_id: str | None) -> Phase:
        """From the AOT id; without one, from AOT autograd's graphs and the order of compilations."""
        named = _PHASES.get((aot_id or "").rpartition("_")[2])
        if named is not None:
            return named
        if "aot_joint_graph" in self.stage:
            return "backward" if self.occurrence else "forward"
        # 2.4 and 2.5 call an inference graph a forward graph, and then have no joint graph.
        return (
            "inference"
            if "aot_inference_graph" in self.stage or "aot_forward_graph" in self.stage
            else "unknown"
        )


def _named(compilations: list[_Compilation], data: bytes) -> tuple[TracedGraph, ...]:
    """The compilations as graphs, with names that are unique and AOT graphs for missing texts."""
    names: Counter[str] = Counter()
    forward_stages: dict[str, dict[str, TraceEvent]] = {}
    graphs = []
    for compilation in compilations:
        first, aot_id = compilation.first, compilation.aot_id(data)
        phase = compilation.phase(aot_id)
        number = (aot_id or "").rpartition("_")[0]
        stage = compilation.stage
        if phase == "forward":
            forward_stages[number] = stage
        elif phase == "backward":
            # A backward is compiled when it first runs; other graphs may have come in between.
            stage = forward_stages.get(number, stage)
        files = dict(compilation.files)
        aot_graph = stage.get(f"aot_{phase}_graph") or (
            stage.get("aot_forward_graph") if phase == "inference" else None
        )
        if _READABLE not in files and aot_graph is not None:
            files[_READABLE] = aot_graph
        place = f"{first.compile_id or 'unknown'}_{first.attempt}_{compilation.occurrence}".replace("/", "_")
        name = f"model__{aot_id or place}"
        names[name] += 1
        graphs.append(
            TracedGraph(
                name=name if names[name] == 1 else f"{name}.{names[name] - 1}",
                phase=phase,
                aot_id=aot_id,
                compile_id=first.compile_id,
                attempt=first.attempt,
                occurrence=compilation.occurrence,
                files=tuple(sorted(files.items())),
            )
        )
    return tuple(graphs)


def _recompiled(event: TraceEvent) -> bool:
    """Whether a ``dynamo_start`` compiles a frame that was compiled before (``frame_compile_id`` > 0)."""
    return event.compile_id is not None and not event.compile_id.endswith("/0") and "/" in event.compile_id


def _frame(compile_id: str | None) -> str:
    """``8/7`` -> ``8``: the frame without the number of its compilation."""
    return (compile_id or "").rpartition("/")[0]


def _reasons(text: str) -> tuple[str, ...]:
    """A JSON list; newer versions write a single reason as plain text under the same encoding."""
    if text.startswith("["):
        try:
            reasons = from_json(text)
        except ValueError:
            return (text,)
        return tuple(str(reason).rstrip() for reason in reasons)
    return (text.rstrip(),) if text else ()


class _Functions:
    """Which function a compile id belongs to.

    ``compilation_metrics`` says so at the compilation's end, in every version. ``dynamo_start`` says
    it at the beginning, as the last entry of its stack, which 2.4 does not write.
    """

    def __init__(self, trace: Trace) -> None:
        self._known: dict[str | None, SourceLocation] = {}
        self._starts: list[TraceEvent] = list(trace.of_kind("dynamo_start"))
        if trace.of_kind("artifact"):
            for event in self._starts:
                self._learn_from_stack(trace, event)
        for event in trace.of_kind("compilation_metrics"):
            self._learn_from_metrics(event)
        self._frames = {_frame(compile_id): location for compile_id, location in self._known.items()}

    def recompile(self, event: TraceEvent, reasons: tuple[str, ...]) -> Recompile:
        compile_id = event.compile_id
        if compile_id is None:
            # Before a compilation has its id, the reason is logged right before its start.
            compile_id = next((start.compile_id for start in self._starts if start.line > event.line), None)
        # A recompile over the limit never starts; its frame was compiled before under other numbers.
        location = self._known.get(compile_id) or self._frames.get(_frame(compile_id))
        return Recompile(
            (location.function if location else None) or "", location, reasons, compile_id, event.line
        )

    def _learn_from_stack(self, trace: Trace, event: TraceEvent) -> None:
        match event.data:
            case {"stack": [*_, {"line": int(line), "name": str(name), "filename": int(number)}]}:
                self._known[event.compile_id] = SourceLocation(trace.strings.get(number, ""), line, name)

    def _learn_from_metrics(self, event: TraceEvent) -> None:
        match event.data:
            case {"co_name": str(name), "co_filename": str(path), "co_firstlineno": int(line)}:
                self._known[event.compile_id] = SourceLocation(path, line, name)
