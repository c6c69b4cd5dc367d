"""What a graph does with each input, read off its nodes: which values make sense for it.

Three questions. Does a floating input end under a root or logarithm or as a divisor? Is it the right
hand of a matrix product or a convolution's weight, so that N(0, 1) would grow with the depth of the
network until half precision overflows? And what does an integer input index, so that every index is
in range? The first is answered by following the input through operators that keep its values apart
from others'; the rest by one observed run on the graph.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from inspector.replay.worker.code.fx import Function, FxProgram, GraphError, Node, aten
from inspector.replay.worker.inputs.arguments import Fill, Inputs, TensorSpec

_VIEWS = aten(
    """view reshape _unsafe_view permute t transpose expand clone unsqueeze squeeze slice select alias detach
    contiguous as_strided _to_copy to repeat flip constant_pad_nd lift_fresh_copy"""
) | {"prims.convert_element_type", "prims.broadcast_in_dim", "prims.device_put"}
"""Operators whose result holds their first argument's values."""

_POSITIVE_THROUGH = (
    _VIEWS
    | aten(
        "add mul div clamp clamp_min clamp_max maximum minimum lerp addcmul addcdiv cat sum mean where sqrt"
    )
    | {"prims.fma"}
)
"""Operators that give positive results for positive arguments."""

_POSITIVE_AT = {
    "aten.sqrt": (0,), "aten.rsqrt": (0,), "aten.log": (0,), "aten.log2": (0,), "aten.log10": (0,),
    "aten.log1p": (0,), "aten.reciprocal": (0,), "aten.div": (1,), "aten.lgamma": (0,),
}  # fmt: skip
"""Argument positions that ask for positive values (a divisor near zero hides every other error)."""

_POSITIVE_NAME = re.compile(r"^(rsqrt|sqrt|exp|exp2|var|sum|sigmoid|reciprocal|softplus|invstd)(_\d+)?$")
"""A backward graph's placeholders are named after the forward's nodes that they were."""

_CONTRACTED = {
    "aten.mm": (1, (0,)), "aten.addmm": (2, (0,)), "aten.bmm": (1, (1,)), "aten.baddbmm": (2, (1,)),
    "aten.convolution": (1, None), "aten.linear": (1, (1,)), "aten._scaled_mm": (1, (0,)),
    "aten.mv": (1, (0,)),
}  # fmt: skip
"""Right-hand argument, and its dimensions that are summed over (None: all but the first)."""

_INDEX_ARGUMENT = {
    "aten.embedding": (0, 0, 1), "aten.gather": (0, 1, 2), "aten.scatter": (0, 1, 2),
    "aten.scatter_add": (0, 1, 2), "aten.scatter_reduce": (0, 1, 2), "aten.index_select": (0, 1, 2),
    "aten.index_add": (0, 1, 2), "aten.index_copy": (0, 1, 2), "aten.index_fill": (0, 1, 2),
}  # fmt: skip
"""Positions of the indexed tensor, of the dimension (embedding: dimension 0) and of the index."""

READ_BY_HOST = {
    "aten._scaled_dot_product_efficient_attention_backward": (7, 8),
    "aten._efficient_attention_backward": (12, 13),
}
"""Arguments that the operator reads through a pointer of the host's: philox_seed and philox_offset, which its
forward leaves there outside of a CUDA graph (aten/src/ATen/native/transformers/cuda/attention_backward.cu).
Their fake tensors, of which generated code and load_args tell, are on the GPU: made there, the child dies."""

_INDEX_LISTS = frozenset({"aten.index", "aten._unsafe_index", "aten.index_put", "aten._unsafe_index_put"})
_MASKED_INDEX_LISTS = frozenset({"aten._unsafe_masked_index", "aten._unsafe_masked_index_put_accumulate"})

_FREE_INTEGERS = {torch.uint8: (0, 256), torch.int8: (-128, 128)}
"""Ranges of integers that index nothing; 1 to 9 for the wider ones, which may be divisors."""


_CONSTANTS = (0, 1, 2, 3, 5, 8, 16)
"""What all integers are in turn until a graph can be run."""


class IndexOutOfRange(Exception):
    """An index would leave the tensor that it indexes; raised before the operator runs, because a
    GPU does not survive one."""

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.node = node


@dataclass
class Roles:
    """Per placeholder name. `limits`: exclusive upper bounds of integers that index something.
    `from_the_end`: those that do so as they are, wherever they do, where an index may be negative."""

    positive: set[str] = field(default_factory=set)
    products: dict[str, tuple[str, int]] = field(default_factory=dict)
    scales: dict[str, float] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    indexed_by: dict[str, list[str]] = field(default_factory=dict)
    from_the_end: dict[str, bool] = field(default_factory=dict)


def index_bounds(op: str, args: Sequence[Any], kwargs: dict[str, Any]) -> list[tuple[Tensor, int, bool]]:
    """(index tensor, size of what it indexes, negative allowed) of one call; [] where it indexes nothing."""
    if op in _INDEX_ARGUMENT:
        source, dim, index = _INDEX_ARGUMENT[op]
        base = args[source]
        axis = 0 if op == "aten.embedding" else int(args[dim])
        size = base.shape[axis] if base.dim() else 1
        return [(args[index], size, False)]
    if op == "aten.embedding_dense_backward":
        return [(args[1], int(args[2]), False)]
    if op == "aten.take":
        return [(args[1], args[0].numel(), True)]
    if op in {"aten.nll_loss_forward", "aten.nll_loss2d_forward"}:
        return [(args[1], args[0].shape[1 if args[0].dim() > 1 else 0], False)]
    if op == "aten._embedding_bag" or op == "aten._embedding_bag_forward_only":
        # Offsets must begin at 0 and not decrease: all zero.
        return [(args[1], args[0].shape[0], False), (args[2], 1, False)]
    if op == "aten.max_pool2d_with_indices_backward":
        plane = args[1].shape[-1] * args[1].shape[-2]
        return [(args[-1] if "indices" not in kwargs else kwargs["indices"], plane, False)]
    if op == "prims._low_memory_max_pool_offsets_to_indices":
        return [(args[0], math.prod(int(extent) for extent in args[1]), False)]
    if op in _INDEX_LISTS or op in _MASKED_INDEX_LISTS:
        return _list_bounds(args[0], args[2] if op in _MASKED_INDEX_LISTS else args[1])
    return []


def _list_bounds(base: Tensor, indices: Sequence[Tensor | None]) -> list[tuple[Tensor, int, bool]]:
    bounds, axis = [], 0
    for index in indices:
        if index is not None and index.dtype in (torch.bool, torch.uint8):
            axis += index.dim()
            continue
        if index is not None:
            bounds.append((index, int(base.shape[axis]), True))
        axis += 1
    return bounds


def check_indices(node: str, op: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Raises IndexOutOfRange where this call would read or write outside a tensor; not where a mask keeps it
    from that (aten/src/ATen/native/TensorAdvancedIndexing.cpp: _unsafe_masked_index clamps)."""
    for index, size, negative in index_bounds(op, args, kwargs):
        if op in _MASKED_INDEX_LISTS and isinstance(args[1], Tensor):
            mask = args[1]
            if mask.shape[: index.dim()] == index.shape:
                # The mask may have the indexed tensor's other dimensions behind.
                mask = mask.reshape(*index.shape, -1).any(-1)
            try:
                index = torch.where(mask, index, 0)
            except RuntimeError:
                # They belong together in a way that is not known.
                continue
        if isinstance(index, Tensor) and index.numel():
            low, high = (int(bound) for bound in torch.aminmax(index.to(torch.int64)))
            if high >= size or low < (-size if negative else 0):
                raise IndexOutOfRange(node)


def find_roles(program: FxProgram, specs: Sequence[object]) -> Roles:
    """What can be told without running: positive inputs and right-hand sides of products."""
    roles = Roles()
    floating = {
        name
        for name, spec in zip(program.placeholders, specs, strict=True)
        if isinstance(spec, TensorSpec) and spec.dtype.is_floating_point
    }
    roles.positive |= {name for name in floating if _POSITIVE_NAME.match(name)}
    for node in program.nodes:
        for position in _positive_positions(node):
            roles.positive |= (
                _sources(program, _argument(node, position), _POSITIVE_THROUGH, all_of=True) & floating
            )
        if node.op in _CONTRACTED:
            position = _CONTRACTED[node.op][0]
            for name in _sources(program, _argument(node, position), _VIEWS) & floating:
                roles.products.setdefault(name, (node.name, position))
    return roles


def on_the_host(program: FxProgram, specs: Sequence[object]) -> list[object]:
    """`specs`, with what an operator reads from the host in its memory."""
    read = {_argument(node, position) for node in program.nodes for position in READ_BY_HOST.get(node.op, ())}
    return [
        replace(spec, device="cpu", storage=-1 - position)
        if isinstance(spec, TensorSpec) and name in read
        else spec
        for position, (name, spec) in enumerate(zip(program.placeholders, specs, strict=True))
    ]


def _positive_positions(node: Node) -> tuple[int, ...]:
    if node.op == "aten.pow" and node.call is not None and len(node.call.args) > 1:
        if node.target.endswith("pow.Scalar"):
            return (1,)
        exponent = node.call.args[1]
        whole = isinstance(exponent, ast.Constant) and float(exponent.value).is_integer()  # type: ignore[arg-type]
        return () if whole else (0,)
    return _POSITIVE_AT.get(node.op, ())


def _argument(node: Node, position: int) -> str | None:
    if node.call is None or len(node.call.args) <= position:
        return None
    value = node.call.args[position]
    return value.id if isinstance(value, ast.Name) else None


def _sources(
    program: FxProgram, name: str | None, through: frozenset[str], *, all_of: bool = False
) -> set[str]:
    """Placeholders whose values reach `name` through operators of `through` only."""
    sources: set[str] = set()
    seen: set[str] = set()
    pending = [name] if name is not None else []
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        if current in program.placeholders:
            sources.add(current)
            continue
        node = program.node(current)
        if node is None or node.op not in through or _is_square(node):
            continue
        if node.inputs:
            pending.extend(node.inputs if all_of else node.inputs[:1])
    return sources


def _is_square(node: Node) -> bool:
    """``mul(x, x)`` is positive whatever x is."""
    return node.op == "aten.mul" and len(node.inputs) == 1 and _argument(node, 0) == _argument(node, 1)


def probe(program: FxProgram, inputs: Inputs, roles: Roles) -> int:
    """Runs the graph once and fills `scales` and `limits` from what it sees.

    Integers are all zero, which indexes any tensor; all of a larger number, which is returned, where zero
    divides something or the program asserts that it gets more.
    """
    integers = {
        name
        for name, spec in zip(program.placeholders, inputs.specs, strict=True)
        if isinstance(spec, TensorSpec) and not (spec.dtype.is_floating_point or spec.dtype.is_complex)
    }
    products: dict[str, list[tuple[str, int]]] = {}
    for name, (node, position) in roles.products.items():
        products.setdefault(node, []).append((name, position))

    def hook(name: str, function: Function, /, *args: object, **kwargs: object) -> object:
        node = program.node(name)
        op = node.op if node is not None else ""
        for placeholder, position in products.get(name, ()):
            dims = _CONTRACTED[op][1]
            operand = args[position]
            assert isinstance(operand, Tensor)
            shape = operand.shape
            count = math.prod(shape[1:] if dims is None else [shape[dim] for dim in dims])
            roles.scales[placeholder] = 1.0 / math.sqrt(max(count, 1))
        for index, size, negative in index_bounds(op, args, kwargs):
            if not isinstance(index, Tensor) or index.dtype == torch.bool:
                continue
            names = _index_names(program, name)
            lineage = program.ancestors(names) & integers
            roles.indexed_by[name] = sorted(lineage)
            direct = {source for each in names for source in _sources(program, each, _VIEWS)}
            for placeholder in lineage:
                as_it_is = negative and placeholder in direct and len(lineage) == 1
                roles.from_the_end[placeholder] = roles.from_the_end.get(placeholder, True) and as_it_is
                roles.limits[placeholder] = max(1, min(size, roles.limits.get(placeholder, size)))
        check_indices(name, op, args, kwargs)
        return function(*args, **kwargs)

    refused: Exception | None = None
    for constant in _CONSTANTS:
        inputs.fill(make_fills(program, inputs.specs, roles, constant=constant))
        try:
            program.observe(inputs.fresh(), hook)
            return constant
        except IndexOutOfRange as error:
            raise refused or error from None
        except (ZeroDivisionError, RuntimeError) as error:
            if not integers or not re.search(r"zero|assert", str(error), re.IGNORECASE):
                raise
            refused = refused or error
    assert refused is not None
    raise refused


def _index_names(program: FxProgram, name: str) -> set[str]:
    """The names in the call's index arguments."""
    node = program.node(name)
    if node is None or node.call is None:
        return set()
    # The indexed tensor comes first in every operator but these two, where nothing else is an index.
    first = 0 if node.op == "prims._low_memory_max_pool_offsets_to_indices" else 1
    return {
        item.id
        for argument in [*node.call.args[first:], *(keyword.value for keyword in node.call.keywords)]
        for item in ast.walk(argument)
        if isinstance(item, ast.Name)
    }


def make_fills(
    program: FxProgram,
    specs: Sequence[object],
    roles: Roles,
    *,
    constant: int | None = None,
    shrink: float = 1.0,
    free: int = 10,
) -> list[Fill]:
    """A Fill for each argument. `constant`: what all integers are; `shrink` multiplies all floats' scales;
    `free`: what wide integers that index nothing lie below."""
    fills = []
    for name, spec in zip(program.placeholders, specs, strict=True):
        fill = Fill(scale=roles.scales.get(name, 1.0) * shrink, positive=name in roles.positive)
        if constant is not None:
            fill = replace(fill, low=constant, high=constant + 1)
        elif isinstance(spec, TensorSpec):
            if name in roles.limits:
                limit = roles.limits[name]
                fill = replace(fill, low=-limit if roles.from_the_end.get(name) else 0, high=limit)
            else:
                low, high = _FREE_INTEGERS.get(spec.dtype, (int(free > 2), free))
                fill = replace(fill, low=low, high=high)
        fills.append(fill)
    return fills


def choose_values(program: FxProgram, inputs: Inputs) -> list[str]:
    """Fills `inputs` with values that the graph can be run on; returns what was done, one line each.

    Index ranges are halved until no index leaves its tensor; floats are made smaller, by 10 and by
    100, where most of the graph's floating results would not be finite.
    """
    notes: list[str] = []
    roles = find_roles(program, inputs.specs)
    try:
        constant = probe(program, inputs, roles)
    except IndexOutOfRange as error:
        raise _no_integers(error) from None
    shrink = 1.0
    finite: dict[float, float] = {}
    halvings = 0
    free = 10
    while True:
        inputs.fill(make_fills(program, inputs.specs, roles, shrink=shrink, free=free))
        try:
            finite[shrink] = _finite_part(program, inputs)
        except IndexOutOfRange as error:
            names = roles.indexed_by.get(error.node, [])
            if halvings == 64 or all(roles.limits[name] == 1 for name in names):
                inputs.fill(make_fills(program, inputs.specs, roles, constant=0, shrink=shrink))
                notes.append(f"integer inputs are zero: no other range keeps {error.node} inside its tensor")
                _require_safe(program, inputs)
                return [*_describe(program, inputs, replace(roles, limits={}), shrink), *notes]
            halvings += 1
            for name in names:
                roles.limits[name] = max(1, roles.limits[name] // 2)
            continue
        except RuntimeError:
            # An assertion about integers that index nothing: classes of a one_hot, say.
            if free == 1:
                if not constant:
                    raise
                # Which the graph was run with.
                inputs.fill(make_fills(program, inputs.specs, roles, constant=constant, shrink=shrink))
                notes.append(f"integer inputs are all {constant}, as the program asserts something of them")
                return [*_describe(program, inputs, replace(roles, limits={}), shrink), *notes]
            free = free // 2
            continue
        if finite[shrink] >= 0.5 or shrink <= 0.01:
            break
        shrink /= 10
    best = max(finite, key=lambda key: (finite[key], key), default=shrink)
    if best != shrink:
        shrink = best
        inputs.fill(make_fills(program, inputs.specs, roles, shrink=shrink, free=free))
    return [*_describe(program, inputs, roles, shrink), *notes]


def _require_safe(program: FxProgram, inputs: Inputs) -> None:
    try:
        _finite_part(program, inputs)
    except IndexOutOfRange as error:
        raise _no_integers(error) from None


def _no_integers(error: IndexOutOfRange) -> GraphError:
    return GraphError(
        f"no made-up integers keep the indices of {error.node} inside its tensor; "
        "capture with --save-inputs to replay with the real ones"
    )


def _finite_part(program: FxProgram, inputs: Inputs) -> float:
    """Share of finite elements in the eager graph's floating outputs, every index checked on the way."""

    def hook(name: str, function: Function, /, *args: object, **kwargs: object) -> object:
        node = program.node(name)
        if node is not None:
            check_indices(name, node.op, args, kwargs)
        return function(*args, **kwargs)

    total = good = 0
    for output in program.observe(inputs.fresh(), hook):
        if isinstance(output, Tensor) and output.dtype.is_floating_point and output.numel():
            wide = output.to(torch.float32)
            total += output.numel()
            good += int(torch.isfinite(wide).sum())
    return good / total if total else 1.0


def _describe(program: FxProgram, inputs: Inputs, roles: Roles, shrink: float) -> list[str]:
    given = {program.placeholders[position] for position in inputs.known}
    known = {
        name: spec
        for name, spec in zip(program.placeholders, inputs.specs, strict=True)
        if isinstance(spec, TensorSpec) and name not in given
    }
    notes = []
    if any(spec.dtype.is_floating_point or spec.dtype.is_complex for spec in known.values()):
        floats = "floating inputs are N(0, 1)"
        if shrink != 1.0:
            floats += f" times {shrink:g}, because larger ones overflow"
        weights = len(roles.scales.keys() & known.keys())
        if weights:
            floats += f", {weights} weight{'s' * (weights > 1)} divided by the root of the fan-in"
        positive = len(roles.positive & known.keys())
        if positive:
            floats += f", {positive} of them (roots, logarithms, divisors) uniform in [0.5, 1.5)"
        notes.append(floats)
    ranges = [
        f"{name} in [{-limit if roles.from_the_end.get(name) else 0}, {limit})"
        for name, limit in roles.limits.items()
        if name in known and known[name].dtype != torch.bool
    ]
    if ranges:
        more = f" and {len(ranges) - 6} more" if len(ranges) > 6 else ""
        notes.append("indices: " + ", ".join(ranges[:6]) + more)
    return notes
