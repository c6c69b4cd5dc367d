"""Stand-ins for what Triton's interpreter lacks: libdevice's functions and inline assembly.

libdevice is GPU code that Triton links by name; in the interpreter its functions return None. Each is
computed here by torch's function of the same meaning on the CPU. Both are within a few units in the
last place of the exact result, which is what torch.testing's tolerances allow for.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import torch
import triton.language as tl
from torch import Tensor
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle

Function = Callable[..., Tensor]


class MissingStandIn(Exception):
    """The kernel uses something that has no stand-in here; the message names it."""


def _half_away(x: Tensor) -> Tensor:
    return torch.copysign(torch.floor(x.abs() + 0.5), x)


def _wide(function: Function) -> Function:
    """`function` in float64, for operations that round once."""
    return lambda *args: function(*(arg.double() for arg in args))


def _as_int32(function: Function) -> Function:
    return lambda *args: function(*args).to(torch.int32)


def _ilogb(x: Tensor) -> Tensor:
    return (torch.frexp(x)[1] - 1).to(torch.int32)


def _gamma(x: Tensor) -> Tensor:
    return torch.from_numpy(np.vectorize(_gamma_of, otypes=[np.float64])(x.double().numpy()))


def _gamma_of(x: float) -> float:
    try:
        return math.gamma(x)
    except (ValueError, OverflowError):
        return math.inf if x >= 0 else math.nan


_SAME_NAME = (
    "acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh erf erfc erfinv exp exp2 expm1 floor "
    "fmod hypot ldexp lgamma log log10 log1p log2 nextafter pow rsqrt sin sinh sqrt tan tanh trunc abs"
)

_FUNCTIONS: dict[str, Function] = {
    **{name: getattr(torch, name) for name in _SAME_NAME.split()},
    "cbrt": _wide(lambda x: torch.copysign(x.abs().pow(1 / 3), x)),
    "rcbrt": _wide(lambda x: 1 / torch.copysign(x.abs().pow(1 / 3), x)),
    "cyl_bessel_i0": torch.special.i0,
    "cyl_bessel_i1": torch.special.i1,
    "j0": torch.special.bessel_j0,
    "j1": torch.special.bessel_j1,
    "y0": torch.special.bessel_y0,
    "y1": torch.special.bessel_y1,
    "erfcinv": _wide(lambda x: torch.special.erfinv(1 - x)),
    "erfcx": torch.special.erfcx,
    "normcdf": torch.special.ndtr,
    "normcdfinv": torch.special.ndtri,
    "tgamma": _gamma,
    "exp10": _wide(lambda x: torch.pow(10.0, x)),
    "fdim": lambda x, y: torch.where(x > y, x - y, torch.zeros_like(x)),
    "fma": _wide(lambda x, y, z: x * y + z),
    "sinpi": _wide(lambda x: torch.sin(math.pi * x)),
    "cospi": _wide(lambda x: torch.cos(math.pi * x)),
    "rhypot": _wide(lambda x, y: 1 / torch.hypot(x, y)),
    "remainder": _wide(lambda x, y: x - y * torch.round(x / y)),
    "saturatef": lambda x: torch.nan_to_num(x, 0.0).clamp(0.0, 1.0),
    "round": _half_away,
    "rint": torch.round,
    "nearbyint": torch.round,
    "llrint": lambda x: torch.round(x).to(torch.int64),
    "llround": lambda x: _half_away(x).to(torch.int64),
    "scalbn": torch.ldexp,
    "logb": lambda x: _ilogb(x).to(x.dtype),
    "ilogb": _ilogb,
    "isnan": _as_int32(torch.isnan),
    "isinf": _as_int32(torch.isinf),
    "finitef": _as_int32(torch.isfinite),
    "isfinited": _as_int32(torch.isfinite),
    "signbit": _as_int32(torch.signbit),
    "add_rn": torch.add,
    "sub_rn": torch.sub,
    "mul_rn": torch.mul,
    "div_rn": torch.div,
    "fma_rn": _wide(lambda x, y, z: x * y + z),
    "sqrt_rn": torch.sqrt,
    "rsqrt_rn": torch.rsqrt,
    "rcp_rn": torch.reciprocal,
    "fast_cosf": torch.cos,
    "fast_sinf": torch.sin,
    "fast_tanf": torch.tan,
    "fast_tanhf": torch.tanh,
    "fast_expf": torch.exp,
    "fast_exp10f": _wide(lambda x: torch.pow(10.0, x)),
    "fast_logf": torch.log,
    "fast_log2f": torch.log2,
    "fast_log10f": torch.log10,
    "fast_powf": torch.pow,
    "fast_dividef": torch.div,
}

_ASSEMBLY: dict[str, Function] = {
    "fma.rn": _wide(lambda x, y, z: x * y + z),
    "add.rn": torch.add,
    "sub.rn": torch.sub,
    "mul.rn": torch.mul,
    "div.rn": torch.div,
    "div.full": torch.div,
    "div.approx": torch.div,
    "rcp.rn": torch.reciprocal,
    "rcp.approx": torch.reciprocal,
    "sqrt.rn": torch.sqrt,
    "sqrt.approx": torch.sqrt,
    "rsqrt.approx": torch.rsqrt,
    "ex2.approx": torch.exp2,
    "lg2.approx": torch.log2,
    "sin.approx": torch.sin,
    "cos.approx": torch.cos,
    "tanh.approx": torch.tanh,
}
"""Single PTX instructions by name without the ``.ftz`` and the type."""

_INSTRUCTION = re.compile(
    r"\s*(?P<name>[a-z0-9]+\.[a-z]+)(?:\.ftz)?\.f(?:32|64)\s+\$0(?P<rest>(?:\s*,\s*\$\d+)+)\s*;?\s*"
)

_TORCH_TYPES = {
    "bf16": torch.bfloat16,
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e4b8": torch.float8_e4m3fnuz,
    "fp8e5": torch.float8_e5m2,
    "fp8e5b16": torch.float8_e5m2fnuz,
}
"""Triton's types that NumPy lacks: the interpreter holds their bits as unsigned integers."""

_INTEGER_RESULTS = {torch.int32: tl.int32, torch.int64: tl.int64}


def to_torch(data: np.ndarray, dtype: tl.dtype) -> Tensor:
    """The interpreter's NumPy array of scalar type `dtype` as a tensor of the same values."""
    with warnings.catch_warnings():
        # A broadcast array is read-only, which torch warns of; nothing writes to it.
        warnings.simplefilter("ignore", UserWarning)
        tensor = torch.from_numpy(np.ascontiguousarray(data))
    return tensor.view(_TORCH_TYPES[dtype.name]) if dtype.name in _TORCH_TYPES else tensor


def from_torch(tensor: Tensor, dtype: tl.dtype) -> np.ndarray:
    """`tensor`'s values in the interpreter's array for `dtype`. 8-bit floats saturate, as on a GPU."""
    target = _TORCH_TYPES.get(dtype.name)
    if target is None:
        data: np.ndarray = tensor.numpy().astype(interpreter._get_np_dtype(dtype), copy=False)
        return data
    if target.itemsize == 1 and tensor.dtype != target:
        # PTX: cvt.rn.satfinite.
        limit = torch.finfo(target).max
        tensor = tensor.to(torch.float32)
        tensor = torch.where(tensor.isnan(), tensor, tensor.clamp(-limit, limit))
    bits: np.ndarray = tensor.to(target).view(torch.uint16 if target.itemsize == 2 else torch.uint8).numpy()
    return bits


def is_custom(dtype: tl.dtype) -> bool:
    """Whether the interpreter holds `dtype` as bits that NumPy cannot compute with."""
    return dtype.name in _TORCH_TYPES


def elementwise(
    function: Function, arrays: list[np.ndarray], types: list[tl.dtype]
) -> tuple[np.ndarray, tl.dtype]:
    """`function` of the arrays, broadcast: the result and its type, the first argument's unless integer."""
    tensors = [to_torch(array, dtype) for array, dtype in zip(arrays, types, strict=True)]
    tensors = [t.float() if t.dtype.is_floating_point and t.dtype.itemsize < 4 else t for t in tensors]
    result = function(*tensors)
    if result.dtype in _INTEGER_RESULTS and types[0].is_floating():
        return result.numpy(), _INTEGER_RESULTS[result.dtype]
    return from_torch(result, types[0]), types[0]


class Libdevice:
    """Takes the place of ``triton.language.extra.libdevice``.

    `fallback`: where other names are looked up, for ``tl.math``.
    """

    def __init__(self, name: str, fallback: object = None) -> None:
        self._name = name
        self._fallback = fallback

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._fallback is not None and hasattr(self._fallback, name):
            return getattr(self._fallback, name)
        function = _FUNCTIONS.get(name)
        if function is None:
            raise MissingStandIn(f"{self._name}.{name} has no stand-in on the CPU")

        def call(*args: tl.tensor | float, **_: object) -> tl.tensor:
            return apply(function, args)

        setattr(self, name, call)
        return call


def apply(function: Function, args: Sequence[tl.tensor | float]) -> tl.tensor:
    """`function` of the interpreter's tensors and of numbers, as one of the interpreter's tensors."""
    tensors = [as_tensor(_value(arg)) for arg in args]
    types = [t.dtype.scalar for t in tensors]
    data, dtype = elementwise(function, [t.handle.data for t in tensors], types)
    blocks = [t.shape for t in tensors if len(t.shape)]
    handle = TensorHandle(data, dtype)
    return tl.tensor(handle, tl.block_type(dtype, list(data.shape)) if blocks else dtype)


def as_tensor(value: object, dtype: torch.dtype | None = None) -> tl.tensor:
    """A number or tensor as one of the interpreter's tensors, of type `dtype` where that is given."""
    semantic = getattr(interpreter, "interpreter_semantic", None)
    if semantic is not None:
        tensor = semantic.to_tensor(value)
        return tensor if dtype is None else semantic.cast(tensor, dtype)
    # Up to Triton 3.3 these were functions that took the builder.
    builder = interpreter.interpreter_builder
    tensor = tl.semantic.to_tensor(value, builder)
    return tensor if dtype is None else tl.semantic.cast(tensor, dtype, builder)


def _value(arg: object) -> object:
    return arg.value if isinstance(arg, tl.constexpr) else arg


def assembly(text: str) -> Function:
    """What a single PTX instruction computes. Raises MissingStandIn for anything else."""
    match = _INSTRUCTION.fullmatch(text)
    operands = re.findall(r"\$(\d+)", match["rest"]) if match else []
    if (
        match is None
        or match["name"] not in _ASSEMBLY
        or operands != [str(number + 1) for number in range(len(operands))]
    ):
        short = " ".join(text.split())
        raise MissingStandIn(f"inline assembly {short[:60]!r} has no stand-in on the CPU")
    return _ASSEMBLY[match["name"]]
