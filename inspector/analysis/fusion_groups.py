"""Which scheduler nodes became which group, of what kind, in which kernel, from which source lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from inspector.frozen import dataclass
from inspector.model.code import Alias, OutputCode
from inspector.model.fusion import Access, FusionGroup, GroupKind, NodeKind, NodeTraffic, total
from inspector.model.links import Linkage
from inspector.model.run import GraphArtifacts
from inspector.model.schedule import SchedulerNode
from inspector.model.source import Size, SourceLocation

from .dataflow import operator
from .index_ranges import IndexReader
from .partition import Partition
from .traffic import Memory, is_nop, reads_of, writes_of

_BY_CLASS: dict[str, GroupKind] = {
    "OuterLoopFusedSchedulerNode": "outer_loop",
    "ForeachKernelSchedulerNode": "foreach",
    "FusedMixOrderReductions": "mix_order",
    "FusedNestedReductions": "nested_reduction",
    "FusedExternTritonKernelSchedulerNode": "user_epilogue",
    "GroupedSchedulerNode": "grouped",
}
"""torch/_inductor/scheduler.py and codegen/cpp.py: subclasses that say how their members belong together."""

WALLS = frozenset({"extern", "fallback", "user"})
"""Kinds of node that nothing fuses into (torch/_inductor/scheduler.py: Scheduler.unfusable_node)."""


def node_kind(node: SchedulerNode) -> NodeKind:
    """What a leaf computes, from its class, its IR class and its loop body."""
    inner = node.inner[0] if node.inner else ""
    if is_nop(node):
        return "nop"
    if inner == "MultiOutput":
        return "part"
    if "Template" in inner:
        return "template"
    if inner == "UserDefinedTritonKernel":
        return "user"
    if node.is_extern:
        return "fallback" if inner == "FallbackKernel" else "extern"
    if inner != "ComputedBuffer" and node.sizes is None:
        return "other"
    if node.body is not None and any(" = ops.scan(" in line for line in node.body.lines):
        return "scan"
    return "reduction" if node.sizes is not None and node.sizes[1] else "pointwise"


def group_kind(entry: SchedulerNode, kinds: Mapping[str, NodeKind]) -> GroupKind:
    """How an entry's members belong together; `kinds` are those of the leaves."""
    leaves = list(entry.leaves())
    if entry.cls in _BY_CLASS:
        return _BY_CLASS[entry.cls]
    if len(leaves) == 1:
        return "single"
    templates = [index for index, leaf in enumerate(leaves) if kinds.get(leaf.name) == "template"]
    if templates:
        before, after = templates[0] > 0, templates[-1] < len(leaves) - 1
        return "template_both" if before and after else "template_prologue" if before else "template_epilogue"
    return _flow_kind(leaves)


def _flow_kind(leaves: Sequence[SchedulerNode]) -> GroupKind:
    """`vertical` where producers and consumers form one whole, `horizontal` where nobody feeds anybody."""
    made = {buffer.name: index for index, leaf in enumerate(leaves) for buffer in leaf.outputs}
    parts = Partition(range(len(leaves)))
    edges = 0
    for index, leaf in enumerate(leaves):
        for dep in leaf.reads:
            source = made.get(dep.buffer, index)
            if source != index:
                edges += 1
                parts.join((index, source))
    if not edges:
        return "horizontal"
    return "vertical" if parts.count == 1 else "mixed"


def handed_buffers(code: OutputCode | None) -> frozenset[str] | None:
    """Buffers that some launch has as an argument; None without a wrapper.

    A view of a buffer hands it over; ``buf13 = buf12; del buf12  # reuse`` alone does not.
    """
    if code is None:
        return None
    handed = {name for call in code.calls for name in call.buffers}
    views = [step for step in code.steps if isinstance(step, Alias) and step.kind in ("view", "unpack")]
    for view in reversed(views):
        if view.name in handed:
            handed.add(view.source)
    return frozenset(handed)


class Sources:
    """The source lines and FX nodes of scheduler nodes.

    From the origins in the fusion log's candidate lines or in the record, node by node; without those from
    what the kernel calls of a node's entry compute.
    """

    def __init__(self, artifacts: GraphArtifacts, linkage: Linkage) -> None:
        self._place: dict[str, SourceLocation] = {}
        self._operator: dict[str, str] = {}
        for graph in (artifacts.fx_before, artifacts.fx_after):
            for node in graph.nodes if graph else ():
                self._operator[node.name] = operator(node.target)
                if node.source is not None:
                    self._place[node.name] = node.source
        self._before = dict(linkage.pre_fx)
        self._origins: dict[str, tuple[str, ...]] = {}
        for candidate in artifacts.fusion.candidates if artifacts.fusion else ():
            if candidate.members in ((), (candidate.name,)):
                self._origins.setdefault(candidate.name, candidate.origins)
        if artifacts.record is not None:
            self._origins = {**artifacts.record.origins(), **self._origins}
        self._of_entry: dict[str, list[str]] = {}
        for link in linkage.calls:
            for entry in link.entries:
                self._of_entry.setdefault(entry, []).extend(link.fx)

    def fx(self, leaf: str, entry: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._origins.get(leaf) or self._of_entry.get(entry, [])))

    def itself(self, leaf: SchedulerNode, fx: tuple[str, ...]) -> tuple[str, ...]:
        """Of a library call's FX nodes those that are the call: torch 2.6 names what fed it as well."""
        name = operator(leaf.kernel) if leaf.kernel else ""
        return tuple(each for each in fx if self._operator.get(each) == name) or fx

    def places(self, fx: Iterable[str]) -> tuple[SourceLocation, ...]:
        """Distinct source lines of FX nodes, in the nodes' order."""
        places: dict[tuple[str, int], SourceLocation] = {}
        for name in fx:
            for known in (name, *self._before.get(name, ())):
                place = self._place.get(known)
                if place is not None:
                    places.setdefault((place.path, place.line), place)
                    break
        return tuple(places.values())


def build_groups(
    entries: Sequence[SchedulerNode],
    leaves: Mapping[str, SchedulerNode],
    memory: Memory,
    handed: frozenset[str] | None,
    linkage: Linkage,
    sources: Sources,
    kernels: Mapping[int, str],
) -> tuple[tuple[NodeTraffic, ...], tuple[FusionGroup, ...]]:
    """Leaves and groups with their traffic, in execution order.

    `entries` is the schedule after fusion, `leaves` the nodes by name whose dependencies are counted;
    `kernels` names the kernel of each call.
    """
    calls: dict[str, list[int]] = {}
    for link in linkage.calls:
        for name in link.entries:
            calls.setdefault(name, []).append(link.call)
    readers: dict[str, set[str]] = {}
    for leaf in leaves.values():
        for dep in leaf.reads:
            readers.setdefault(dep.buffer, set()).add(leaf.name)
    builder = _Builder(memory, handed, readers, sources)
    nodes: list[NodeTraffic] = []
    groups: list[FusionGroup] = []
    for entry in entries:
        members = [leaves.get(leaf.name, leaf) for leaf in entry.leaves()]
        own = [builder.node(leaf, entry.name) for leaf in members]
        nodes.extend(own)
        launches = tuple(calls.get(entry.name, ()))
        group = builder.group(entry, members, own)
        groups.append(replace(group, calls=launches, kernel=kernels.get(launches[0]) if launches else None))
    return tuple(nodes), tuple(groups)


def device_of(leaf: SchedulerNode) -> str | None:
    """The device that a leaf runs on; that of its first output where the node does not say."""
    if leaf.device is not None:
        return leaf.device
    return next(
        (buffer.layout.device for buffer in leaf.outputs if buffer.layout and buffer.layout.device), None
    )


def _ranges(sizes: tuple[tuple[Size, ...], tuple[Size, ...]] | None) -> str:
    """``[100, 100]`` for a pointwise node, ``[100] reduce [100]`` for a reduction."""
    if sizes is None:
        return ""
    loops = f"[{', '.join(map(str, sizes[0]))}]"
    return f"{loops} reduce [{', '.join(map(str, sizes[1]))}]" if sizes[1] else loops


def _extents(
    sizes: tuple[tuple[Size, ...], tuple[Size, ...]] | None, reader: IndexReader
) -> frozenset[tuple[Size, Size]]:
    if sizes is None:
        return frozenset()
    loops, reduced = (_product(part, reader) for part in sizes)
    if isinstance(loops, int) and isinstance(reduced, int):
        return frozenset({(loops, reduced), (loops * reduced, 1)})
    return frozenset({(loops, reduced)})


def _product(sizes: tuple[Size, ...], reader: IndexReader) -> Size:
    count = reader.numel(sizes)
    return count if count is not None else "*".join(map(str, sizes))


@dataclass(frozen=True, slots=True)
class _Builder:
    """`handed` are the buffers that some launch has, `readers` the leaves that read each buffer."""

    memory: Memory
    handed: frozenset[str] | None
    readers: Mapping[str, set[str]]
    sources: Sources

    def node(self, leaf: SchedulerNode, entry: str) -> NodeTraffic:
        fx = self.sources.fx(leaf.name, entry)
        return NodeTraffic(
            name=leaf.name,
            kind=node_kind(leaf),
            group=entry,
            device=device_of(leaf),
            ranges=_ranges(leaf.sizes),
            extents=_extents(leaf.sizes, self.memory.reader),
            reads=reads_of((leaf,), self.memory, frozenset()),
            writes=writes_of((leaf,), self.memory),
            sources=self.sources.places(self.sources.itself(leaf, fx)),
            fx=fx,
        )

    def group(
        self, entry: SchedulerNode, members: Sequence[SchedulerNode], nodes: Sequence[NodeTraffic]
    ) -> FusionGroup:
        """Without the calls and the kernel."""
        names = {leaf.name for leaf in members}
        made = frozenset(buffer.name for leaf in members for buffer in leaf.outputs)
        surviving: list[SchedulerNode] = []
        gone: list[Access] = []
        kept: list[Access] = []
        for leaf, node in zip(members, nodes, strict=True):
            if len(members) == 1 or not self._only_inside(leaf, names):
                surviving.append(leaf)
            elif self.handed is not None and any(buffer.name in self.handed for buffer in leaf.outputs):
                surviving.append(leaf)
                kept.extend(node.writes)
            else:
                gone.extend(node.writes)
        reads = reads_of(members, self.memory, made) if len(members) > 1 else nodes[0].reads
        writes = writes_of(surviving, self.memory)
        unfused = total(tuple(access for node in nodes for access in (*node.reads, *node.writes)))
        fused = total((*reads, *writes))
        return FusionGroup(
            name=entry.name,
            kind=group_kind(entry, {node.name: node.kind for node in nodes}),
            nodes=tuple(leaf.name for leaf in members),
            kernel=None,
            calls=(),
            device=next((node.device for node in nodes if node.device), None),
            reads=reads,
            writes=writes,
            gone=tuple(gone),
            kept=tuple(kept),
            bytes_unfused=unfused,
            bytes_saved=None if unfused is None or fused is None else unfused - fused,
            sources=nodes[0].sources
            if len(nodes) == 1
            else self.sources.places(dict.fromkeys(name for node in nodes for name in node.fx)),
            is_wall=len(nodes) == 1 and nodes[0].kind in WALLS,
        )

    def _only_inside(self, leaf: SchedulerNode, names: set[str]) -> bool:
        """Whether nobody but members of the group uses what a leaf writes."""
        memory = self.memory
        made = [buffer.name for buffer in leaf.outputs]
        return bool(made) and not any(
            memory.is_mutation(name)
            or name in memory.changed
            or name in memory.outputs
            or not self.readers.get(name, set()) <= names
            for name in made
        )
