"""A library's call on the same values as eager lays them out: Inductor may choose other strides.

What eager has is what running the FX graph op by op gives each operator. A backward graph is given what the
compiled forward saved, whose strides may be Inductor's choice already: eager's are those with which the
forward, run op by op, gives it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from inspector.model.replay import Restrided
from inspector.replay.worker.code.fx import Function, FxProgram, tensors_of
from inspector.replay.worker.inputs.arguments import Inputs, TensorSpec

Layout = tuple[torch.dtype, tuple[int, ...], tuple[int, ...] | None]
"""Dtype, size and strides of a tensor; without strides where it is not laid out by them."""

Restriding = tuple[Callable[[], object], tuple[Restrided, ...]]
"""A call with eager's strides, and the tensors that have others as compiled."""


class NodeLayouts(NamedTuple):
    """Of a node's tensor arguments, and of the tensors that it gives."""

    given: Sequence[Layout]
    made: Sequence[Layout]


_KNOWN = ("primals", "tangents")
"""Inputs of a backward graph that no forward graph made: they are the user's, or autograd's."""


def layouts_of(tensors: Sequence[Tensor]) -> list[Layout]:
    """Of each of them."""
    return [
        (tensor.dtype, tuple(tensor.shape), tensor.stride() if tensor.layout == torch.strided else None)
        for tensor in tensors
    ]


def eager_layouts(
    program: FxProgram, inputs: Inputs, module: torch.nn.Module, recorded: Mapping[str, NodeLayouts]
) -> Mapping[str, NodeLayouts]:
    """By node its tensors' layouts in eager; none for a backward graph of which not all is known. `recorded`
    is of a run on inputs with the compiled code's strides."""
    backward = any(name.startswith("tangents") for name in program.placeholders)
    pairs = list(zip(program.placeholders, inputs.specs, strict=True))
    if backward and any(
        isinstance(spec, TensorSpec) and position not in inputs.given and not name.startswith(_KNOWN)
        for position, (name, spec) in enumerate(pairs)
    ):
        return {}
    arguments = inputs.fresh()
    moved = False
    for position, value in inputs.given.items():
        own = arguments[position]
        if isinstance(own, Tensor) and _steps(own.shape, own.stride()) != _steps(value.shape, value.stride()):
            arguments[position], moved = value.clone(), True
    if not moved:
        return recorded
    seen: dict[str, NodeLayouts] = {}

    def hook(name: str, function: Function, /, *args: object, **kwargs: object) -> object:
        given = layouts_of(tensors_of((args, kwargs)))
        result = function(*args, **kwargs)
        seen[name] = NodeLayouts(given, layouts_of(tensors_of(result)))
        return result

    program.observe(arguments, hook, module)
    return seen


def as_in_eager(
    function: Function, args: object, kwargs: Mapping[str, object], eager: NodeLayouts
) -> Restriding | None:
    """The call on copies with eager's strides, and which tensors have others as compiled; None where none
    has."""
    leaves, spec = tree_flatten((args, {**kwargs, "out": None}))
    written, written_spec = tree_flatten(kwargs.get("out"))
    changed = [*_lay_out(leaves, eager.given), *_lay_out(written, eager.made)]
    if not changed:
        return None
    own, options = tree_unflatten(leaves, spec)
    if "out" in kwargs:
        options["out"] = tree_unflatten(written, written_spec)
    else:
        del options["out"]
    return lambda: function(*own, **options), tuple(changed)


def _lay_out(leaves: list[object], eager: Sequence[Layout]) -> Iterator[Restrided]:
    """Puts copies in place of the tensors, and yields those whose strides are not eager's. Where eager has
    more or fewer of a size and dtype nobody knows which is which: these keep their strides."""
    wanted: dict[object, list[tuple[int, ...] | None]] = defaultdict(list)
    for dtype, size, stride in eager:
        wanted[dtype, size].append(stride)
    tensors = [
        (number, leaf)
        for number, leaf in enumerate(leaves)
        if isinstance(leaf, Tensor) and leaf.layout == torch.strided
    ]
    count = Counter((leaf.dtype, tuple(leaf.shape)) for _, leaf in tensors)
    for number, leaf in tensors:
        size, own = tuple(leaf.shape), leaf.stride()
        there = wanted[leaf.dtype, size]
        stride = there.pop(0) if count[leaf.dtype, size] == len(there) else None
        count[leaf.dtype, size] -= stride is not None
        leaves[number] = _laid_out(leaf, own if stride is None else stride)
        if stride is not None and _steps(size, stride) != _steps(size, own):
            yield Restrided(size, own, stride)


def _laid_out(tensor: Tensor, stride: Sequence[int]) -> Tensor:
    """A copy with these strides. RuntimeError where its elements would share memory in other ways than an
    expanded dimension's do."""
    whole = tensor
    for axis, step in enumerate(stride):
        if step == 0 and whole.shape[axis] > 1:
            whole = whole.narrow(axis, 0, 1)
    made = torch.empty_strided(whole.shape, tuple(stride), dtype=tensor.dtype, device=tensor.device)
    return made.copy_(whole).expand(tensor.shape)


def _steps(size: Sequence[int], stride: Sequence[int]) -> tuple[int, ...]:
    """Strides but for dimensions that have nothing to step over."""
    return tuple(step for extent, step in zip(size, stride, strict=True) if extent > 1)
