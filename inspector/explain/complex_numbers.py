"""Complex numbers, which Inductor has no code for (torch/_inductor/lowering.py: unsupported_output_tensor):
what is done with them is called one operator at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from inspector.analysis.dataflow import operator
from inspector.analysis.partition import Partition
from inspector.analysis.traffic import moves_nothing, read_by
from inspector.model.fusion import FusionGroup, NodeKind
from inspector.model.fx import FxNode
from inspector.model.schedule import SchedulerNode

from .case import GraphCase, Launch

AS_REAL = (
    "compute complex numbers as pairs of real ones (torch.view_as_real): what is done with them is called "
    "one operator at a time"
)

_ELEMENTWISE = frozenset({
    "abs", "acos", "acosh", "add", "addcdiv", "addcmul", "angle", "asin", "asinh", "atan", "atanh", "clone",
    "complex", "conj_physical", "cos", "cosh", "div", "eq", "exp", "expm1", "isfinite", "isnan", "log",
    "log10", "log1p", "log2", "mul", "ne", "neg", "polar", "pow", "reciprocal", "rsqrt", "rsub", "sgn",
    "sigmoid", "sin", "sinh", "sqrt", "square", "sub", "tan", "tanh", "where",
})  # fmt: skip
"""Operators that give one element for each: of real numbers Inductor fuses those that follow each other."""


def is_complex(node: FxNode | None) -> bool:
    return node is not None and node.meta is not None and node.meta.is_complex


def has_complex(nodes: Mapping[str, FxNode]) -> bool:
    """Whether any of a graph's nodes is."""
    return any(map(is_complex, nodes.values()))


def on_complex(graph: GraphCase, launch: Launch) -> bool:
    """Whether a launch calls an operator that gives complex numbers."""
    nodes = graph.artifacts.fx_nodes
    return launch.call.kind == "fallback" and any(is_complex(nodes.get(name)) for name in launch.fx)


def _of_complex(graph: GraphCase, launch: Launch) -> bool:
    """The same, or one that reads some: `aten.abs`."""
    nodes = graph.artifacts.fx_nodes
    own = [nodes[name] for name in launch.fx if name in nodes]
    return launch.call.kind == "fallback" and any(
        is_complex(nodes.get(name)) for node in own for name in (node.name, *node.inputs)
    )


def saved_by_fusing(graph: GraphCase) -> dict[int, float]:
    """Call -> the part of its bytes that it would not move, had Inductor code for complex numbers: one kernel
    for each chain of operators on single elements, with the generated ones between them, that reads what it
    is given and writes what others read; a sum of what a chain gives is its end. Nothing is fused past what
    is read in between by something else."""
    schedule = graph.artifacts.post
    entries = {node.name: node for node in schedule.nodes} if schedule is not None else {}
    launches = {launch.call.index: launch for launch in graph.launches}
    # Buffer -> who makes it; group -> how often the way to it leads out of such chains or in.
    makers: dict[str, FusionGroup] = {}
    depth: dict[str, int] = {}
    members: dict[str, bool] = {}
    parts = Partition(group.name for group in graph.fusion.groups)
    kinds = {node.name: node.kind for node in graph.fusion.nodes}
    for group in graph.fusion.groups:
        leaves = tuple(entries[group.name].leaves()) if group.name in entries else ()
        given = {makers[name].name for name in _given(leaves) if name in makers}
        own = [launches[index] for index in group.calls if index in launches]
        if not own or all(map(moves_nothing, leaves)):
            # What only hands a tensor on belongs to whoever made that.
            members[group.name] = bool(given) and all(members[name] for name in given)
        else:
            members[group.name] = all(_elementwise(graph, launch, kinds) for launch in own)
        # A sum is the end of such a chain: what it is of need not be kept.
        inside = members[group.name] or any(_sums(launch, kinds) for launch in own)
        depth[group.name] = max((depth[name] + (not (inside and members[name])) for name in given), default=0)
        if inside:
            joined = [name for name in given if members[name] and depth[name] == depth[group.name]]
            parts.join([group.name, *joined])
        makers.update({buffer.name: group for leaf in leaves for buffer in leaf.outputs})
    named = {group.name: group for group in graph.fusion.groups}
    readers: dict[str, set[str]] = {}
    for group in graph.fusion.groups:
        for access in group.reads:
            readers.setdefault(access.buffer, set()).add(group.name)
    saved: dict[int, float] = {}
    for names in parts.groups():
        chain = [named[name] for name in names]
        calls = [launches[index] for group in chain for index in group.calls if index in launches]
        if any(_of_complex(graph, launch) for launch in calls):
            part = _saved(graph, chain, readers)
            saved.update({launch.call.index: part for launch in calls if part > 0})
    return saved


def _given(leaves: Sequence[SchedulerNode]) -> Iterable[str]:
    """The buffers that they read of others."""
    own = {buffer.name for leaf in leaves for buffer in leaf.outputs}
    return (dep.buffer for leaf in leaves for dep in read_by(leaf) if dep.buffer not in own)


def _elementwise(graph: GraphCase, launch: Launch, kinds: Mapping[str, NodeKind]) -> bool:
    """Whether all that a launch does is done for each element by itself; `kinds` are those of the nodes."""
    nodes = graph.artifacts.fx_nodes
    if launch.role == "fallback":
        own = [nodes[name] for name in launch.fx if name in nodes]
        return bool(own) and all(operator(node.target) in _ELEMENTWISE for node in own)
    return launch.role == "generated" and all(kinds.get(leaf.name) == "pointwise" for leaf in launch.leaves)


def _sums(launch: Launch, kinds: Mapping[str, NodeKind]) -> bool:
    """Whether generated code reduces something."""
    own = {kinds.get(leaf.name) for leaf in launch.leaves}
    return launch.role == "generated" and "reduction" in own and own <= {"pointwise", "reduction"}


def _saved(graph: GraphCase, chain: Sequence[FusionGroup], readers: Mapping[str, set[str]]) -> float:
    """The part of what a chain moves that stays inside of it, where it is one kernel."""
    own = {group.name for group in chain}
    made = {access.buffer: access.bytes or 0 for group in chain for access in group.writes}
    read = {access.buffer: access.bytes or 0 for group in chain for access in group.reads}
    moved = sum(group.bytes_moved or 0 for group in chain)
    kept = sum(size for name, size in read.items() if name not in made)
    kept += sum(
        size
        for name, size in made.items()
        if name in graph.fusion.outputs or not readers.get(name, set()) <= own
    )
    return 1 - kept / moved if moved else 0.0
