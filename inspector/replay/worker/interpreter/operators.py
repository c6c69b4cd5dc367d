"""Triton's interpreter made fit for Inductor's kernels: faster, and right where it falls short.

What is replaced, in its one builder object (triton/runtime/interpreter.py: InterpreterBuilder):
- loads and stores check addresses and mark what was written (`memory`); masked-out
  lanes of a floating-point load without `other`, undefined on a GPU, read as NaN;
- bfloat16 and the 8-bit floats, which it holds as bits, convert with rounding to nearest even and
  compute in float32 (its own conversion of float32 to bfloat16 truncates);
- products of blocks accumulate in float32 by torch's matmul;
- reductions and scans with a function of their own go over whole blocks in logarithmically many steps,
  not element by element (Welford over 2,048 columns: from seconds to milliseconds);
- libdevice and inline assembly get stand-ins (`math`).
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Sequence

import numpy as np
import torch
import triton.language as tl
from torch import Tensor
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle

from inspector.replay.worker.interpreter import blocks
from inspector.replay.worker.interpreter.math import (
    Libdevice,
    MissingStandIn,
    assembly,
    elementwise,
    from_torch,
    is_custom,
    to_torch,
)
from inspector.replay.worker.interpreter.memory import Memory

_builder = interpreter.interpreter_builder
_Handle = TensorHandle

memory: Memory | None = None
"""The running launch's; None while no kernel runs."""

_installed = False

_REPLACED = (
    "create_masked_load create_masked_store create_atomic_rmw create_atomic_cas cast_impl create_fp_to_fp "
    "binary_op unary_op ternary_op create_dot create_erf create_fma create_inline_asm create_rsqrt"
)
"""The builder's methods; this module has each under its name with an underscore before it."""

_MOVES = (np.where,)
"""Operations that only move bits."""


def install() -> None:
    """Replaces what the module's docstring lists, once per process. Needs TRITON_INTERPRET=1."""
    global _installed
    if _installed:
        return
    _installed = True
    # Kernels divide by zero and overflow in lanes that they mask out later.
    np.seterr(all="ignore")
    for name in _REPLACED.split():
        setattr(_builder, f"original_{name}", getattr(_builder, name, None))
        setattr(_builder, name, globals()[f"_{name}"])
    interpreter.ReduceOps.generic_reduce = _generic_reduce
    interpreter.ScanOps.generic_scan = _generic_scan
    _install_helpers()
    # Once for all: the interpreter would do it again for every call of a helper, at a millisecond each.
    everything = types.FunctionType((lambda: None).__code__, {"tl": tl, "core": tl.core})
    interpreter._patch_lang(everything)
    blocks.install()
    # Numbers are arrays of one element here, which newer NumPy does not take for an index.
    tl.core.tensor.__index__ = lambda self: int(self.handle.data.item())
    if not hasattr(_builder, "get_int1_ty"):
        _builder.get_int1_ty = lambda: tl.int1
    interpreter.InterpretedFunction.__call__ = _call_helper
    # A rewritten function finds there what its text calls.
    interpreter._inspector_logic = _logic
    interpreter.FunctionRewriter.ast_transformer = _Logic()


def _install_helpers() -> None:
    from torch._inductor.runtime import triton_helpers

    triton_helpers.libdevice = Libdevice("libdevice")
    triton_helpers.math = Libdevice("tl_math", triton_helpers.math)
    triton_helpers.set_driver_to_gpu = lambda: None
    # Both compute with constants at compile time, which in the interpreter are plain numbers.
    triton_helpers.constexpr_next_power_of_2 = lambda n, **_: 1 << max(0, int(n) - 1).bit_length()
    triton_helpers.if_mask = lambda mask, value, **_: None if mask is None else value


class _Logic(interpreter.ASTTransformer):  # type: ignore[misc]
    """``not``, ``and`` and ``or`` of blocks, element by element as Triton compiles them: Python would ask for
    the truth of a block, which is always true here (triton/compiler/code_generator.py: visit_BoolOp)."""

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        return (
            self._called("not", node, [node.operand])
            if isinstance(node.op, ast.Not)
            else self.generic_visit(node)
        )

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        return self._called("and" if isinstance(node.op, ast.And) else "or", node, node.values)

    def _called(self, word: str, node: ast.expr, operands: Sequence[ast.expr]) -> ast.AST:
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        parts: list[ast.expr] = [ast.Lambda(nothing, self.visit(operand)) for operand in operands]
        name = ast.Name("_inspector_logic", ast.Load())
        return ast.copy_location(ast.Call(name, [ast.Constant(word), *parts], []), node)


def _logic(word: str, *operands: Callable[[], object]) -> object:
    """Operands are computed as far as Python would."""
    result = operands[0]()
    if word == "not":
        return _as_bits(result, True) if _is_block(result) else not result
    for operand in operands[1:]:
        if _is_block(result):
            other = operand()
            sides = [
                _as_bits(side) if isinstance(side, tl.tensor) else bool(side) for side in (result, other)
            ]
            result = sides[0] & sides[1] if word == "and" else sides[0] | sides[1]
        elif bool(result) == (word == "or"):
            return result
        else:
            result = operand()
    return result


def _is_block(value: object) -> bool:
    return isinstance(value, tl.tensor) and value.handle.data.size > 1


def _as_bits(value: tl.tensor, negated: bool = False) -> tl.tensor:
    return _tensor((value.handle.data == 0) == negated, tl.int1)


def _call_helper(self: interpreter.InterpretedFunction, *args: object, **kwargs: object) -> object:
    return self.rewrite()(*args, **kwargs)


def _create_masked_load(
    ptrs: TensorHandle, mask: TensorHandle, other: TensorHandle, *_: object
) -> TensorHandle:
    element = ptrs.get_element_ty()
    kind = interpreter._get_np_dtype(element)
    addresses, lanes = _same_shape(ptrs.data, mask.data)
    # There is none where the graph run op by op calls a kernel of the user's.
    if memory is not None:
        memory.check(addresses, lanes, kind.itemsize, "reads")
    if other is None:
        fill = np.full(addresses.shape, _undefined(element, kind), dtype=kind)
    else:
        fill = np.ascontiguousarray(np.broadcast_to(other.data, addresses.shape))
    return _Handle(interpreter._interpreter.load(addresses, lanes, fill, kind), element)


def _undefined(element: tl.dtype, kind: np.dtype) -> object:
    if kind.kind == "f":
        return np.nan
    return 0x7FC0 if element.name == "bf16" else 0


def _create_masked_store(ptrs: TensorHandle, value: TensorHandle, mask: TensorHandle, *_: object) -> object:
    addresses, lanes = _same_shape(ptrs.data, mask.data)
    data = np.ascontiguousarray(np.broadcast_to(value.data, addresses.shape))
    _mark(addresses, lanes, data.itemsize, "writes")
    return interpreter._interpreter.store(addresses, data, lanes)


def _same_shape(addresses: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.ascontiguousarray(addresses), np.ascontiguousarray(np.broadcast_to(mask, addresses.shape))


def _mark(addresses: np.ndarray, lanes: np.ndarray, size: int, verb: str) -> None:
    for region, active in memory.check(addresses, lanes, size, verb) if memory is not None else ():
        region.mark(active)


def _create_atomic_rmw(
    operation: object, ptr: TensorHandle, value: TensorHandle, mask: TensorHandle, *rest: object
) -> object:
    addresses, lanes = _same_shape(ptr.data, mask.data)
    element = value.dtype.scalar
    if is_custom(element):
        raise MissingStandIn(f"atomic operations on {element} have no stand-in on the CPU")
    _mark(addresses, lanes, value.data.itemsize, "writes")
    return _builder.original_create_atomic_rmw(operation, ptr, value, mask, *rest)


def _create_atomic_cas(
    ptr: TensorHandle, expected: TensorHandle, value: TensorHandle, *rest: object
) -> object:
    _mark(ptr.data, np.ones(ptr.data.shape, dtype=bool), value.data.itemsize, "writes")
    return _builder.original_create_atomic_cas(ptr, expected, value, *rest)


def _cast_impl(src: TensorHandle, target: tl.dtype) -> TensorHandle:
    source, wanted = src.dtype.scalar, target.scalar
    if is_custom(source) or is_custom(wanted):
        tensor = to_torch(src.data, source)
        if tensor.dtype.is_floating_point:
            tensor = tensor.to(torch.float32)
        return _Handle(from_torch(tensor, wanted), wanted)
    return _Handle(src.data.astype(interpreter._get_np_dtype(wanted)), wanted)


def _create_fp_to_fp(src: TensorHandle, target: tl.dtype, *_: object) -> TensorHandle:
    return _cast_impl(src, target)


def _widened(operation: Callable[..., np.ndarray], handles: tuple[TensorHandle, ...]) -> TensorHandle:
    """`operation` in float32 on handles whose type NumPy cannot compute with; None where it can."""
    custom = next((handle.dtype.scalar for handle in handles if is_custom(handle.dtype.scalar)), None)
    if custom is None or operation in _MOVES:
        return None
    arrays = [
        to_torch(handle.data, handle.dtype.scalar).float().numpy()
        if is_custom(handle.dtype.scalar)
        else handle.data
        for handle in handles
    ]
    result = operation(*arrays)
    if result.dtype == np.bool_:
        return _Handle(result, custom)
    return _Handle(from_torch(torch.from_numpy(np.asarray(result)), custom), custom)


def _binary_op(lhs: TensorHandle, rhs: TensorHandle, operation: Callable[..., np.ndarray]) -> TensorHandle:
    wide = _widened(operation, (lhs, rhs))
    return wide if wide is not None else type(_builder).binary_op(_builder, lhs, rhs, operation)


def _unary_op(arg: TensorHandle, operation: Callable[..., np.ndarray]) -> TensorHandle:
    wide = _widened(operation, (arg,))
    return wide if wide is not None else type(_builder).unary_op(_builder, arg, operation)


def _ternary_op(
    lhs: TensorHandle, rhs: TensorHandle, other: TensorHandle, operation: Callable[..., np.ndarray]
) -> TensorHandle:
    wide = _widened(operation, (lhs, rhs, other))
    return wide if wide is not None else type(_builder).ternary_op(_builder, lhs, rhs, other, operation)


def _create_fma(x: TensorHandle, y: TensorHandle, z: TensorHandle) -> TensorHandle:
    data, dtype = elementwise(
        lambda a, b, c: a.double() * b.double() + c.double(),
        [x.data, y.data, z.data],
        [z.dtype.scalar, z.dtype.scalar, z.dtype.scalar],
    )
    return _Handle(data, dtype)


def _elementwise(function: Callable[[Tensor], Tensor]) -> Callable[[TensorHandle], TensorHandle]:
    return lambda arg: _Handle(*elementwise(function, [arg.data], [arg.dtype.scalar]))


_create_erf = _elementwise(torch.erf)
_create_rsqrt = _elementwise(torch.rsqrt)


class _Results:
    """What a call of inline assembly returns: one result."""

    def __init__(self, handle: TensorHandle) -> None:
        self._handle = handle

    def get_result(self, _index: int) -> TensorHandle:
        return self._handle


def _create_inline_asm(text: str, _constraints: object, values: TensorHandle, *_: object) -> TensorHandle:
    kinds = [value.dtype.scalar for value in values]
    data, dtype = elementwise(assembly(text), [value.data for value in values], kinds)
    return _Results(_Handle(data, dtype))


def _create_dot(a: TensorHandle, b: TensorHandle, d: TensorHandle, *_: object) -> TensorHandle:
    left, right = (to_torch(side.data, side.dtype.scalar) for side in (a, b))
    total = d.dtype.scalar
    wide = torch.float64 if left.dtype == torch.float64 else torch.float32
    if not left.dtype.is_floating_point:
        wide = torch.int32
    product = torch.matmul(left.to(wide), right.to(wide)) + to_torch(d.data, total).to(wide)
    return _Handle(from_torch(product, total), total)


def _tensor(data: np.ndarray, dtype: tl.dtype) -> tl.tensor:
    data = np.ascontiguousarray(data)
    return tl.tensor(_Handle(data, dtype.scalar), tl.block_type(dtype.scalar, list(data.shape)))


def _combined(
    function: Callable[..., tl.tensor], left: list[np.ndarray], right: list[np.ndarray], types: list[tl.dtype]
) -> list[np.ndarray]:
    """`function` of two lists of equally shaped arrays, as arrays."""
    shape = left[0].shape
    sides = [_tensor(data, dtype) for side in (left, right) for data, dtype in zip(side, types, strict=True)]
    result = function(*sides)
    result = result if isinstance(result, (tuple, list)) else (result,)
    arrays = []
    for item, dtype in zip(result, types, strict=True):
        data = item.handle.data if isinstance(item, tl.tensor) else np.asarray(item)
        arrays.append(np.broadcast_to(data, shape).astype(interpreter._get_np_dtype(dtype.scalar)))
    return arrays


def _generic_reduce(self: interpreter.ReduceOps, inputs: tl.tensor) -> tl.tensor:
    """`combine_fn` over pairs of neighbours, then over pairs of those, and so on."""
    whole = self.axis is None
    rank = len(inputs[0].handle.data.shape)
    axis = 0 if whole else self.axis % rank
    types = [item.dtype for item in inputs]
    arrays = [item.handle.data.reshape(-1) if whole else item.handle.data for item in inputs]
    # Triton's blocks have powers of two along every axis.
    while arrays[0].shape[axis] > 1:
        first, second = ([_every_other(data, axis, start) for data in arrays] for start in (0, 1))
        arrays = _combined(self.combine_fn, first, second, types)
    results = []
    for data, dtype in zip(arrays, types, strict=True):
        if whole:
            data = data.reshape((1,) * rank) if self.keep_dims else data.reshape(())
        elif not self.keep_dims:
            data = np.squeeze(data, axis)
        results.append(self.to_tensor(data if data.shape else data.item(), dtype.scalar))
    return results


def _every_other(data: np.ndarray, axis: int, start: int) -> np.ndarray:
    index = [slice(None)] * data.ndim
    index[axis] = slice(start, None, 2)
    return data[tuple(index)]


def _generic_scan(self: interpreter.ScanOps, inputs: tl.tensor) -> tl.tensor:
    """Inclusive scan: each element takes in the one 1, 2, 4, ... places before it."""
    axis = self.axis % len(inputs[0].handle.data.shape)
    types = [item.dtype for item in inputs]
    arrays = [item.handle.data for item in inputs]
    length, step = arrays[0].shape[axis], 1
    places = np.arange(length).reshape([-1 if number == axis else 1 for number in range(arrays[0].ndim)])
    while step < length:
        # What comes round from the end is thrown away.
        earlier = [np.roll(data, step, axis) for data in arrays]
        merged = _combined(self.combine_fn, earlier, arrays, types)
        arrays = [np.where(places < step, old, new) for old, new in zip(arrays, merged, strict=True)]
        step *= 2
    return [self.to_tensor(data, dtype.scalar) for data, dtype in zip(arrays, types, strict=True)]


def set_position(grid: tuple[int, int, int], program: tuple[int, int, int]) -> None:
    """What ``tl.num_programs`` and ``tl.program_id`` answer from now on."""
    _builder.set_grid_dim(*grid)
    _builder.set_grid_idx(*program)


def as_argument(value: object) -> object:
    """A launch's argument as the kernel sees it: tensors become pointers, numbers 0-d tensors."""
    return interpreter._implicit_cvt(value)
