"""The float64 reference: the same FX graph, every floating value and every dtype argument promoted.

A first, recorded run on the original dtypes tells what dtype each node's arguments had. It serves the
nodes that cannot be promoted: those are evaluated in their own dtype, and the result says so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from inspector.hardware.flops import flops
from inspector.replay.worker.attention import attention
from inspector.replay.worker.code.fx import Function, FxProgram, Node, aten, tensors_of
from inspector.replay.worker.code.operators import Absent
from inspector.replay.worker.inputs.arguments import Inputs, promote
from inspector.replay.worker.reference.eager_strides import NodeLayouts, layouts_of
from inspector.replay.worker.reference.loops import OVERFLOW, overflows
from inspector.replay.worker.reference.noise import NEAR, Noise, disturbed_call, unit
from inspector.replay.worker.reference.philox import RANDOM, Repeated

_UNINITIALISED = aten("empty new_empty empty_like empty_strided empty_permuted new_empty_strided")

_EQUALITIES = aten("eq ne")

_VALUE_FREE = aten(
    """zeros_like ones_like full_like fill fill_ zero new_zeros new_ones new_full empty_like new_empty
    sym_size sym_stride sym_numel"""
)
"""Operators whose first argument gives only its shape."""

_STATE_RETURNS = frozenset({"philox_seed", "philox_offset", "rng_state", "unused", "debug_attn_mask"})
"""Returned values of attention operators that hold a generator's state or nothing defined."""

_ATTENTION = aten(
    """_scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention
    _scaled_dot_product_cudnn_attention _scaled_dot_product_flash_attention_for_cpu"""
)


@dataclass
class Recording:
    """What the recorded run saw, by node.

    `dtypes` of its tensor arguments, in order of `tree_leaves`; `results`: dtypes of what it gave (None for
    what is no tensor) and `shapes` likewise; `strides` of a single result; `undefined`: why its value is
    random or not defined; `flops`: floating-point operations where there is a formula; `layouts` of its
    arguments and of what it gave.
    """

    dtypes: dict[str, list[torch.dtype]] = field(default_factory=dict)
    results: dict[str, list[torch.dtype | None]] = field(default_factory=dict)
    shapes: dict[str, list[tuple[int, ...] | None]] = field(default_factory=dict)
    strides: dict[str, tuple[int, ...]] = field(default_factory=dict)
    undefined: dict[str, str] = field(default_factory=dict)
    flops: dict[str, int] = field(default_factory=dict)
    layouts: dict[str, NodeLayouts] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)
    """Outputs that are the same whatever uninitialised memory holds."""


@dataclass
class Reference:
    """Outputs in float64, and the arguments after the run (for inputs that the graph writes to).
    `own_dtype` names the nodes that were evaluated in their own dtype."""

    outputs: list[object]
    arguments: list[object]
    own_dtype: list[str]


def record(
    program: FxProgram, inputs: Inputs, module: torch.nn.Module = None
) -> tuple[list[object], list[object], Recording]:
    """Eager's outputs, its arguments after the run, and the recording. `module`: in place of the graph's.

    Uninitialised memory leaves nothing undefined where the results of all that uses it are the same whatever
    it holds: only its shape counts, or all of it is written first.
    """
    outputs, arguments, recording = _recorded(program, inputs, module)
    empty = {name for name in recording.undefined if _is_empty(program.node(name))} - {*program.outputs}
    users = {name: {node.name for node in program.nodes if name in node.inputs} for name in empty}
    if empty:
        ends = {*filter(None, program.outputs), *program.written_placeholders().values()}
        wanted = ends.union(*users.values())
        first, second = (_with_filled(program, inputs, module, empty, wanted, value) for value in (1, 3))
        recording.settled = {name for name in ends & first.keys() if _same(first[name], second.get(name))}
        for name in empty:
            if all(user in first and _same(first[user], second.get(user)) for user in users[name]):
                del recording.undefined[name]
    return outputs, arguments, recording


def _is_empty(node: Node | None) -> bool:
    return node is not None and node.op in _UNINITIALISED


def _with_filled(
    program: FxProgram,
    inputs: Inputs,
    module: torch.nn.Module,
    empty: set[str],
    wanted: set[str],
    value: int,
) -> dict[str, list[object]]:
    """What `wanted` nodes give where uninitialised memory is filled with `value`; empty where it can't."""
    seen: dict[str, list[object]] = {}

    def hook(name: str, function: Function, /, *args: object, **kwargs: object) -> object:
        result = function(*args, **kwargs)
        if name in empty and isinstance(result, Tensor):
            result.fill_(value)
        if name in wanted:
            seen[name] = [leaf.clone() if isinstance(leaf, Tensor) else leaf for leaf in tree_leaves(result)]
        return result

    state = torch.get_rng_state()
    try:
        torch.manual_seed(0)
        program.observe(list(inputs.fresh()), hook, module)
    except (RuntimeError, NotImplementedError):
        return {}
    finally:
        torch.set_rng_state(state)
    return seen


def _same(first: object, second: object) -> bool:
    """Whether two lists hold the same bits."""
    if not isinstance(first, list) or not isinstance(second, list) or len(first) != len(second):
        return False
    return all(
        torch.equal(*(leaf.contiguous().reshape(-1).view(torch.uint8) for leaf in (ours, theirs)))
        if isinstance(ours, Tensor) and isinstance(theirs, Tensor)
        else ours == theirs
        for ours, theirs in zip(first, second, strict=True)
    )


def _recorded(
    program: FxProgram, inputs: Inputs, module: torch.nn.Module
) -> tuple[list[object], list[object], Recording]:
    recording = Recording()

    def hook(name: str, function: Function, /, *args: object, **kwargs: object) -> object:
        given = tensors_of((args, kwargs))
        recording.dtypes[name] = [tensor.dtype for tensor in given]
        laid_out = layouts_of(given)
        node = program.node(name)
        if node is not None:
            why = _undefined(node, function, args, kwargs)
            if why:
                recording.undefined[name] = why
        result = function(*args, **kwargs)
        if isinstance(function, Absent) and function.reason:
            recording.undefined[name] = f"{name}: {function.reason}"
        parts = result if isinstance(result, (tuple, list)) else [result]
        operations = flops(str(function), args, result)
        if operations is not None:
            recording.flops[name] = operations
        recording.results[name] = [getattr(part, "dtype", None) for part in parts]
        recording.shapes[name] = _shapes_of(parts)
        recording.layouts[name] = NodeLayouts(laid_out, layouts_of(tensors_of(result)))
        if isinstance(result, Tensor):
            recording.strides[name] = result.stride()
        return result

    arguments = inputs.fresh()
    outputs = program.observe(list(arguments), hook, module)
    return outputs, arguments, recording


def _shapes_of(parts: Sequence[object]) -> list[tuple[int, ...] | None]:
    return [tuple(part.shape) if isinstance(part, Tensor) else None for part in parts]


def _undefined(
    node: Node, function: Function, args: Sequence[object], kwargs: dict[str, object]
) -> str | None:
    if isinstance(function, Repeated):
        return None
    if node.op in _UNINITIALISED:
        return f"{node.name} ({node.op}) is uninitialised memory"
    if args and overflows(args[0], kwargs.get("dtype") or (args[1] if len(args) > 1 else None)):
        return f"{node.name} ({node.op}) {OVERFLOW}"
    random = torch.Tag.nondeterministic_seeded in getattr(function, "tags", ())
    if "rng_state" in node.target or "philox" in node.target or "inductor_rand" in node.target:
        random = True
    if not random or _argument(function, "dropout_p", args, kwargs) == 0.0:
        return None
    return f"{node.name} ({node.op or node.target}) {RANDOM}"


def _argument(function: object, name: str, args: Sequence[object], kwargs: dict[str, object]) -> object:
    """The value that a torch.ops call has for the parameter `name`, its default included."""
    if name in kwargs:
        return kwargs[name]
    schema = getattr(function, "_schema", None)
    for position, parameter in enumerate(schema.arguments if schema is not None else ()):
        if parameter.name == name:
            return args[position] if position < len(args) else parameter.default_value
    return None


def undefined_reason(program: FxProgram, recording: Recording, name: str | None) -> str | None:
    """Why `name`'s value is not determined by the graph's inputs; None where it is."""
    if name is None:
        return None
    pending, seen = [name], set()
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        node = program.node(current)
        if current in recording.undefined and not (name in recording.settled and _is_empty(node)):
            return recording.undefined[current]
        if node is None:
            continue
        if node.index is not None and node.inputs:
            state = _state_return(program.node(node.inputs[0]), node.index)
            if state:
                return f"{current} is `{state}` of {node.inputs[0]}, a generator's state"
        pending.extend(node.inputs[1:] if node.op in _VALUE_FREE else node.inputs)
    return None


def _state_return(node: Node | None, index: int) -> str | None:
    if node is None or node.op not in _ATTENTION:
        return None
    overload = torch.ops
    for part in node.target.split(".")[2:]:
        overload = getattr(overload, part)
    returns = overload._schema.returns
    name = returns[index].name if index < len(returns) else ""
    return name if name in _STATE_RETURNS else None


def float_free(program: FxProgram, recording: Recording, name: str | None, float_inputs: set[str]) -> bool:
    """Whether no floating value went into `name`, so that rounding cannot explain a difference."""
    if name is None:
        return True
    ancestors = program.ancestors([name], stop=lambda node: node.op in _VALUE_FREE)
    if ancestors & float_inputs:
        return False
    return not any(
        dtype.is_floating_point or dtype.is_complex
        for ancestor in ancestors
        for dtype in recording.dtypes.get(ancestor, ())
    )


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """What factories without a dtype make."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def evaluate(
    program: FxProgram, inputs: Inputs, recording: Recording, noise: Noise | None = None
) -> Reference:
    """Runs the promoted graph, with `noise` disturbed by it. Raises what torch raises where even the own
    dtype cannot be run."""
    evaluator = WideEvaluator(program, recording)
    evaluator.noise = noise
    arguments = inputs.promoted()
    floats = _float_attributes(program.module)
    try:
        for owner, name, value in floats:
            _set_attribute(owner, name, promote(value))
        with default_dtype(torch.float64):
            outputs = program.observe(list(arguments), evaluator)
    finally:
        for owner, name, value in floats:
            _set_attribute(owner, name, value)
    return Reference([promote(output) for output in outputs], arguments, evaluator.own_dtype)


def _float_attributes(module: torch.nn.Module) -> list[tuple[torch.nn.Module, str, Tensor]]:
    """Constants of the graph's module and its children, as (owner, attribute, value)."""
    return [
        (owner, name, value)
        for owner in module.modules()
        for name, value in [*owner._buffers.items(), *owner._parameters.items()]
        if isinstance(value, Tensor)
    ]


def _set_attribute(owner: torch.nn.Module, name: str, value: Tensor) -> None:
    if name in owner._parameters and not isinstance(value, torch.nn.Parameter):
        value = torch.nn.Parameter(value, requires_grad=False)
    setattr(owner, name, value)


def _wide(dtype: torch.dtype) -> torch.dtype:
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point and dtype.itemsize > 1 else dtype


class WideEvaluator:
    """The hook of the promoted run: decides for each call how it is evaluated."""

    def __init__(self, program: FxProgram, recording: Recording) -> None:
        self._program = program
        self._recording = recording
        self.own_dtype: list[str] = []
        self.noise: Noise | None = None
        """Disturbs every result where there is one."""

    def __call__(self, name: str, function: Function, /, *args: object, **kwargs: object) -> object:
        node = self._program.node(name)
        op = node.op if node is not None else ""
        if self.noise is None:
            return self._widened(name, op, function, *args, **kwargs)
        if op in _EQUALITIES:
            result = self._widened(name, op, function, *args, **kwargs)
            size = max(map(unit, self._recording.dtypes.get(name, ())), default=0.0)
            return self.noise.equal(result, args[0], args[1], NEAR * size)
        return disturbed_call(
            self.noise,
            op,
            self._recording.results.get(name, ()),
            function,
            lambda own, *inner, **options: self._widened(name, op, own, *inner, **options),
            args,
            kwargs,
        )

    def _widened(self, name: str, op: str, function: Function, /, *args: object, **kwargs: object) -> object:
        # An 8-bit float is a quantisation that the program asked for: the reference rounds as well.
        if op == "aten._scaled_mm":
            product = _scaled_mm(function, args, kwargs)
            if product is not None:
                return product
        if op in _ATTENTION and _argument(function, "dropout_p", args, kwargs) == 0.0:
            return self._attention(name, function, args, kwargs)
        if op.startswith("aten._scaled_dot_product_cudnn_attention"):
            # It takes any other dtype's memory for float16 (aten/src/ATen/native/cudnn/MHA.cpp).
            return self._in_own_dtype(name, function, args, kwargs)
        if op in {"aten.view", "prims.view_of_dtype"} and any(isinstance(arg, torch.dtype) for arg in args):
            return self._in_own_dtype(name, function, args, kwargs)
        if op.startswith("higher_order.triton"):
            return self._in_own_dtype(name, function, args, kwargs)
        if op in {"aten.view", "aten._unsafe_view"} and isinstance(args[0], Tensor):
            # In float64 an operator may choose other strides than in the dtype that was captured.
            return args[0].reshape(args[1])
        if op == "aten.nan_to_num":
            return self._nan_to_num(name, function, args, kwargs)
        wide_args, wide_kwargs = tree_map(_widen_dtype, (tuple(args), dict(kwargs)))
        floats = {*self._recording.dtypes.get(name, ()), *self._recording.results.get(name, ())}
        floats = {each for each in floats if each is not None and each.is_floating_point}
        if floats and floats <= {torch.float32, torch.float16, torch.bfloat16}:
            wide_args, wide_kwargs = tree_map(_rounded, (wide_args, wide_kwargs))
        try:
            result = function(*wide_args, **wide_kwargs)
        except (NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            if isinstance(error, torch.cuda.OutOfMemoryError):
                raise
            return self._in_own_dtype(name, function, args, kwargs)
        parts = result if isinstance(result, (tuple, list)) else [result]
        if _shapes_of(parts) != self._recording.shapes.get(name, _shapes_of(parts)):
            # A library's way for one dtype leaves a part out that another's has (_embedding_bag).
            return self._in_own_dtype(name, function, args, kwargs)
        return tree_map(promote, result)

    def _nan_to_num(
        self, name: str, function: Function, args: Sequence[object], kwargs: dict[str, object]
    ) -> object:
        """What stands for infinities is the captured dtype's largest number, not float64's."""
        own = next(iter(self._recording.dtypes.get(name, ())), torch.float64)
        most = float(torch.finfo(own).max) if own.is_floating_point else None
        parts = [_argument(function, part, args, kwargs) for part in ("nan", "posinf", "neginf")]
        nan, up, down = (0.0 if part is None and not number else part for number, part in enumerate(parts))
        return function(
            args[0], nan, most if up is None else up, -most if down is None and most is not None else down
        )

    def _in_own_dtype(
        self, name: str, function: Function, args: Sequence[object], kwargs: dict[str, object]
    ) -> object:
        """The call on the recorded dtypes; what it writes to its arguments is copied back."""
        leaves, structure = tree_flatten((tuple(args), dict(kwargs)))
        dtypes = iter(self._recording.dtypes.get(name, ()))
        cast = []
        for leaf in leaves:
            if isinstance(leaf, Tensor):
                cast.append(_demote(leaf, next(dtypes, leaf.dtype)))
            else:
                cast.append(leaf)
        own_args, own_kwargs = tree_unflatten(cast, structure)
        result = function(*own_args, **own_kwargs)
        if getattr(function, "_schema", None) is None or mutable_schema(function):
            for leaf, used in zip(leaves, cast, strict=True):
                if isinstance(leaf, Tensor) and leaf is not used:
                    leaf.copy_(promote(used))
        self.own_dtype.append(name)
        return tree_map(promote, result)

    def _attention(
        self, name: str, function: Function, args: Sequence[object], kwargs: dict[str, object]
    ) -> object:
        """Attention by its definition in float64; what else the operator returns, by itself."""
        own = self._in_own_dtype(name, function, args, kwargs)
        assert isinstance(own, tuple)
        self.own_dtype.remove(name)
        names = ("query", "key", "value", "attn_bias", "attn_mask", "is_causal", "scale")
        query, key, value, bias, mask, causal, scale = (
            _argument(function, parameter, args, kwargs) for parameter in names
        )
        bias = mask if bias is None else bias
        scale = scale if isinstance(scale, (int, float)) else None
        out, log_sum = attention(query, key, value, bias, bool(causal), scale)
        result = list(own)
        # The operator's strides stay: views of its result depend on them.
        result[0] = torch.empty_strided(own[0].shape, own[0].stride(), dtype=out.dtype, device=out.device)
        result[0].copy_(out)
        # cudnn adds a last dimension of 1; the memory-efficient operator pads to a multiple of 32.
        if own[1] is not None and own[1].numel() == log_sum.numel():
            result[1] = torch.empty_strided(
                own[1].shape, own[1].stride(), dtype=log_sum.dtype, device=log_sum.device
            )
            result[1].copy_(log_sum.reshape(own[1].shape))
        return tuple(result)


def _scaled_mm(function: object, args: Sequence[object], kwargs: dict[str, object]) -> Tensor | None:
    """The dequantised product in float64; None where scales are per block, which the operator must do."""
    names = ("self", "mat2", "scale_a", "scale_b")
    values = [_argument(function, name, args, kwargs) for name in names]
    left, right, scale_left, scale_right = (value for value in values if isinstance(value, Tensor))
    for scale, shape in ((scale_left, (left.shape[0], 1)), (scale_right, (1, right.shape[1]))):
        if scale.numel() != 1 and tuple(scale.shape) != shape:
            return None
    product = (left * scale_left) @ (right * scale_right)
    bias = _argument(function, "bias", args, kwargs)
    if bias is not None:
        product = product + bias
    result_scale = _argument(function, "scale_result", args, kwargs)
    return product if result_scale is None else None


def _widen_dtype(value: object) -> object:
    return _wide(value) if isinstance(value, torch.dtype) else value


def _rounded(value: object) -> object:
    """A number as it is beside float32 tensors: 0.1 is the float32 next to it, on all sides."""
    if not isinstance(value, float) or abs(value) > torch.finfo(torch.float32).max:
        return value
    return torch.tensor(value, dtype=torch.float32).item()


def _demote(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    if tensor.dtype == dtype:
        return tensor
    return tensor.to(torch.float32).to(dtype) if dtype.itemsize == 1 else tensor.to(dtype)


def mutable_schema(function: object) -> torch._C.FunctionSchema | None:
    """The schema of an operator that writes to arguments of its own; None for others."""
    schema = getattr(function, "_schema", None)
    return schema if schema is not None and schema.is_mutable else None
