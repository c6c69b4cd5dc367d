"""Inductor's IR evaluated in plain torch: what each buffer of a kernel should hold, by the loop bodies.

ir_post_fusion.txt prints a loop body as Python over an `ops` handler (torch/_inductor/loop_body.py:
LoopBody.debug_str; the operators are those of torch/_inductor/ops_handler.py). Here that text runs with
a handler whose values are tensors over the whole loop nest: float64 for a reference, or the body's own
dtypes. The combining function of a scan is not printed; `scan_kinds` says which ones to take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from inspector.replay.worker.reference.body import Function, LoopBody, UnknownIr
from inspector.replay.worker.reference.layouts import INDEX_FUNCTIONS, Layouts, Value
from inspector.replay.worker.reference.noise import (
    NEAR,
    Noise,
    any_order,
    disturbed_op,
    disturbed_sum,
    unit,
)
from inspector.replay.worker.reference.philox import Drawing, integers, normal, seeded, uniform

Watched = Callable[["Ops"], object]
"""Something that looks on, from the operators that it takes the place of."""

Memory = Callable[[str, bool], Tensor]
"""``memory(name, for_writing)``: the flat tensor that a load or store of that buffer goes to."""

_EXTREMES = frozenset({"cummax", "cummin"})
"""Scans that give indices as well."""

OVERFLOW = "converts values that its integers don't hold, with no defined result"


def overflows(value: object, dtype: object) -> bool:
    """Whether floats are converted to an integer dtype that can't hold them, which C leaves undefined."""
    if not isinstance(value, Tensor) or not isinstance(dtype, torch.dtype) or not value.numel():
        return False
    if not value.dtype.is_floating_point or dtype.is_floating_point or dtype.is_complex:
        return False
    if dtype == torch.bool:
        return False
    limits, whole = torch.iinfo(dtype), value.to(torch.float64).trunc()
    return not bool(((whole >= limits.min) & (whole <= limits.max)).all())


class Evaluation:
    """One run of one body."""

    def __init__(
        self,
        body: LoopBody,
        memory: Memory,
        layouts: Layouts,
        device: str,
        *,
        wide: bool,
        scan_kinds: Sequence[str] = ("cumsum",),
        noise: Noise | None = None,
        double: bool = False,
        drawn: bool = False,
        drawing: Drawing | None = None,
        watched: Watched | None = None,
        most: int | None = None,
    ) -> None:
        """`wide`: every float is a float64. `noise` disturbs each result, as float64 where `double`. `drawn`:
        on values that the graph may never give, for which conversions may overflow. `drawing`: how the kernel
        draws random numbers, None for `seeded` ones. `watched`: puts something that looks on in the place of
        the operators. `most`: elements of the loop nest, of which only the first are gone through then,
        reductions in whole. Raises UnknownIr where a size has no value."""
        self._body = body
        self._layouts = layouts
        self.memory = memory
        self.device = device
        self.wide = wide
        self.scan_kinds = scan_kinds
        self.noise = noise
        self.double = double
        self.drawn = drawn
        self.drawing = drawing
        self.results = body.results
        self._names: dict[str, object] = {**INDEX_FUNCTIONS, **layouts.symbols}
        try:
            self.grid = [int(eval(extent, dict(self._names))) for extent in body.ranges.values()]
        except (NameError, TypeError) as error:
            raise UnknownIr(f"a loop's size is not known: {error}") from None
        for position in range(body.outer if most is not None else 0):
            rest = max(1, math.prod(self.grid) // max(1, self.grid[position]))
            self.grid[position] = min(self.grid[position], max(1, (most or 0) // rest))
        self.reduced = list(range(body.outer, len(self.grid)))
        for position, (name, extent) in enumerate(zip(body.ranges, self.grid, strict=True)):
            shape = [1] * len(self.grid)
            shape[position] = extent
            self._names[name] = torch.arange(extent, device=device).reshape(shape)
        self._ops: Any = Ops(self) if watched is None else watched(Ops(self))

    def run(self) -> None:
        """Raises UnknownIr for an operator that is not known, and what torch raises."""
        if 0 in self.grid:
            return
        if not self.wide:
            self.results.clear()
        self._body.methods["body"](self, self._ops)

    def layout(self, name: str) -> tuple[object, object, torch.dtype | None] | None:
        """The size, strides and dtype of a buffer, where they are known."""
        return self._layouts.of(name)

    def get_index(self, name: str) -> Tensor:
        code, names = self._body.index(name), dict(self._names)
        try:
            for variable in code.co_names:
                value = names[variable]
                if variable.startswith("indirect") and isinstance(value, Tensor) and bool((value < 0).any()):
                    # Generated code counts a negative index from the end (lowering.py: indirect_indexing).
                    extent = self._indexed_extent(name, variable, value)
                    names[variable] = torch.where(value < 0, value + extent, value)
            value = eval(code, names)
        except (NameError, KeyError) as error:
            raise UnknownIr(f"an index is not known: {error}") from None
        return torch.as_tensor(value, device=self.device)

    def _indexed_extent(self, name: str, variable: str, value: Tensor) -> int:
        """The extent of the dimension that an indirect variable of the index `name` runs along: that of the
        buffer whose stride it is multiplied by, or of it and those around it as one, as `take` has it, where
        the index `value` is out of bounds else. Raises UnknownIr where there is more than one answer."""
        code = self._body.index(name)
        zeros = {
            each: 0 for each in code.co_names if each in self._body.ranges or each.startswith("indirect")
        }
        at = {each: eval(code, {**self._names, **zeros, each: 1}) for each in zeros}
        offset = eval(code, {**self._names, **zeros})
        steps = {each: value - offset for each, value in at.items()}
        step = steps.pop(variable)
        extents = set()
        for buffer in self._body.buffers.get(name, ()):
            layout = self._layouts.of(buffer)
            dimensions = [] if layout is None else list(zip(layout[0], layout[1], strict=True))
            outer = set(steps.values())
            sizes = [size for size, stride in dimensions if size > 1 and stride == step]
            unknown = {stride: size for size, stride in dimensions if size > 1 and stride > step}
            clear = layout is not None and not offset and len(sizes) == 1
            while clear and step * sizes[-1] in unknown.keys() - outer:
                sizes.append(sizes[-1] * unknown[step * sizes[-1]])
            inside = {size for size in sizes if bool(((value >= -size) & (value < size)).all())}
            if not clear or len(inside) != 1 or (unknown.keys() - outer and len(sizes) == 1):
                raise UnknownIr(f"a negative index into a part of {buffer}")
            extents |= inside
        if len(extents) != 1:
            raise UnknownIr("a negative index into buffers of several sizes")
        return extents.pop()

    def __getattr__(self, name: str) -> Function:
        # masked_subblock1, set_indirect0, scan5: the body's own helpers, numbered by the printer.
        kind = name.rstrip("0123456789")
        if kind == "masked_subblock":
            return lambda mask, other: self._masked(name, mask, other)
        if kind == "set_indirect":
            # Index arithmetic is wide: an int8 offset times a row's length would wrap.
            return lambda value, **_: self._names.__setitem__(
                name.removeprefix("set_"), torch.as_tensor(value, device=self.device).to(torch.int64)
            )
        if kind == "scan":
            scan: Function = self._ops.scan
            return scan
        raise UnknownIr(f"`self.{name}` of a loop body")

    @property
    def indirect(self) -> bool:
        """Whether an index was made of values that were loaded."""
        return any(name.startswith("indirect") for name in self._names)

    def full(self, value: Value) -> Tensor:
        return torch.as_tensor(value, device=self.device).expand(self.grid)

    def dtype(self, dtype: torch.dtype) -> torch.dtype:
        """The dtype that stands for `dtype` here."""
        if not self.wide or dtype.itemsize == 1:
            return dtype
        if dtype.is_complex:
            return torch.complex128
        return torch.float64 if dtype.is_floating_point else dtype

    def _masked(self, name: str, mask: Tensor, other: Value) -> Tensor:
        inner = self._body.methods[name](self, self._ops)
        inner = torch.as_tensor(inner, device=self.device)
        other = torch.as_tensor(other, device=self.device, dtype=inner.dtype)
        hidden: Tensor = self._ops.where(mask, inner, other)
        return hidden


class Ops:
    """The `ops` of a loop body. Values are tensors that broadcast against the loop nest."""

    def __init__(self, run: Evaluation) -> None:
        self.run = run
        self._made = 0

    def __getattr__(self, name: str) -> Callable[..., Value]:
        if name in {"trunc_to_int", "ceil_to_int", "floor_to_int", "round_to_int"}:
            rounding = getattr(torch, name.removesuffix("_to_int"))
            return lambda value, dtype: rounding(value).to(dtype)
        function = self.function(name)
        if function is None:
            raise UnknownIr(f"the operator ops.{name}")
        return lambda *values, **_: self._called(name, function, self.tensors(values))

    @staticmethod
    def function(name: str) -> Function | None:
        """torch's own for an operator that works element by element on tensors; None where there is none."""
        function = _POINTWISE.get(name.removeprefix("libdevice_"))
        return function or getattr(torch.special, name, None) or getattr(torch, name, None)

    def _called(self, name: str, function: Function, values: Sequence[Tensor]) -> Value:
        result = function(*values)
        if self.run.noise is not None and name == "remainder":
            dtype = torch.float64 if self.run.double else torch.float32
            result = self.run.noise.remainder(result, values[0], values[1], dtype)
        if self.run.noise is not None and name in {"eq", "ne"}:
            size = unit(torch.float64 if self.run.double else torch.float32)
            result = torch.as_tensor(self.run.noise.equal(result, values[0], values[1], NEAR * size))
        return self._disturbed(name, result)

    def _disturbed(self, name: str, value: Value) -> Value:
        run, number = self.run, self._made
        self._made += 1
        if not run.wide:
            run.results.append(value.dtype if isinstance(value, Tensor) else None)
        if run.noise is None:
            return value
        own = run.results[number] if number < len(run.results) else None
        double = run.double if own is None else own == torch.float64
        return disturbed_op(run.noise, name, value, double)

    def tensors(self, values: Sequence[Value]) -> list[Tensor]:
        return [
            value if isinstance(value, Tensor) else torch.as_tensor(value, device=self.run.device)
            for value in values
        ]

    # -- memory

    def load(self, name: str, index: Tensor) -> Tensor:
        memory = self.run.memory(name, False)
        # Where a mask hides an index that lies outside, the value read does not matter.
        return memory[index.clamp(0, max(memory.numel() - 1, 0))]

    def store(self, name: str, index: Tensor, value: Value, mode: str | None = None) -> None:
        memory = self.run.memory(name, True)
        value = torch.as_tensor(value, device=self.run.device)
        index, value = torch.broadcast_tensors(index, value)
        flat, values = index.reshape(-1), value.reshape(-1)
        if memory.dtype.itemsize == 1 and memory.dtype.is_floating_point:
            values = values.to(torch.float32)
        values = values.to(memory.dtype)
        if mode is None or mode == "":
            noise, indirect = self.run.noise, self.run.indirect
            memory[flat] = values if noise is None or not indirect else noise.last(memory, flat, values)
        elif mode == "atomic_add":
            if self.run.noise is not None:
                # Added one by one, in any order, and rounded each time.
                terms = max(1, values.numel() // max(1, memory.numel()))
                layout = self.run.layout(name)
                dtype = layout[2] if layout is not None else None
                size = unit(dtype) * (1 + math.sqrt(terms) / 8)
                values = torch.as_tensor(self.run.noise.disturbed(values, size))
            memory.index_put_((flat,), values, accumulate=True)
        else:
            raise UnknownIr(f"a store of mode {mode!r}")

    def store_reduction(self, name: str, index: Tensor, value: Value) -> None:
        self.store(name, index, value)

    # -- constants, indices, dtypes

    def constant(self, value: Value, dtype: torch.dtype) -> Value:
        # 0.1 beside a float32 is the float32 next to it, on all sides.
        # Kernels compute on halves in float32, and so does eager where a half meets a number.
        half = self.run.wide and dtype in (torch.float16, torch.bfloat16)
        own = torch.float32 if dtype == torch.float32 or half else self.run.dtype(dtype)
        return torch.tensor(value, dtype=own, device=self.run.device).to(self.run.dtype(dtype))

    def index_expr(self, index: Value, dtype: torch.dtype) -> Value:
        return torch.as_tensor(index, device=self.run.device).to(self.run.dtype(dtype))

    value_expr = index_expr

    def check_bounds(self, *_: object, **__: object) -> None:
        return None

    device_assert_async = check_bounds

    def to_dtype(self, value: Value, dtype: torch.dtype, *_: object, **__: object) -> Value:
        value = torch.as_tensor(value, device=self.run.device)
        if overflows(value, dtype):
            if not self.run.drawn:
                raise UnknownIr(f"it {OVERFLOW}")
            # Not the same in float64 as else, so that what follows from it is not taken for certain.
            limits = torch.iinfo(dtype)
            inside = (value.trunc() >= limits.min) & (value.trunc() <= limits.max)
            result = torch.where(inside, value, 0.0).to(dtype)
            return result.where(inside, limits.min if self.run.wide else limits.max)
        if dtype.itemsize == 1 and dtype.is_floating_point:
            # An 8-bit float is a quantisation that the program asked for: the reference rounds as well.
            # What it can't hold is NaN, infinite or the largest number, as a device has it.
            beyond = value.abs() > torch.finfo(dtype).max
            value = value.to(torch.float32).to(dtype).to(torch.float32)
            if self.run.drawn:
                value = value.where(~beyond, 1.0 if self.run.wide else -1.0)
            return value.to(torch.float64) if self.run.wide else value
        result = value.to(self.run.dtype(dtype))
        if self.run.noise is None or dtype.itemsize != 2:
            return result
        return self.run.noise.disturbed(result, unit(dtype), dtype)

    def to_dtype_bitcast(self, value: Tensor, dtype: torch.dtype, src_dtype: torch.dtype) -> Value:
        result = value.to(src_dtype).view(dtype)
        return result.to(self.run.dtype(dtype))

    # -- random numbers

    def load_seed(self, name: str, offset: Value) -> Value:
        return self.run.memory(name, False)[int(offset)]

    def rand(self, seed: Tensor, offset: Tensor) -> Value:
        run, drawing = self.run, self.run.drawing
        drawn = uniform(*self._stream(seed, offset), drawing) if drawing else seeded(seed, offset)
        return drawn.to(run.dtype(torch.float32))

    def randn(self, seed: Tensor, offset: Tensor) -> Value:
        run, drawing = self.run, self.run.drawing
        if drawing is None:
            return self.rand(seed, offset)
        return normal(*self._stream(seed, offset), drawing, self._disturbed).to(run.dtype(torch.float32))

    def randint64(self, seed: Tensor, offset: Tensor, low: Value, high: Value) -> Value:
        drawing = self.run.drawing
        if drawing is None:
            return (low + torch.floor(seeded(seed, offset) * (high - low))).to(torch.int64)
        low, high = self.tensors((low, high))
        return integers(*self._stream(seed, offset), low, high, drawing)

    def _stream(self, seed: Tensor, offset: Tensor) -> tuple[Tensor, Tensor]:
        return torch.as_tensor(seed).to(torch.int64), self.run.full(offset).to(torch.int64)

    # -- reductions

    def reduction(
        self, dtype: torch.dtype, src_dtype: torch.dtype, kind: str, value: Value | Sequence[Value]
    ) -> Value | Sequence[Value]:
        run = self.run
        axes = run.reduced
        if not axes:
            raise UnknownIr("a reduction without reduced dimensions")
        parts = value if isinstance(value, (tuple, list)) else [value]
        noise = run.noise
        if noise is None or kind in {"argmax", "argmin", "max", "min", "any", "xor_sum"}:
            return self._reduced(dtype, kind, [run.full(part) for part in parts])
        terms = math.prod(run.grid[axis] for axis in axes)
        size = unit(torch.float64 if run.double else torch.float32) * (1 + math.sqrt(terms) / 16)
        parts = [noise.disturbed(run.full(part), size) for part in parts]
        result = self._reduced(dtype, kind, parts)
        if kind == "prod" and dtype.is_floating_point and isinstance(result, Tensor):
            result = torch.where(any_order(parts[0], axes, dtype), torch.nan, result)
        if isinstance(result, tuple):
            return tuple(disturbed_sum(noise, terms, part, run.double) for part in result)
        return disturbed_sum(noise, terms, result, run.double)

    def _reduced(self, dtype: torch.dtype, kind: str, parts: Sequence[Tensor]) -> Value | Sequence[Value]:
        run = self.run
        axes, whole = run.reduced, parts[0]
        if kind == "welford_combine":
            return self._welford_combine(*parts)
        if kind == "welford_reduce":
            mean = whole.mean(axes, keepdim=True)
            weight = torch.full_like(mean, math.prod(run.grid[axis] for axis in axes))
            return mean, ((whole - mean) ** 2).sum(axes, keepdim=True), weight
        if kind == "online_softmax_reduce":
            largest = whole.amax(axes, keepdim=True)
            return largest, torch.exp(whole - largest).sum(axes, keepdim=True)
        if kind in {"argmax", "argmin"}:
            return self._arg(kind, whole)
        if kind in {"sum", "dot"}:
            result = (whole.to(run.dtype(dtype))).sum(axes, keepdim=True)
        elif kind == "prod":
            result = whole
            for axis in axes:
                result = result.prod(axis, keepdim=True)
        elif kind in {"max", "min"}:
            result = (torch.amax if kind == "max" else torch.amin)(whole, axes, keepdim=True)
        elif kind == "any":
            result = (whole != 0).to(torch.int64).amax(axes, keepdim=True).to(torch.bool)
        elif kind == "xor_sum":
            bits = [((whole >> bit) & 1).sum(axes, keepdim=True) % 2 << bit for bit in range(63)]
            result = torch.stack(bits).sum(0)
        else:
            raise UnknownIr(f"a reduction of kind {kind}")
        return result.to(run.dtype(dtype))

    def _welford_combine(self, mean: Tensor, squares: Tensor, weight: Tensor) -> Value:
        axes = self.run.reduced
        total = weight.sum(axes, keepdim=True)
        middle = (mean * weight).sum(axes, keepdim=True) / total
        spread = squares.sum(axes, keepdim=True) + (weight * (mean - middle) ** 2).sum(axes, keepdim=True)
        return middle, spread, total

    def _arg(self, kind: str, whole: Tensor) -> Tensor:
        first = self.run.reduced[0]
        flat = whole.reshape([*whole.shape[:first], -1])
        if flat.dtype == torch.bool:
            flat = flat.to(torch.int8)
        return getattr(torch, kind)(flat, -1).reshape([*whole.shape[:first], *[1] * len(self.run.reduced)])

    def sort(
        self, dtypes: object, values: Sequence[Value], stable: bool, descending: bool
    ) -> Sequence[Tensor]:
        if len(self.run.reduced) != 1:
            raise UnknownIr("a sort over several dimensions")
        axis = self.run.reduced[0]
        whole = [self.run.full(value) for value in values]
        if self.run.noise is not None and not stable:
            # Ties may fall in any order.
            other = self.run.noise.order(whole[0].shape[axis], whole[0].device)
            whole = [value.index_select(axis, other) for value in whole]
        order = torch.sort(whole[0], dim=axis, descending=descending, stable=True).indices
        return tuple(value.gather(axis, order) for value in whole)

    def scan(self, dtypes: Sequence[torch.dtype], values: Sequence[Value]) -> Sequence[Tensor]:
        run = self.run
        if len(run.reduced) != 1:
            raise UnknownIr("a scan over several dimensions")
        axis = run.reduced[0]
        value = run.full(values[0])
        # Of values beside their indices, or of values alone.
        fitting = [kind for kind in run.scan_kinds if (kind in _EXTREMES) == (len(values) == 2)]
        if len(fitting) != 1 or len(values) > 2:
            raise UnknownIr(f"a {' or '.join(run.scan_kinds)} of {len(values)} values")
        scan = getattr(torch, fitting[0])
        if fitting[0] in _EXTREMES:
            return tuple(scan(value, axis))
        if run.noise is not None:
            value = run.noise.disturbed(value, unit(torch.float64 if run.double else torch.float32))
        scanned = scan(value, axis).to(run.dtype(dtypes[0]))
        if run.noise is not None:
            scanned = disturbed_sum(run.noise, run.grid[axis], scanned, run.double)
        return (scanned,)

    def bucketize(
        self,
        values: Tensor,
        boundaries: tuple[str, int],
        indices: Tensor,
        dtype: torch.dtype,
        right: bool,
        *_: object,
        **__: object,
    ) -> Value:
        memory = self.run.memory(boundaries[0], False)[: int(boundaries[1])]
        return torch.bucketize(values, memory.contiguous(), right=bool(right)).to(dtype)


def _compare(name: str) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda left, right: getattr(torch, name)(left, right)


_POINTWISE: dict[str, Callable[..., Tensor]] = {
    "and_": torch.bitwise_and,
    "or_": torch.bitwise_or,
    "xor": torch.bitwise_xor,
    "lshift": torch.bitwise_left_shift,
    "rshift": torch.bitwise_right_shift,
    "truediv": torch.true_divide,
    "int_truediv": torch.true_divide,
    "div_rn": torch.true_divide,
    "mul_rn": torch.mul,
    "floordiv": lambda left, right: torch.div(left, right, rounding_mode="floor"),
    "truncdiv": lambda left, right: torch.div(left, right, rounding_mode="trunc"),
    "mod": torch.fmod,
    "identity": lambda value: value,
    "polygamma": lambda order, value: torch.polygamma(int(order.reshape(-1)[0]), value),
    "relu": lambda value: torch.clamp_min(value, 0),
    "fma": lambda left, right, added: left * right + added,
    "where": lambda condition, yes, no: torch.where(condition.to(torch.bool), yes, no),
    "dot": torch.mul,
}

for _name in ("eq", "ne", "lt", "gt", "le", "ge"):
    _POINTWISE[_name] = _compare(_name)
