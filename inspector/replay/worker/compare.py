"""Verdicts: one output as compiled and eager computed it, against the float64 reference.

An element is *outside* where it differs from the reference, rounded to the output's dtype, by more
than ``atol + rtol * |reference|`` (torch.testing.assert_close's defaults), or where one of the two
is NaN or infinite and the other is not the same. `match` means that no element of the compiled
output is outside. Otherwise:

- `mismatch` where rounding does not explain the difference, by any of three signs:
  the compiled output's worst element is over `LOCAL_FACTOR` times as many tolerances off as eager's
  worst (which counts as one tolerance at least); or its root mean square error is over
  `SPREAD_FACTOR` times eager's and over sqrt(eps) of the reference's root mean square; or its
  non-finite elements disagree at over `SPREAD_FACTOR` times as many places as eager's;
- `compiled_closer` where compiled is at least as near to the reference as eager is;
- `eager_closer` else.

Integers and booleans have no tolerance. Where no floating-point value went into them any difference
is a mismatch; else a near tie may fall either way, and only a difference at over 1 in 1,000 elements
and over `SPREAD_FACTOR` times as many as eager's is one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from inspector.model.replay import OutputCheck, Verdict

SPREAD_FACTOR = 10.0

LOCAL_FACTOR = {torch.float32: 100.0}
"""10 for other dtypes. float32's default tolerance is only 11 units in the last place, which a long
sum in another order exceeds; 100 of them are a relative 1.3e-4."""

TOLERANCES = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex32: (1e-3, 1e-5),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}
"""(rtol, atol): torch/testing/_comparison.py, _DTYPE_PRECISIONS."""

_CHUNK = 1 << 23
"""Elements compared at a time: the float64 temporaries of a chunk take some 0.5 GB."""


def verdict_on(
    verdict: Verdict,
    reason: str = "",
    *,
    compiled: _Side | None = None,
    eager: _Side | None = None,
    tolerance: tuple[float, float] | None = None,
    elements: int | None = None,
) -> OutputCheck:
    """A verdict with its evidence, on an output that has no name yet. Errors are the largest absolute
    difference from the reference over elements where both are finite; None where there is none."""
    rtol, atol = tolerance or (None, None)
    return OutputCheck(
        0,
        verdict,
        reason,
        error_compiled=compiled.error if compiled and compiled.compared else None,
        error_eager=eager.error if eager and eager.compared else None,
        rtol=rtol,
        atol=atol,
        elements=elements,
        outside_compiled=compiled.outside if compiled else None,
        outside_eager=eager.outside if eager else None,
    )


def named(
    check: OutputCheck,
    index: int,
    name: str,
    value: object,
    kind: Literal["output", "mutated_input"] = "output",
) -> OutputCheck:
    """The verdict as that on `value`, which has that place and name."""
    if not isinstance(value, Tensor):
        return replace(check, index=index, name=name, kind=kind, dtype=type(value).__name__)
    dtype, shape = str(value.dtype).removeprefix("torch."), tuple(int(extent) for extent in value.shape)
    return replace(check, index=index, name=name, kind=kind, dtype=dtype, shape=shape)


@dataclass(slots=True)
class _Side:
    """What is summed up over chunks for one of the two candidates."""

    worst: float = 0.0
    error: float = 0.0
    squares: float = 0.0
    outside: int = 0
    special: int = 0
    compared: int = 0

    @property
    def rms(self) -> float:
        return math.sqrt(self.squares / self.compared) if self.compared else 0.0


@dataclass(slots=True)
class _Totals:
    compiled: _Side = field(default_factory=_Side)
    eager: _Side = field(default_factory=_Side)
    finite: int = 0
    squares: float = 0.0


def tolerances(dtype: torch.dtype) -> tuple[float, float]:
    """(rtol, atol) for a floating or complex dtype.

    torch.testing has none for the 8-bit floats: theirs are one unit in the last place and the
    smallest normal number.
    """
    if dtype in TOLERANCES:
        return TOLERANCES[dtype]
    info = torch.finfo(dtype)
    return float(info.eps), float(info.smallest_normal)


def compare(
    compiled: object, eager: object, reference: object, *, exact: bool = False, tf32: bool = False
) -> OutputCheck:
    """Compares three tensors, or three Python numbers (symbolic sizes that a graph returns).

    `reference` is float64 (or complex128) where the others are floating. `exact`: no floating-point
    value influenced this integer output. `tf32`: float32 values come from products in TF32, whose mantissa
    is as long as float16's, so the relative tolerance is float16's; the absolute one is as much of the
    reference's root mean square, as sums that cancel keep the rounding of their terms. A difference in kind,
    shape or dtype between compiled and eager is a mismatch: the graph fixes both.
    """
    if not any(isinstance(value, Tensor) for value in (compiled, eager, reference)):
        if compiled == eager == reference:
            return verdict_on("match")
        return verdict_on("mismatch", f"compiled returns {compiled!r}, op by op {eager!r}")
    if not (isinstance(compiled, Tensor) and isinstance(eager, Tensor) and isinstance(reference, Tensor)):
        kinds = [type(value).__name__ for value in (compiled, eager)]
        return verdict_on("mismatch", f"compiled returns a {kinds[0]}, op by op a {kinds[1]}")
    if compiled.shape != eager.shape:
        return verdict_on(
            "mismatch", f"compiled has shape {tuple(compiled.shape)}, op by op {tuple(eager.shape)}"
        )
    if compiled.dtype != eager.dtype:
        return verdict_on("mismatch", f"compiled has dtype {compiled.dtype}, op by op {eager.dtype}")
    if reference.shape != eager.shape:
        return verdict_on("unverifiable", f"the reference has another shape, {tuple(reference.shape)}")
    if compiled.numel() == 0:
        return verdict_on("match", "there are no elements", elements=0)
    if compiled.dtype.is_floating_point or compiled.dtype.is_complex:
        precision = torch.float16 if tf32 and compiled.dtype == torch.float32 else compiled.dtype
        return _compare_floats(compiled, eager, reference, precision)
    return _compare_exactly(compiled, eager, reference, exact)


def _flat(tensor: Tensor) -> Tensor:
    tensor = torch.view_as_real(tensor.resolve_conj()) if tensor.dtype.is_complex else tensor
    return tensor.reshape(-1)


def _compare_floats(
    compiled: Tensor, eager: Tensor, reference: Tensor, precision: torch.dtype
) -> OutputCheck:
    rtol, atol = tolerances(precision)
    sides = [_flat(value) for value in (compiled, eager, reference)]
    if precision != compiled.dtype:
        finite = sides[2].to(torch.float64).nan_to_num(0.0, 0.0, 0.0)
        atol = max(atol, rtol * float(finite.square().mean().sqrt()))
    totals = _Totals()
    for start in range(0, sides[0].numel(), _CHUNK):
        chunk = [side[start : start + _CHUNK] for side in sides]
        _add_chunk(totals, chunk, sides[0].dtype, rtol, atol)
    elements = sides[0].numel()
    verdict, reason = _float_verdict(totals, elements, precision)
    return verdict_on(
        verdict,
        reason,
        compiled=totals.compiled,
        eager=totals.eager,
        tolerance=(rtol, atol),
        elements=elements,
    )


def _add_chunk(totals: _Totals, chunk: list[Tensor], dtype: torch.dtype, rtol: float, atol: float) -> None:
    exact = chunk[2].to(torch.float64)
    # Through float32 for the 8-bit floats, which convert from nothing wider on some devices.
    narrow = exact.to(torch.float32) if dtype.itemsize == 1 else exact
    rounded = narrow.to(dtype).to(torch.float64)
    finite = torch.isfinite(rounded)
    totals.finite += int(finite.sum())
    totals.squares += float(torch.where(finite, rounded, 0.0).square().sum())
    largest = float(torch.finfo(dtype).max)
    for values, side in ((chunk[0], totals.compiled), (chunk[1], totals.eager)):
        value = values.to(torch.float64)
        both = finite & torch.isfinite(value)
        error = torch.where(both, (value - rounded).abs(), 0.0)
        off = error / (atol + rtol * torch.where(both, rounded, 0.0).abs())
        same = (torch.isnan(value) & torch.isnan(rounded)) | (value == rounded)
        # Just below the largest number one side may round up to infinity and the other not.
        edge = torch.isinf(value) & finite & (rounded.abs() * (1 + rtol) >= largest)
        edge &= torch.sign(value) == torch.sign(rounded)
        back = torch.isinf(rounded) & torch.isfinite(exact) & torch.isfinite(value)
        back &= (value - exact).abs() <= atol + rtol * exact.abs()
        special = ~both & ~same & ~edge & ~back
        side.worst = max(side.worst, float(off.max()))
        side.error = max(side.error, float(error.max()))
        side.squares += float(error.square().sum())
        side.compared += int(both.sum())
        side.special += int(special.sum())
        side.outside += int((special | (off > 1.0)).sum())


def _float_verdict(totals: _Totals, elements: int, precision: torch.dtype) -> tuple[Verdict, str]:
    compiled, eager = totals.compiled, totals.eager
    if not totals.finite:
        return "unverifiable", "the reference has no finite element on these inputs"
    partly = ""
    if totals.finite < elements:
        partly = f"the reference is finite at {totals.finite:,} of {elements:,} elements"
    if not compiled.outside:
        return "match", partly
    counts = (
        f"outside the tolerance at {compiled.outside:,} of {elements:,} elements "
        f"(op by op at {eager.outside:,})"
    )
    worst = f"worst element {compiled.worst:.3g} tolerances off (op by op {eager.worst:.3g})"
    scale = math.sqrt(totals.squares / totals.finite)
    spread = math.sqrt(float(torch.finfo(precision).eps)) * scale
    verdict: Verdict
    local = LOCAL_FACTOR.get(precision, 10.0) * max(1.0, eager.worst)
    if compiled.special > SPREAD_FACTOR * eager.special:
        verdict = "mismatch"
        worst = (
            f"NaN or infinity disagree with the reference at {compiled.special:,} elements "
            f"(op by op at {eager.special:,})"
        )
    elif compiled.worst > local or (compiled.rms > SPREAD_FACTOR * eager.rms and compiled.rms > spread):
        verdict = "mismatch"
    elif (compiled.special, compiled.rms) <= (eager.special, eager.rms):
        verdict = "compiled_closer"
    else:
        verdict = "eager_closer"
    return verdict, "; ".join(part for part in (counts, worst, partly) if part)


def _compare_exactly(compiled: Tensor, eager: Tensor, reference: Tensor, exact: bool) -> OutputCheck:
    sides = [_flat(value) for value in (compiled, eager, reference)]
    ours, theirs = _Side(), _Side()
    elements = sides[0].numel()
    for start in range(0, elements, _CHUNK):
        # int64 holds every integer dtype; the wider unsigned ones wrap alike on all sides.
        truth = sides[2][start : start + _CHUNK].to(torch.int64)
        for values, side in ((sides[0], ours), (sides[1], theirs)):
            value = values[start : start + _CHUNK].to(torch.int64)
            distance = (value.to(torch.float64) - truth.to(torch.float64)).abs()
            side.error = max(side.error, float(distance.max()))
            side.outside += int((value != truth).sum())
            side.compared += value.numel()
    verdict: Verdict = "eager_closer"
    if not ours.outside:
        verdict = "match"
    elif exact or ours.outside > max(SPREAD_FACTOR * theirs.outside, elements / 1000):
        verdict = "mismatch"
    elif ours.outside <= theirs.outside:
        verdict = "compiled_closer"
    reason = (
        f"differs from the reference at {ours.outside:,} of {elements:,} elements "
        f"(op by op at {theirs.outside:,})"
    )
    return verdict_on(
        verdict,
        reason if ours.outside else "",
        compiled=ours,
        eager=theirs,
        tolerance=(0.0, 0.0),
        elements=elements,
    )
