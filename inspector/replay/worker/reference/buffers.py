"""Which FX node each buffer stands for, found by value.

The FX graph and the IR are both evaluated in float64 on the same made-up inputs, without any generated
kernel, and a buffer stands for the nodes that hold the same numbers, in an order that is the same up to a
permutation of dimensions. Random inputs make that as good as a proof; a buffer that stands for none (a
partial sum, half of a Welford pair) is checked against its loop body instead.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from inspector.replay.protocol import KernelPlan, PlannedCall, PlannedLeaf
from inspector.replay.worker.inputs.arguments import promote
from inspector.replay.worker.reference.body import LoopBody, UnknownIr
from inspector.replay.worker.reference.layouts import Layouts
from inspector.replay.worker.reference.loops import Evaluation
from inspector.replay.worker.reference.subgraph import Subgraph

_TOLERANCE = 1e-9
"""Relative to the values' size: two float64 evaluations in another order differ by some 1e-14."""

_MOST_DIMENSIONS = 5


@dataclass(frozen=True)
class Print:
    """A value's fingerprint: sums that do not depend on the order of elements, and one that does."""

    numel: int
    total: float
    squares: float
    ordered: float

    def same_values(self, other: Print) -> bool:
        scale = math.sqrt(self.squares * max(self.numel, 1)) or 1.0
        return (
            self.numel == other.numel
            and abs(self.squares - other.squares) <= _TOLERANCE * (self.squares or 1.0)
            and abs(self.total - other.total) <= _TOLERANCE * scale
        )

    def same_order(self, other: Print) -> bool:
        scale = math.sqrt(self.squares * max(self.numel, 1)) or 1.0
        return abs(self.ordered - other.ordered) <= _TOLERANCE * scale


def fingerprint(value: Tensor) -> Print:
    """Of a tensor; its elements in the order of its logical shape."""
    if value.dtype.is_complex:
        value = torch.view_as_real(value.resolve_conj())
    flat = torch.nan_to_num(value.to(torch.float64).reshape(-1), 0.5, 1e3, -1e3)
    weights = _weights(flat.numel(), str(flat.device))
    return Print(flat.numel(), float(flat.sum()), float(flat.dot(flat)), float(flat.dot(weights)))


@lru_cache(maxsize=4)
def _weights(count: int, device: str) -> Tensor:
    """One for each position. Kept for a few sizes: a network's nodes come in few, one after the other."""
    return torch.sin(torch.arange(count, device=device, dtype=torch.float64) * 1.7 + 0.3)


@dataclass(frozen=True)
class Meaning:
    """`node` is what the buffer holds: ``buffer.permute(order).reshape(shape)`` has the node's elements."""

    node: str
    order: tuple[int, ...]
    shape: tuple[int, ...]

    def as_node(self, buffer: Tensor) -> Tensor:
        return buffer.permute(self.order).reshape(self.shape)

    def as_buffer(self, value: Tensor, size: Sequence[int]) -> Tensor:
        """The node's value in the buffer's logical shape."""
        permuted = value.reshape([size[axis] for axis in self.order])
        back = sorted(range(len(self.order)), key=self.order.__getitem__)
        return permuted.permute(back)


def extent(size: Sequence[int], stride: Sequence[int]) -> int:
    """Elements from a tensor's first to its last."""
    if 0 in size:
        return 0
    return 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))


def _numel(size: Sequence[int]) -> int:
    count = 1
    for extent_ in size:
        count *= extent_
    return count


def flat_memory(tensor: Tensor) -> Tensor:
    """The memory of a tensor from its first element to its last, in one dimension."""
    count = extent(tensor.shape, tensor.stride())
    return torch.as_strided(tensor, (count,), (1,), tensor.storage_offset())


@dataclass
class Leaf:
    """A scheduler node of the request. `body` is None where it has no loop."""

    name: str
    entry: str
    body: LoopBody | None
    unknown: str | None
    reads: tuple[str, ...]
    buffers: tuple[str, ...]
    inner: tuple[str, ...]
    mutations: Mapping[str, str]


def read_leaf(item: PlannedLeaf) -> Leaf:
    """A leaf of the request, its body compiled."""
    body, unknown = None, None
    if item.body is not None and item.outer is not None:
        try:
            body = LoopBody(item.body, item.outer)
        except UnknownIr as error:
            unknown = str(error)
    return Leaf(item.name, item.entry, body, unknown, item.reads, item.buffers, item.inner, item.mutations)


class Meanings:
    """What buffers mean. `of` maps a buffer to the nodes that it may be taken for, in the graph's order."""

    def __init__(self) -> None:
        self._nodes: dict[int, list[tuple[str, Print, tuple[int, ...]]]] = {}
        self._position: dict[str, int] = {}
        self.of: dict[str, tuple[Meaning, ...]] = {}

    def see_node(self, name: str, value: object) -> None:
        """Takes note of a node's value; of a tuple's parts where a later node takes them out."""
        if isinstance(value, Tensor) and value.device.type != "meta" and value.numel():
            self._position[name] = len(self._position)
            entry = (name, fingerprint(value), tuple(value.shape))
            self._nodes.setdefault(value.numel(), []).append(entry)

    def see_buffer(self, name: str, value: Tensor) -> None:
        """Looks for the nodes that hold what `value`, the buffer in its logical shape, holds. One number, or
        NaN, all over says nothing: masks that are all true on these inputs, or what follows from an operator
        that has no reference, are no less different for that. Nor do numbers whose squares overflow."""
        own = fingerprint(value)
        if _is_constant(value) or not math.isfinite(own.squares):
            return
        meanings = []
        prints: dict[tuple[int, ...], Print] = {}
        for node, other, shape in self._nodes.get(value.numel(), ()):
            if not own.same_values(other):
                continue
            for order in _orders(value.dim()):
                if order not in prints:
                    prints[order] = fingerprint(value.permute(order)) if value.dim() else own
                if prints[order].same_order(other):
                    meanings.append(Meaning(node, order, shape))
                    break
        if meanings:
            self.of[name] = tuple(meanings)


def _is_constant(value: Tensor) -> bool:
    first = value.reshape(-1)[:1]
    if value.numel() == 1:
        return bool(((first == 0) | (first == 1) | first.isnan()).all())
    return bool(((value == first) | (value.isnan() & first.isnan())).all())


def _orders(dimensions: int) -> Iterable[tuple[int, ...]]:
    identity = tuple(range(dimensions))
    if dimensions > _MOST_DIMENSIONS:
        return (identity,)
    return itertools.permutations(identity)


class Chain:
    """The IR's float64 values, buffer by buffer, in the order of the schedule."""

    def __init__(
        self,
        leaves: Sequence[Leaf],
        layouts: Layouts,
        memories: Mapping[str, Tensor],
        scan_kinds: Mapping[str, tuple[str, ...]],
    ) -> None:
        """`memories`: flat float64 inputs and constants by name."""
        self._leaves = leaves
        self._layouts = layouts
        self._memories = dict(memories)
        self._scan_kinds = scan_kinds
        self.unknown: dict[str, str] = {}
        """Memory without a value here, by the name of its owner, and why."""

    def run(self, externs: Mapping[str, Tensor], meanings: Meanings) -> None:
        """`externs`: float64 values of buffers that no loop makes, in the FX node's shape."""
        uses: dict[str, int] = {}
        for position, leaf in enumerate(self._leaves):
            for name in (*leaf.reads, *leaf.buffers):
                uses[self._layouts.owner(name)] = position
        for position, leaf in enumerate(self._leaves):
            self._run_leaf(leaf, externs, meanings)
            for name in [name for name, last in uses.items() if last == position]:
                self._memories.pop(name, None)

    def _run_leaf(self, leaf: Leaf, externs: Mapping[str, Tensor], meanings: Meanings) -> None:
        try:
            if leaf.body is None:
                self._place(leaf, externs)
            else:
                for name in map(self._layouts.owner, leaf.reads):
                    if name in self.unknown:
                        raise UnknownIr(self.unknown[name])
                kinds = self._scan_kinds.get(leaf.entry, ("cumsum",))
                place = self._layouts.device(*leaf.buffers[:1])
                Evaluation(leaf.body, self._memory, self._layouts, place, wide=True, scan_kinds=kinds).run()
        except (UnknownIr, RuntimeError, TypeError, ValueError, IndexError) as error:
            reason = str(error).strip().split("\n")[0]
            self.unknown.update(dict.fromkeys(map(self._layouts.owner, leaf.buffers), reason))
            return
        for name in leaf.buffers:
            layout = self._layouts.of(name) or self._layouts.of(self._layouts.root(name))
            if layout is not None and self._layouts.owner(name) not in self.unknown and _numel(layout[0]):
                memory = self._memory(name, True)
                meanings.see_buffer(name, torch.as_strided(memory, layout[0], layout[1]))

    def _place(self, leaf: Leaf, externs: Mapping[str, Tensor]) -> None:
        """Puts what an extern call gives into its buffer, element by element of the logical shape."""
        for name in leaf.buffers:
            layout = self._layouts.of(name) or self._layouts.of(self._layouts.root(name))
            if layout is None or any("Nop" in part or "Concat" in part for part in leaf.inner):
                continue
            value = externs.get(name)
            if value is None or value.numel() != _numel(layout[0]):
                self.unknown[self._layouts.owner(name)] = leaf.unknown or f"no FX node is known for {name}"
                continue
            memory = self._memory(name, True)
            torch.as_strided(memory, layout[0], layout[1]).copy_(value.reshape(layout[0]))

    def _memory(self, name: str, for_writing: bool) -> Tensor:
        name = self._layouts.root(name)
        if name in self._layouts.views:
            parent, offset = self._layouts.views[name]
            return self._memory(parent, for_writing)[offset:]
        if name not in self._memories:
            layout = self._layouts.of(name)
            if layout is None or layout[2] is None:
                raise UnknownIr(f"the layout of {name} is not known")
            size, stride, dtype = layout
            empty = torch.zeros(extent(size, stride), dtype=dtype, device=self._layouts.device(name))
            self._memories[name] = promote(empty)
        return self._memories[name]


def link_externs(
    plan: KernelPlan, leaves: Sequence[Leaf], subgraph: Subgraph
) -> tuple[dict[str, str], set[str]]:
    """Buffers of leaves without a loop -> the FX node that they are; and the nodes whose values that needs.

    A call's linked nodes hold the one with the call's operator; parts of a tuple are taken out by number
    in the wrapper (``buf3 = buf2[0]``) and in the graph alike.
    """
    program = subgraph.program
    unpacked = {item.name: item for item in plan.aliases if item.kind == "unpack"}
    nodes: dict[str, str] = {}
    calls = {name: call for call in plan.calls for name in call.entries}
    tuples: dict[str, str] = {}
    for call in plan.calls:
        node = call_node(call, subgraph)
        for name in call.outputs:
            if node is not None:
                tuples.setdefault(name, node)
    parts = {(node.inputs[0], node.index): node.name for node in program.nodes if node.index is not None}
    for leaf in leaves:
        if leaf.body is not None:
            continue
        linked = calls.get(leaf.entry)
        for name in leaf.buffers:
            item = unpacked.get(name)
            if item is not None:
                number = item.text.rsplit("[", 1)[-1].split("]")[0]
                owner = tuples.get(item.source)
                # A single result needs no taking apart: buf10 = buf9.
                part = parts.get((owner or "", int(number))) if number.isdigit() else owner
                if part is not None:
                    nodes[name] = part
            elif name in tuples:
                nodes[name] = tuples[name]
            elif linked is not None and (made := call_node(linked, subgraph)) is not None:
                nodes[name] = made
    return nodes, set(nodes.values())


_SAME_AS = {
    "scatter_reduce": {"scatter_add", "scatter", "scatter_reduce"},
    "scatter": {"scatter", "scatter_add"},
    "index_put": {"index_put", "_unsafe_index_put", "_unsafe_masked_index_put_accumulate"},
    "sort": {"sort"},
}
"""Operators that a fallback call of that name may stand for (torch/_inductor/lowering.py)."""

_HEAVY = frozenset(
    {"mm", "addmm", "bmm", "baddbmm", "convolution", "_scaled_mm", "flex_attention", "_int_mm"}
)


def call_node(call: PlannedCall, subgraph: Subgraph) -> str | None:
    """The FX node that an extern, fallback or template call stands for; None where that is not known."""
    nodes = [node for name in call.fx if (node := subgraph.program.node(name)) is not None]
    parts = call.kernel.removeprefix("extern_kernels.").removeprefix("torch.ops.").split(".")
    operator = parts[0] if len(parts) == 1 else parts[1] if len(parts) > 2 else parts[-1]
    operator = operator.removeprefix("bias_").removesuffix("_")
    names = _SAME_AS.get(operator, set()) | {operator, f"{operator}_"}
    wanted = [node for node in nodes if node.op.split(".")[-1] in names]
    if not wanted and call.kind in {"extern", "template"}:
        wanted = [node for node in nodes if node.op.split(".")[-1] in _HEAVY]
    if not wanted and len(nodes) == 1 and call.kind in {"extern", "fallback"}:
        # A call inside of a subgraph is not the node that runs it.
        wanted = [node for node in nodes if not node.op.startswith("higher_order.")]
    return wanted[-1].name if wanted else None
