"""The operators behind decomposed code: what ATen runs as one kernel, and generated kernels do in pieces.

An operator is taken apart before Inductor sees it (torch/_decomp, torch/_inductor/decomposition.py): it is
looked for in the graph that Dynamo traced, and followed to the lowered graph's nodes by torch's provenance.
Or Inductor lowers it as loops (torch/_inductor/lowering.py): it is still a node of the lowered graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from inspector.model.fx import FxGraph, FxNode, TensorMeta
from inspector.model.links import Linkage
from inspector.model.run import GraphArtifacts
from inspector.model.source import contiguous
from inspector.model.two_sides import KernelTime
from inspector.model.waste import OperatorInput, WholeOperator

from .constants import is_random
from .dataflow import VIEW_OPERATORS, operator, shown
from .index_ranges import IndexReader
from .traffic import ITEM_BYTES

KERNELS: Mapping[str, tuple[str, ...]] = {
    "interpolate": ("upsample",),
    "upsample": ("upsample",),
    "grid_sample": ("grid_sampl",),
    "fold": ("col2im",),
    "unfold": ("im2col",),
    **{
        f"{kind}_pool{dimensions}d": (f"{kind}_pool", f"{kind}pool")
        for kind in ("max", "avg")
        for dimensions in (1, 2, 3)
    },
    "cumsum": ("cumsum", "scan"),
    "cumprod": ("cumprod", "scan"),
    "angle": ("angle",),
    "logcumsumexp": ("logcumsumexp", "scan"),
    "cummax": ("cummax", "scan"),
    "cummin": ("cummin", "scan"),
    "rand": ("uniform", "rand"),
    "rand_like": ("uniform", "rand"),
    "randn": ("normal", "randn"),
    "randn_like": ("normal", "randn"),
    "randint": ("random",),
    "bernoulli": ("bernoulli",),
    "dropout": ("dropout", "bernoulli"),
}
"""The program's operator to what the names of ATen's kernels for it have in them."""

RANDOM = frozenset({"rand", "rand_like", "randn", "randn_like", "randint", "bernoulli", "dropout"})

_LOWERED = frozenset({
    "avg_pool2d_backward", "avg_pool3d_backward", "max_pool2d_with_indices_backward", "avg_pool2d",
    "avg_pool3d", "max_pool2d_with_indices", "upsample_nearest2d", "upsample_nearest2d_backward",
    "upsample_nearest3d_backward", "reflection_pad1d_backward", "reflection_pad2d_backward", "cumsum",
    "cumprod", "logcumsumexp", "col2im", "im2col",
})  # fmt: skip
"""Nodes of the lowered graph that are such an operator themselves."""


def kernels_of(name: str) -> tuple[str, ...]:
    """What the names of ATen's kernels for an operator, or its gradient, have in them."""
    name = name.removesuffix("_backward").removesuffix("_with_indices")
    if name.startswith("upsample"):
        return KERNELS["upsample"]
    return KERNELS.get(name, (name,))


def is_kernel_of(kernel: KernelTime, name: str) -> bool:
    """Whether a kernel is ATen's own for an operator, or its gradient, by its name."""
    own = kernel.name.lower()
    return not kernel.generated and any(part in own for part in kernels_of(name))


def whole_operators(
    artifacts: GraphArtifacts, linkage: Linkage, traced: FxGraph | None, symbols: Mapping[str, int]
) -> tuple[WholeOperator, ...]:
    """Those of one graph that generated kernels do, in the graph's order. `traced` is what Dynamo traced for
    its frame; `symbols` are hints for sizes. An operator of which a size is not known is left out."""
    after, code = artifacts.fx_after, artifacts.code
    if after is None or code is None:
        return ()
    reader = IndexReader(symbols)
    nodes = {node.name: node for node in after.nodes}
    generated = {call.index for call in code.calls if call.kind in ("triton", "cpp")}
    launches = [(link.call, frozenset(link.fx)) for link in linkage.calls if link.call in generated]
    became: dict[str, list[str]] = {}
    for name, before in linkage.pre_fx:
        for pre in before if name in nodes else ():
            became.setdefault(pre, []).append(name)
    made: list[WholeOperator] = []
    if traced is not None and artifacts.phase != "backward":
        held = _held(traced, after, became, nodes)
        for node in traced.operations:
            module, _, name = node.target.rpartition(".")
            # x.unfold(...) is a view.
            view = name == "unfold" and not module.startswith("torch.nn")
            if name in KERNELS and node.kind == "call" and not view:
                fx = tuple(became.get(node.name, ()))
                if name in RANDOM and not any(is_random(operator(nodes[each].target)) for each in fx):
                    # A dropout of evaluation draws nothing.
                    continue
                made += _operator(node, name, fx, {n.name: n for n in traced.nodes}, held, launches, reader)
    taken = {name for item in made for name in item.fx}
    for node in after.operations:
        if operator(node.target) in _LOWERED and node.name not in taken:
            itself = {name: name for name in nodes}
            made += _operator(node, operator(node.target), (node.name,), nodes, itself, launches, reader)
    return tuple(_with_rest(item, nodes, launches, reader) for item in made)


def _held(
    traced: FxGraph,
    after: FxGraph,
    became: Mapping[str, Sequence[str]],
    nodes: Mapping[str, FxNode],
) -> dict[str, str]:
    """Names of Dynamo's graph -> the lowered graph's node with the value: the last that came of it and looks
    like it; of inputs that in the same place, where both graphs have as many."""
    held: dict[str, str] = {}
    if len(traced.placeholders) == len(after.placeholders):
        for node, own in zip(traced.placeholders, after.placeholders, strict=True):
            if _alike(node, own):
                held.update({node.name: own.name, node.name[:1].lower() + node.name[1:]: own.name})
    for node in traced.operations:
        same = (name for name in reversed(became.get(node.name, ())) if _alike(node, nodes[name]))
        if (name := next(same, None)) is not None:
            held[node.name] = name
    return held


def _alike(first: FxNode, second: FxNode) -> bool:
    one, other = first.meta, second.meta
    return one is not None and other is not None and (one.dtype, one.shape) == (other.dtype, other.shape)


def _operator(
    node: FxNode,
    name: str,
    fx: tuple[str, ...],
    around: Mapping[str, FxNode],
    held: Mapping[str, str],
    launches: Sequence[tuple[int, frozenset[str]]],
    reader: IndexReader,
) -> Iterable[WholeOperator]:
    """The operator; nothing where no generated kernel does it or an input is not known."""
    calls = tuple(call for call, names in launches if names.intersection(fx))
    given = {key.lower(): value for key, value in around.items()}
    inputs = []
    # x.cumsum(1): what a method is of is a part of the target.
    receiver = node.target.rpartition(".")[0]
    of = (receiver,) if receiver.isidentifier() and receiver != "torch" else ()
    for each in dict.fromkeys((*of, *node.inputs)):
        source = around.get(each) or given.get(each.lower())
        meta = source.meta if source is not None else None
        if meta is None:
            return
        size = _numbers(meta.shape, reader)
        if size is None:
            return
        stride = _numbers(meta.stride, reader) if meta.stride is not None else contiguous(size)
        if stride is None:
            return
        device = (meta.device or "").split(":")[0]
        inputs.append(OperatorInput(each, meta.dtype, size, stride, device, held.get(each)))
    if calls:
        text = f"{node.target}({', '.join(node.arguments)})"
        yield WholeOperator(node.name, name, text, tuple(inputs), fx, calls, node.source)


def _numbers(sizes: Iterable[int | str], reader: IndexReader) -> tuple[int, ...] | None:
    known = [reader.size(size) for size in sizes]
    return None if None in known else tuple(size for size in known if size is not None)


def _with_rest(
    item: WholeOperator,
    nodes: Mapping[str, FxNode],
    launches: Sequence[tuple[int, frozenset[str]]],
    reader: IndexReader,
) -> WholeOperator:
    """With what its neighbours must move without it: a producer writes its result once more and reads as
    much, a consumer reads the operator's and writes as much."""
    shared = {name for call, names in launches if call in item.calls for name in names} - set(item.fx)
    beside = {name for name in shared if name in nodes and _computes(nodes[name])}
    amount = 0
    for each in item.inputs:
        if (made := shown(each.fx or "", nodes)) in beside:
            amount += 2 * _bytes(nodes[made].meta, reader)
    for name in item.fx:
        if name in nodes and beside.intersection(_readers(nodes[name], nodes)):
            amount += 2 * _bytes(nodes[name].meta, reader)
    return replace(item, rest_bytes=amount, fused=bool(beside))


def _computes(node: FxNode) -> bool:
    return node.kind == "call" and operator(node.target) not in VIEW_OPERATORS


def _readers(node: FxNode, nodes: Mapping[str, FxNode]) -> Iterable[str]:
    """The nodes that read a node's values, through views too."""
    for user in node.users:
        if user in nodes and (nodes[user].kind == "getitem" or not _computes(nodes[user])):
            yield from _readers(nodes[user], nodes)
        else:
            yield user


def _bytes(meta: TensorMeta | None, reader: IndexReader) -> int:
    if meta is None:
        return 0
    return (reader.numel(meta.shape) or 0) * ITEM_BYTES.get(meta.dtype, 4)
