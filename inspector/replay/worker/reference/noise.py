"""What rounding may do to a result: the float64 reference once more, each operation's result disturbed at
random by as much as an implementation may be off (Monte Carlo arithmetic: D. S. Parker, 1997).

How far results then move, element by element, holds what no rule for a dtype knows: cancellation, depth,
reductions in another order, fused multiply-adds, half-precision values that a kernel keeps in float32
(emulate_precision_casts), comparisons of near ties that fall either way. Inputs are as they are, and a
result that its dtype holds exactly is not disturbed, so that a tie of exact values stays one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from inspector.replay.worker.code.fx import aten

NoisyReference = Callable[[int], object]
"""``reference(seed)``: in the same form as the undisturbed one."""

_ULPS = 4.0
"""Of functions and of division: Sleef's u10 and u35 variants, CUDA's approximate ones."""

NEAR = 64.0
"""Roundings by which two values differ that may be equal."""

_EXACT = aten(
    """abs neg relu maximum minimum fmax fmin amax amin max min aminmax clamp clamp_min clamp_max hardtanh
    sign sgn signbit floor ceil round trunc frac where masked_fill gather index _unsafe_index
    index_select embedding cat stack repeat flip roll sort topk argmax argmin argsort kthvalue median
    mode cummax cummin copy copysign clone full full_like zeros zeros_like ones ones_like empty
    empty_like empty_strided new_zeros new_ones new_full new_empty new_empty_strided arange iota
    scalar_tensor tensor lift_fresh_copy constant_pad_nd tril triu eq ne lt le gt ge isnan isinf
    logical_not logical_and logical_or logical_xor bitwise_not bitwise_and bitwise_or bitwise_xor any
    all nonzero unique scatter index_copy index_fill slice_scatter select_scatter as_strided_scatter
    diagonal_scatter masked_scatter reshape contiguous max_pool2d_with_indices
    _low_memory_max_pool2d_with_offsets nan_to_num item _local_scalar_dense remainder fmod threshold
    threshold_backward prelu heaviside rand randn randint bernoulli native_dropout
    _assert_tensor_metadata"""
) | {
    "prims.iota", "prims.broadcast_in_dim", "prims.inductor_seeds", "prims.inductor_lookup_seed",
    "prims.inductor_randint", "prims._low_memory_max_pool_with_offsets",
    "prims._low_memory_max_pool_offsets_to_indices", "prims.device_put",
}  # fmt: skip
"""Operators that only choose among the values they are given, or whose result every implementation gives."""

_ROUNDED = aten("add sub rsub mul square _to_copy to lift") | {
    "prims.convert_element_type", "prims.fma"
}  # fmt: skip
"""Operators that IEEE 754 has rounded correctly: what is exact is exact everywhere."""

_SUMMED = aten(
    """sum cumsum mm bmm addmm baddbmm addmv mv dot matmul linear convolution scatter_add index_add
    scatter_reduce index_put _unsafe_index_put prod cumprod _int_mm addbmm convolution_backward"""
)
"""Operators that add up products or terms, in any order."""

_PRODUCTS = aten(
    """mm bmm addmm baddbmm addmv mv dot matmul linear convolution _int_mm addbmm convolution_backward"""
)

_OVERWRITES = aten("scatter index_put _unsafe_index_put index_copy")
"""Operators that may write several values to one place, of which any stays."""

_MAY_SWAP = aten("sort topk")
"""Operators that may order what ties as they like."""

_DIFFERENCES = aten("expm1 tanh erf elu gelu softplus sinh asinh atanh sin tan asin atan log lgamma cos")

_SATURATED = frozenset({"erf", "tanh", "sigmoid"})
"""Functions that every implementation has end at 1."""

_HALVES = frozenset({"sinh", "cosh"})
"""Functions that are half of an exponential, which may be infinite where the half of it is not."""


_FINEST = 1e-12
"""Less is the rounding of what is computed in float64."""

_SPARE_BITS = 12
"""Of the last places of what was rounded, so many are zero once in 4,096."""


class Noise:
    """Disturbances from one seed. `libdevice`: functions are those of a GPU, whose expm1 is no exp - 1, which
    it is in Inductor's vectorised C++ (torch/_inductor/codegen/cpp.py: CppVecOverrides.expm1). A GPU's may
    also flush denormal numbers, and write those with one index in any order. `ends`: the first disturbs all
    as far as it goes one way, the second the other, so that what is next to a bound falls on both sides."""

    def __init__(self, seed: int, libdevice: bool = False, ends: bool = False) -> None:
        self._seed = seed
        self._ends = ends
        self._on_gpu = libdevice
        self._exact = frozenset({"expm1", "tanh", "erf"}) if libdevice else frozenset()
        self._generators: dict[torch.device, torch.Generator] = {}

    def disturbed(self, value: object, size: float | Tensor, dtype: torch.dtype | None = None) -> object:
        """A floating tensor times 1 + u, u uniform in [-size, size]; with `dtype` only where that cannot
        hold the value. Anything else as it is."""
        if not isinstance(value, Tensor) or not (value.dtype.is_floating_point or value.dtype.is_complex):
            return value
        if value.device.type == "meta" or not value.numel() or value.dtype.itemsize == 1:
            return value
        device = value.device
        if device not in self._generators:
            self._generators[device] = torch.Generator(device=device).manual_seed(self._seed)
        factor = torch.rand(
            value.shape, generator=self._generators[device], device=device, dtype=torch.float64
        )
        if self._ends and self._seed < 3:
            factor = torch.full_like(factor, float(self._seed - 1))
        moved = value * (1 + size * (2 * factor - 1))
        if dtype is not None and dtype.is_floating_point and value.dtype == torch.float64:
            moved = torch.where(_holds(dtype, value), value, moved)
        if self._on_gpu and self._seed % 2 and value.dtype == torch.float64:
            moved = torch.where(value.abs() < torch.finfo(torch.float32).smallest_normal, 0 * value, moved)
        return moved

    def last(self, memory: Tensor, places: Tensor, values: Tensor) -> Tensor:
        """What a flat memory holds at `places` after `values` were written there: where several are written
        to one place, on a GPU, the least or the greatest of them, by the seed."""
        if not self._on_gpu or memory.dtype == torch.bool or not places.numel():
            return values
        end = "amin" if self._seed % 2 else "amax"
        return memory.scatter_reduce(0, places, values, end, include_self=False)[places]

    def equal(self, result: object, left: object, right: object, size: float) -> object:
        """The result of a comparison with ``==`` or ``!=``, either way where the values are not equal but so
        near that they may be once they are rounded: a maximum that was stored beside what it is of."""
        if not (isinstance(result, Tensor) and isinstance(left, Tensor) and isinstance(right, Tensor)):
            return result
        if not (left.dtype.is_floating_point and right.dtype.is_floating_point):
            return result
        apart = (left - right).abs()
        near = (left != right) & (apart <= size * torch.maximum(left.abs(), right.abs())) & apart.isfinite()
        generator = torch.Generator().manual_seed(self._seed)
        # All of them from the first seed, as one share that is missing may make NaN of a whole row.
        share = 1.0 if self._seed == 1 else 0.5
        flips = torch.rand(near.shape, generator=generator).to(near.device) < share
        return result ^ (near & flips)

    def remainder(self, result: Tensor, value: Tensor, divisor: Tensor, dtype: torch.dtype) -> Tensor:
        """A remainder, every other time as vectorised C++ has it, in the kernel's dtype: what a rounded
        multiple leaves, of a rounded quotient (torch/_inductor/codegen/cpp.py: CppVecOverrides.remainder)."""
        if self._on_gpu or self._seed % 2 == 0 or not result.dtype.is_floating_point:
            return result
        left, right = value.to(dtype), divisor.to(dtype)
        whole = (left / right).floor()
        # How the multiple is rounded may be off by as much as the dividend's last place.
        size = torch.where(whole == 0, 0.0, float(torch.finfo(dtype).eps) * left.abs()).to(result.dtype)
        moved = self.disturbed(size, 1.0)
        assert isinstance(moved, Tensor)
        return (left - whole * right).to(result.dtype) + (moved - size)

    def order(self, count: int, device: torch.device) -> Tensor:
        """Positions in another order: backwards from the first seed, at random from others."""
        if self._seed == 1:
            return torch.arange(count - 1, -1, -1, device=device)
        generator = torch.Generator().manual_seed(self._seed)
        return torch.randperm(count, generator=generator).to(device)

    def function(self, value: object, eps: float, name: str) -> object:
        """The result of a function: some ulps, as much more as an exponent's own rounding makes, and for
        those that may be had as a difference of terms near one, some ulps of one."""
        if not isinstance(value, Tensor) or not value.dtype.is_floating_point or value.dtype.itemsize == 1:
            return value
        size = eps * (_ULPS + value.abs().log().nan_to_num(0.0, 0.0, 0.0).abs())
        if f"aten.{name}" in _DIFFERENCES and name not in self._exact:
            size = size + _ULPS * eps / value.abs().clamp_min(1e-30)
        moved = self.disturbed(value, size)
        if name in _SATURATED and isinstance(moved, Tensor):
            return torch.where(value.abs() == 1, value, moved)
        if name in _HALVES and self._seed % 2:
            most = float(torch.finfo(torch.float64 if eps < _FINEST else torch.float32).max)
            return torch.where(value.abs() > most / 2, value * math.inf, moved)
        return moved


def unit(dtype: torch.dtype | None) -> float:
    """By how much one operation's result of a dtype may be off, relative to it. A half is rounded by eager
    and may be kept in float32."""
    if dtype is None or not (dtype.is_floating_point or dtype.is_complex):
        return float(torch.finfo(torch.float32).eps)
    return float(torch.finfo(dtype).eps) * (0.5 if dtype.itemsize == 2 else 1.0)


def disturbed_call(
    noise: Noise,
    op: str,
    dtypes: Sequence[torch.dtype | None],
    function: Callable[..., object],
    call: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> object:
    """``call(function, *args, **kwargs)`` with its rounding disturbed. `dtypes`: of the captured results."""
    if op in _MAY_SWAP and (swapped := _swapped(noise, function, call, args, kwargs)) is not None:
        return swapped
    if op in _OVERWRITES and (written := _written(noise, args, kwargs)) is not None:
        return written
    floating = [dtype for dtype in dtypes if dtype is not None and dtype.is_floating_point]
    if op in _EXACT or not op or not floating or _shares_memory(function):
        return call(function, *args, **kwargs)
    eps = unit(floating[0])
    if op == "prims.inductor_random":
        # A uniform number is exact; a normal one is had by a logarithm and a cosine of an angle up to 2 pi.
        drawn = call(function, *args, **kwargs)
        return noise.function(drawn, 8 * eps, "cos") if "randn" in args else drawn
    within = min(eps, unit(torch.float32))
    inner = args
    if op not in _ROUNDED:
        # Sums that run past each other lose more the longer they are, however near to zero they end.
        each = within * (1 + _products(args) ** 0.5 / 8) if op in _PRODUCTS else within
        if op in _PRODUCTS and floating[0] == torch.float32 and may_use_tf32(op, args):
            each = max(each, unit(torch.float16))
        inner = tree_map(lambda leaf: noise.disturbed(leaf, each), args)
    result = call(function, *inner, **kwargs)
    if op in _ROUNDED:
        return tree_map(lambda leaf: noise.disturbed(leaf, eps, floating[0]), result)
    if op in _SUMMED:
        size = eps + within * _terms(args, result) ** 0.5 / 8
        return tree_map(lambda leaf: noise.disturbed(leaf, size, floating[0]), result)
    name = op.removeprefix("aten.")
    return tree_map(lambda leaf: noise.function(leaf, eps, name), result)


def may_use_tf32(operator: str, args: Sequence[object]) -> bool:
    """Whether a library may compute this product in TF32, whose mantissa is as long as float16's: cuDNN
    unless it is forbidden, cuBLAS if allowed."""
    devices = [arg.device for arg in args if isinstance(arg, Tensor) and arg.device.type == "cuda"]
    if not devices or torch.cuda.get_device_capability(devices[0])[0] < 8:
        return False
    if "convolution" in operator:
        return bool(torch.backends.cudnn.allow_tf32)
    return "mm" in operator and torch.get_float32_matmul_precision() != "highest"


def _swapped(
    noise: Noise,
    function: Callable[..., object],
    call: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> object:
    """The result of a sort or the like of the elements in another order, ties as they then fall; None where
    ties have an order."""
    schema = getattr(function, "_schema", None)
    names = [item.name for item in schema.arguments] if schema is not None else []
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    value, axis = given.get("self"), given.get("dim", -1)
    if given.get("stable") or not isinstance(value, Tensor) or not value.dim() or not isinstance(axis, int):
        return None
    order = noise.order(value.shape[axis], value.device)
    result = call(function, value.index_select(axis, order), *args[1:], **kwargs)
    values, places = tuple(result)  # type: ignore[arg-type, var-annotated]
    return values, order[places]


def _written(noise: Noise, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """The result of an operator of `_OVERWRITES` where other values stay; None for one that adds up or fills
    with one number."""
    whole, values = args[0], args[-1] if isinstance(args[-1], Tensor) else None
    if kwargs or not isinstance(whole, Tensor) or values is None or len(args) not in (3, 4):
        return None
    order = torch.arange(whole.numel(), device=whole.device).reshape(whole.shape)
    if len(args) == 3:
        places = order[tuple(slice(None) if each is None else each for each in args[1])]  # type: ignore
    else:
        axis, index = args[1], args[2]
        assert isinstance(axis, int) and isinstance(index, Tensor)
        if index.dim() == whole.dim() and index.shape != values.shape:
            values = values[tuple(slice(extent) for extent in index.shape)]
        scatters = index.dim() == whole.dim() and index.shape == values.shape
        places = order.gather(axis, index) if scatters else order.index_select(axis, index)
    values = values.expand(places.shape).reshape(-1).to(whole.dtype)
    flat = whole.reshape(-1).clone()
    flat[places.reshape(-1)] = noise.last(flat, places.reshape(-1), values)
    return flat.reshape(whole.shape)


def _products(args: Sequence[object]) -> float:
    """How many products one element of the last two tensors' product adds up."""
    factors = [arg for arg in args if isinstance(arg, Tensor)][-2:]
    last = factors[-1]
    return float(last.numel() / max(1, last.shape[0 if last.dim() > 3 else -1])) if last.dim() else 1.0


def _terms(args: Sequence[object], result: object) -> float:
    """How many terms one element of a sum has, about."""
    first = next((arg for arg in args if isinstance(arg, Tensor)), None)
    if first is None or not isinstance(result, Tensor) or not result.numel():
        return 1.0
    return float(max(1.0, first.numel() / result.numel()))


def _shares_memory(function: object) -> bool:
    """Whether the operator returns a view, or writes to an argument."""
    schema = getattr(function, "_schema", None)
    return schema is not None and (
        schema.is_mutable or any(item.alias_info is not None for item in schema.returns)
    )


def _holds(dtype: torch.dtype, value: Tensor) -> Tensor:
    """Where a dtype holds a value that was computed in float64. Float64 itself holds all of them, so that
    there one is taken for exact whose last bits are zero, as those of counts and short fractions are."""
    if dtype == torch.float64:
        return value.contiguous().view(torch.int64) & (2**_SPARE_BITS - 1) == 0
    return value.to(dtype).to(torch.float64) == value


_EXACT_OPS = aten(
    """abs neg maximum minimum sign signbit floor ceil trunc round where relu identity eq ne lt le gt ge isnan
    isinf logical_not logical_and logical_or logical_xor bitwise_not bitwise_and bitwise_or bitwise_xor and_
    or_ xor lshift rshift copysign mod fmod remainder nextafter"""
)
_ROUNDED_OPS = aten("add sub mul fma square mul_rn dot")


def disturbed_op(noise: Noise, name: str, value: object, double: bool) -> object:
    """The result of one of the IR's operators; `double`: the kernel computes in float64."""
    dtype = torch.float64 if double else torch.float32
    if f"aten.{name}" in _EXACT_OPS or not isinstance(value, Tensor):
        return value
    if f"aten.{name}" in _ROUNDED_OPS:
        return noise.disturbed(value, unit(dtype), dtype)
    return noise.function(value, unit(dtype), name.removeprefix("libdevice_"))


def disturbed_sum(noise: Noise, terms: int, value: object, double: bool) -> object:
    """The result of a reduction of so many terms, which were disturbed each by itself."""
    dtype = torch.float64 if double else torch.float32
    return noise.disturbed(value, unit(dtype) * (1 + math.sqrt(terms) / 8), dtype)


def any_order(factors: Tensor, axes: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Where a product along the axes depends on which factors of a dtype are multiplied first: some of them
    may come to zero and others to infinity, which together are NaN. (..., 1, ...)"""
    size, limits = factors.abs().to(torch.float64), torch.finfo(torch.float32)
    if dtype.is_floating_point and dtype.itemsize > 4:
        limits = torch.finfo(dtype)
    small = torch.where((size < 1) & (size > 0), size, 1.0).log()
    large = torch.where((size > 1) & size.isfinite(), size, 1.0).log()
    vanishes = small.sum(tuple(axes), keepdim=True) < math.log(limits.smallest_normal)
    overflows = large.sum(tuple(axes), keepdim=True) > math.log(limits.max)
    zero, infinite = (each.any(tuple(axes), keepdim=True) for each in (size == 0, size.isinf()))
    return (vanishes | zero) & (overflows | infinite) & ~(zero & infinite)
