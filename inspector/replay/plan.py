"""What the child must know of a graph: its files, and what the readers and the linkage say of each call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from inspector.analysis.evaluations import operations
from inspector.analysis.fusion import analyse_fusion
from inspector.analysis.linkage import link_graph
from inspector.analysis.traffic import Memory, reads_of, symbol_hints, writes_of
from inspector.analysis.whole_operators import whole_operators
from inspector.model.code import Alias, KernelCall
from inspector.model.fusion import FusionReport, total
from inspector.model.fx import FxGraph
from inspector.model.problem import InspectorError
from inspector.model.run import GraphArtifacts
from inspector.model.schedule import Layout, Schedule, SchedulerNode
from inspector.readers.graph import CompiledGraph
from inspector.readers.locate import KIND_TEXT
from inspector.readers.program_graphs import dynamo_graphs
from inspector.replay.protocol import GraphFiles, KernelPlan, PlannedCall, PlannedLeaf

_WITHOUT_TENSOR = frozenset({"MultiOutputLayout", "NoneLayout", "CommBufferLayout"})


def graph_files(graph: CompiledGraph, profiled: Mapping[int, float] | None = None) -> GraphFiles:
    """A graph's files, its kernel calls, and how torch was set. `profiled`: milliseconds of its calls in the
    run's profile, by number. Raises InspectorError for a graph without a folder of its own."""
    if graph.folder is None:
        what = KIND_TEXT[graph.run.kind]
        raise InspectorError(f"{graph.ident}: {what} can be read but not replayed; open the run's folder")
    files = GraphFiles.of_folder(graph.folder, graph.ident)
    script = graph.runnable()
    artifacts = graph.artifacts()
    traced = dynamo_graphs(graph.run, graph.rank or 0).get(artifacts.compile_id or "")
    kernels = kernel_plan(artifacts, script.symbols if script else None, traced)
    known = profiled or {}
    calls = tuple(replace(call, profiled_ms=known.get(call.index)) for call in kernels.calls)
    texts = {path.absolute(): text for path, text in graph.sources.items()}
    return replace(files, kernels=replace(kernels, calls=calls), state=graph.state(), texts=texts)


def kernel_plan(
    artifacts: GraphArtifacts, symbols: Mapping[str, int] | None = None, traced: FxGraph | None = None
) -> KernelPlan:
    """The launches of one graph; without calls where there is no wrapper. `symbols`: hints for sizes;
    `traced`: the graph as Dynamo traced it."""
    code = artifacts.code
    if code is None:
        return KernelPlan()
    hints = {**(symbols or {}), **symbol_hints(code, artifacts.fx_after)}
    linkage = link_graph(artifacts)
    leaves = {leaf.name: leaf for leaf in artifacts.post.leaves()} if artifacts.post is not None else {}
    memory = Memory(artifacts, leaves, linkage, hints)
    links = {link.call: link for link in linkage.calls}
    fusion = analyse_fusion(artifacts, linkage, hints)
    asked, counted = _asked(fusion), _operations(fusion, artifacts.post, memory)
    return KernelPlan(
        calls=tuple(
            PlannedCall(
                call.index,
                call.kernel,
                call.kind,
                call.span.first,
                call.outputs,
                call.buffers,
                links[call.index].entries,
                links[call.index].fx,
                _bytes(call, _leaves_of(links[call.index].entries, artifacts.post), memory),
                bytes_asked=asked.get(call.index),
                flops=counted.get(call.index, (None, None))[0],
                flops_asked=counted.get(call.index, (None, None))[1],
            )
            for call in code.calls
        ),
        leaves=_leaves(artifacts.post),
        layouts=_layouts(artifacts.post),
        aliases=tuple(step for step in code.steps if isinstance(step, Alias) and step.kind != "symbol"),
        inputs=code.inputs,
        outputs=code.outputs,
        symbols=hints,
        operators=whole_operators(artifacts, linkage, traced, hints),
    )


def _asked(fusion: FusionReport) -> dict[int, int]:
    """Bytes that the program asks each launch to move, for those that move more."""
    moved = fusion.by_call(lambda group: group.bytes_moved)
    asked = fusion.by_call(lambda group: group.bytes_asked)
    return {index: amount for index, amount in asked.items() if amount < moved.get(index, 0)}


def _operations(fusion: FusionReport, post: Schedule | None, memory: Memory) -> dict[int, tuple[int, int]]:
    """Arithmetic operations of the generated launches whose loops are all known, and those asked for."""
    entries = {entry.name: tuple(entry.leaves()) for entry in (post.nodes if post is not None else ())}
    counted = operations(entries, fusion, memory.reader)
    unknown = {index for group in fusion.groups if group.name not in counted for index in group.calls}
    made = fusion.by_call(lambda group: counted[group.name][0] if group.name in counted else None)
    asked = fusion.by_call(lambda group: counted[group.name][1] if group.name in counted else None)
    return {index: (made[index], asked[index]) for index in made if index not in unknown}


def _leaves_of(names: Sequence[str], post: Schedule | None) -> list[SchedulerNode]:
    entries = [node for name in names if post is not None and (node := post.find(name)) is not None]
    return [leaf for entry in entries for leaf in entry.leaves()]


def _bytes(call: KernelCall, leaves: Sequence[SchedulerNode], memory: Memory) -> int | None:
    """What one launch reads from outside and writes for others, each element once; None where unknown."""
    if not leaves:
        return None
    made = frozenset(buffer.name for leaf in leaves for buffer in leaf.outputs)
    handed = set(call.buffers) | {memory.root(name) for name in call.buffers}
    reads = tuple(
        access
        for access in reads_of(leaves, memory, made)
        if len(leaves) == 1 or access.buffer in handed or memory.root(access.buffer) in handed
    )
    outputs = set(call.outputs) | {memory.root(name) for name in call.outputs}
    writes = tuple(
        access
        for access in writes_of(leaves, memory)
        if access.buffer in outputs or memory.root(access.buffer) in outputs
    )
    read, written = total(reads), total(writes)
    return None if read is None or written is None or not writes else read + written


def _leaves(post: Schedule | None) -> tuple[PlannedLeaf, ...]:
    return tuple(
        PlannedLeaf(
            leaf.name,
            entry.name,
            leaf.inner,
            "\n".join(leaf.body.lines) if leaf.body is not None else None,
            len(leaf.sizes[0]) if leaf.sizes is not None else None,
            tuple(sorted({dep.buffer for dep in leaf.reads})),
            tuple(buffer.name for buffer in leaf.outputs),
            {buffer.name: buffer.mutations[0] for buffer in leaf.outputs if buffer.mutations},
        )
        for entry in (post.nodes if post is not None else ())
        for leaf in entry.leaves()
    )


def _layouts(post: Schedule | None) -> dict[str, Layout]:
    """By buffer, the first layout with sizes that the schedule prints for it."""
    leaves = list(post.leaves()) if post is not None else []
    named = [
        pair
        for leaf in leaves
        for pair in (*((buffer.name, buffer.layout) for buffer in leaf.outputs), *leaf.layouts)
    ]
    layouts: dict[str, Layout] = {}
    for name, layout in named:
        if layout is not None and layout.size is not None and layout.kind not in _WITHOUT_TENSOR:
            layouts.setdefault(name, layout)
    return layouts
