"""What joins a profile to a run's graphs: the program's calls as Dynamo traced them, and the cache keys.

A compiled graph runs under an annotation with the key of Inductor's cache
(torch/_inductor/output_code.py: ``## Call CompiledFxGraph KEY ##``), and the trace has that key in the
``fx_graph_cache_miss`` or ``_hit`` after the graph's code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from inspector.frozen import dataclass
from inspector.model.compilation import Specialization
from inspector.model.fx import FxGraph, FxNode

from .guards import specializations
from .trace import Occurrence
from .trace_artifacts import cache_lookups
from .trace_events import aot_id_of

# class GraphModule(torch.nn.Module):
_CLASS = re.compile(r"^ *class (\S+)\(torch\.nn\.Module\):", re.MULTILINE)
# torch.ops.higher_order.tag_activation_checkpoint(wrap_body_0, l_x_, ...)
_RUNS_ONCE = re.compile(
    r"\.higher_order\.(tag_activation_checkpoint|wrap\w*|invoke_subgraph|autograd_function_apply)$"
)

if TYPE_CHECKING:
    from .run import Run
    from .run_files import RunFiles
    from .trace_file import TraceFile


def dynamo_graphs(run: Run | RunFiles, rank: int = 0) -> dict[str, FxGraph]:
    """Compile id -> the graph as Dynamo traced it: that of the last attempt, for one rank's process."""
    events = {
        event.compile_id: (trace, event)
        for trace in traces_of(run, rank)
        for event in trace.trace.of_kind("dynamo_output_graph")
        if event.compile_id is not None
    }
    return {
        compile_id: program_of(trace.payload(event), f"{trace.label}:{event.line}")
        for compile_id, (trace, event) in events.items()
    }


def fixed_by_tracing(run: Run | RunFiles, rank: int = 0) -> dict[str, tuple[Specialization, ...]]:
    """Compile id -> what tracing made a number of in it, for one rank's process."""
    fixed: dict[str, tuple[Specialization, ...]] = {}
    for trace in traces_of(run, rank):
        for event in trace.trace.of_kind("symbolic_shape_specialization"):
            made = specializations(Occurrence(trace.trace, trace.data, event))
            fixed[event.compile_id or ""] = (*fixed.get(event.compile_id or "", ()), *made)
    return fixed


def program_of(text: str, path: str) -> FxGraph:
    """A graph of Dynamo's with the bodies in place that it runs once, as of a checkpoint: eager runs their
    operators among the others. Their nodes are named ``wrap_body_0.linear``."""
    from .fx_graph import parse_fx_graph

    starts = [match.start() for match in _CLASS.finditer(text)] or [0]
    ends = [*starts[1:], len(text)]
    pieces = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    graph, *bodies = (parse_fx_graph(piece, path) for piece in pieces)
    names = [match[1] for match in _CLASS.finditer(text)][1:]
    # A body's own bodies follow it, and may be called as it is.
    named = dict(reversed([*zip(names, bodies, strict=True)]))
    return replace(graph, nodes=tuple(_inlined(graph.nodes, named)))


def _inlined(nodes: Iterable[FxNode], bodies: Mapping[str, FxGraph]) -> Iterator[FxNode]:
    for node in nodes:
        body = node.inputs[0] if _RUNS_ONCE.search(node.target) and node.inputs else ""
        if body in bodies:
            # A body has none of those that come before it, so that a garbled one ends too.
            others = {name: graph for name, graph in bodies.items() if name != body}
            for inner in _inlined(bodies[body].operations, others):
                yield replace(inner, name=f"{body}.{inner.name}", inputs=_within(body, inner.inputs))
        yield node


def _within(body: str, names: Iterable[str]) -> tuple[str, ...]:
    # What a parameter holds is called alike inside and outside.
    return tuple(name if name.startswith(("l_", "L_")) else f"{body}.{name}" for name in names)


@dataclass(frozen=True, slots=True)
class TracedCode:
    """A compiled graph as the trace knows it: the compile id of its frame, and its key in Inductor's cache,
    None where nothing was looked up."""

    ident: str
    compile_id: str | None
    key: str | None


def traced_codes(run: Run, rank: int = 0) -> tuple[TracedCode, ...]:
    """The run's graphs whose code the trace has, by process and AOT id; empty without a trace."""
    idents: dict[tuple[str, str], str] = {}
    for graph in run.graphs:
        parts = graph.name.removeprefix("model__").split("_")
        if len(parts) >= 2:
            idents.setdefault((f"{parts[0]}_{parts[1]}", graph.process.rpartition("pid_")[2]), graph.ident)
    codes: dict[str, TracedCode] = {}
    for trace in traces_of(run, rank):
        last: dict[str | None, str | None] = {}
        for event in trace.trace.events:
            if event.label == "inductor_output_code":
                aot = aot_id_of(trace.data, event) or ""
                ident = idents.get((aot, event.process), idents.get((aot, "")))
                last[event.compile_id] = ident
                if ident is not None:
                    codes.setdefault(ident, TracedCode(ident, event.compile_id, None))
            elif event.label.startswith("fx_graph"):
                ident = last.get(event.compile_id)
                if ident is not None and codes[ident].key is None:
                    for lookup in cache_lookups(Occurrence(trace.trace, trace.data, event)):
                        codes[ident] = replace(codes[ident], key=lookup.key or None)
    return tuple(codes.values())


def traces_of(run: Run | RunFiles, rank: int) -> tuple[TraceFile, ...]:
    return tuple(trace for trace in run.traces if (trace.trace.rank or 0) == rank)
