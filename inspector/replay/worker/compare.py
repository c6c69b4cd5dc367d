"""Verdicts: one output as compiled and eager computed it, against the float64 reference.

An element's tolerance is what correct implementations may be off by: ``rtol * |reference|``, some units in
the last place of its row's root mean square, and three times what disturbed rounding made of the reference
there (`inspector.replay.worker.reference.noise`). Nothing in it is absolute, so that gradients of 1e-7 are
judged as values of 1 are. An element is *outside* where it differs from the reference,
rounded to the output's dtype, by more than that, or where one of the two is NaN or infinite and the other
is not the same. `match` means that no element of the compiled output is outside. Otherwise:

- `mismatch` where rounding does not explain it: one element is over `LOCAL` tolerances off, and neither op
  by op nor one disturbed reference, by what the others moved, as many at other places, or over
  `SHARE` of all are over `SPREAD` tolerances off, eager's error added to the tolerance, or elements are over
  `ALONE` off with a gap below them, as rounding's errors leave none, or over `MOST` of all are outside where
  eager is all but exact, or non-finite ones disagree where eager's agree;
- `compiled_closer` where compiled's largest error is not over eager's, and `eager_closer` else.

Where no disturbed reference can be had the rounding inside of the graph is not known: the tolerance is then
torch.testing.assert_close's, in proportion to the output's scale, and a mismatch is what is over 10 times
(float32: 100 times) as many tolerances off as eager.

Integers and booleans have no tolerance, but an element that disturbed rounding changes may be anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from inspector.model.replay import OutputCheck, Verdict
from inspector.replay.worker.elements import Element, Side, typical
from inspector.replay.worker.samples import Samples, flat

LOCAL = 10.0
ALONE = 2.5
SPREAD = 2.0
SHARE = 0.02
MOST = 0.2

_WITHOUT_NOISE = {torch.float32: 100.0}
"""Tolerances off that are a mismatch where disturbed rounding is not known; 10 for other dtypes."""

_EAGERS = 10.0
"""Without disturbed references: a mismatch is over so many times as far off as op by op, or at so many
places."""

_ULPS_OF_SCALE = 4.0

_CHANCE = {0: 1.0, 1: 1e3, 2: 70.0, 3: 7.0, 4: 2.0}
"""By what the most that so few references moved one element may fall short of what rounding does to it, once
in a million: two draws are both below a thirtieth of their reach once in two hundred."""

_LEAST_DRAWN = 4
"""Disturbed references of which one can be held against the others."""

_MORE_THAN_DRAWN = 4.0
"""Times as many elements as one of them moves that no other does: of a few, chance makes as many."""

_LEAST_APART = 64
"""Elements of an output of which some may stand apart from the others."""

_ALL_BUT_EXACT = 0.25
"""Tolerances that eager's worst element is off."""

_RTOL_DOUBLE = 1e-12
"""For float64 where disturbed rounding is known: assert_close's 1e-7 would let pass what float32 computes."""

_FLUSHED = 4.0
"""Times the smallest normal number below which a result may have been flushed."""

_DENORMAL_STEPS = 16
"""By how many of their steps denormal numbers may be off that a processor keeps."""

_LEAST_ROW = 16
"""Elements of a row that have a scale of their own."""

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
    compiled: Side | None = None,
    eager: Side | None = None,
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
class _Totals:
    compiled: Side = field(default_factory=Side)
    eager: Side = field(default_factory=Side)
    finite: int = 0
    squares: float = 0.0
    worst: float = 0.0
    """The element that is farthest off, in tolerances that hold eager's error as well."""
    eagers_worst: float = 0.0
    """The same of eager's elements, with compiled's error in the tolerances."""
    far: int = 0
    """Elements over `SPREAD` such tolerances off."""
    between: int = 0
    """Elements of compiled between half a tolerance and one."""
    certain: int = 0
    """Special values of compiled where eager agrees with the reference."""
    drawn: Side = field(default_factory=Side)
    """Of all disturbed references together, what each moved beyond what the others did."""


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
    compiled: object,
    eager: object,
    reference: object,
    *,
    exact: bool = False,
    tf32: bool = False,
    noisy: Callable[[int], object] | None = None,
    certain: Tensor | None = None,
) -> OutputCheck:
    """Compares three tensors, or three Python numbers (symbolic sizes that a graph returns).

    `reference` is float64 (or complex128) where the others are floating. `exact`: no floating-point value
    influenced this integer output. `tf32`: float32 values come from products in TF32, whose mantissa is as
    long as float16's, so the tolerance is float16's, of the scale too, as sums that cancel keep the
    rounding of their terms. `noisy`: the reference from a seed with its rounding disturbed. `certain`: the
    elements that are judged, None for all. A difference in kind, shape or dtype between compiled and eager
    is a mismatch: the graph fixes both.
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
    samples = Samples(noisy, reference, certain)
    if compiled.dtype.is_floating_point or compiled.dtype.is_complex:
        return _Floats(compiled, eager, reference, samples, tf32).check()
    return _compare_exactly(compiled, eager, reference, exact, samples)


def without_reference(compiled: object, eager: object, why: str) -> OutputCheck:
    """`unverifiable`, with how far compiled is from eager: information, not a judgement."""
    if (
        isinstance(compiled, Tensor)
        and isinstance(eager, Tensor)
        and compiled.shape == eager.shape
        and compiled.numel()
        and not compiled.dtype.is_complex
    ):
        distance = (compiled.to(torch.float64) - eager.to(torch.float64)).abs()
        finite = distance[torch.isfinite(distance)]
        if finite.numel():
            why += f"; compiled and op by op differ by {float(finite.max()):.3g} at most"
    return verdict_on("unverifiable", why)


class _Floats:
    """The comparison of one floating output."""

    def __init__(
        self, compiled: Tensor, eager: Tensor, reference: Tensor, samples: Samples, tf32: bool
    ) -> None:
        self._sides = [flat(value) for value in (compiled, eager, reference)]
        dtype = self._sides[0].dtype
        self._tf32 = tf32 and dtype == torch.float32
        self._precision = torch.float16 if self._tf32 else dtype
        self._samples = samples
        last = compiled.shape[-1] if compiled.dim() > 1 and not compiled.dtype.is_complex else 0
        self._row = last if last >= _LEAST_ROW else self._sides[0].numel()
        self.rtol, absolute = tolerances(self._precision)
        self._double = dtype == torch.float64
        info = torch.finfo(dtype)
        ulps = _ULPS_OF_SCALE if dtype.itemsize > 2 else 1 / 8
        self._of_scale = self.rtol if self._tf32 else ulps * float(info.eps)
        if not samples.expected:
            self._of_scale = max(self._of_scale, absolute)
        # Values of very different size stand beside each other: none tells another's scale.
        self._apart = samples.partial
        self._of_scale = 0.0 if self._apart else self._of_scale
        # Denormal numbers: a device may flush them, half precision's are kept in whole steps.
        self._step = float(info.eps * info.smallest_normal)
        self._least = self._step if dtype.itemsize == 2 else float(info.smallest_normal)
        self._unflushed = self._sides[0].device.type == "cpu" and self._least > self._step

    def check(self) -> OutputCheck:
        totals = self._totals()
        while totals.compiled.outside and self._samples.more():
            totals = self._totals()
        if totals.compiled.outside and self._double and not self._samples.expected:
            totals = self._totals()
        elements = self._sides[0].numel()
        verdict, reason = self._verdict(totals, elements)
        scale = math.sqrt(totals.squares / totals.finite) if totals.finite else 0.0
        return verdict_on(
            verdict,
            reason,
            compiled=totals.compiled,
            eager=totals.eager,
            tolerance=(self.rtol, self._of_scale * scale),
            elements=elements,
        )

    def _totals(self) -> _Totals:
        totals = _Totals()
        row = min(self._row, _CHUNK)
        step = row * max(1, _CHUNK // row)
        enough = self._samples.count >= _LEAST_DRAWN
        drawn = (self._samples.moved, self._samples.second if enough else None)
        for start in range(0, self._sides[0].numel(), step):
            chunk = [side[start : start + step] for side in self._sides]
            shape = (-1, row) if chunk[0].numel() % row == 0 else (1, -1)
            parts = [None if each is None else each[start : start + step].reshape(shape) for each in drawn]
            self._add(totals, [side.reshape(shape) for side in chunk], *parts)
        return totals

    def _add(self, totals: _Totals, chunk: list[Tensor], moved: Tensor | None, second: Tensor | None) -> None:
        dtype = chunk[0].dtype
        exact = chunk[2].to(torch.float64)
        # Through float32 for the 8-bit floats, which convert from nothing wider on some devices.
        narrow = exact.to(torch.float32) if dtype.itemsize == 1 else exact
        rounded = narrow.to(dtype).to(torch.float64)
        finite = torch.isfinite(rounded)
        squares = torch.where(finite, rounded, 0.0).square().sum(1, keepdim=True)
        totals.finite += int(finite.sum())
        totals.squares += float(squares.sum())
        scale = (squares / finite.sum(1, keepdim=True).clamp_min(1)).sqrt()
        size = torch.where(finite, rounded, 0.0).abs()
        # A few large elements are not the scale of the others; nor is the zero of what a threshold cut off.
        scale = torch.minimum(scale, 4 * typical(size, size)) if self._samples.expected else scale
        rtol = _RTOL_DOUBLE if self._double and self._samples.expected else self.rtol
        # What is larger is no result that a device flushes.
        least = torch.where(size > _FLUSHED * self._least, self._step, self._least)
        tolerance = rtol * size + self._of_scale * scale + least
        free = torch.zeros_like(finite)
        luck: float | Tensor = 0.0
        if moved is not None:
            if second is not None:
                totals.drawn.add_moved(moved, tolerance + 3 * (second + typical(second, size)))
            free = torch.isinf(moved)
            moved = torch.where(free, 0.0, moved)
            tolerance = tolerance + 3 * (moved + (0.0 if self._apart else typical(moved, size)))
            luck = 3 * (_CHANCE.get(self._samples.count, 1.0) - 1.0) * moved
        eager = Element(chunk[1], rounded, exact, finite, tolerance, free, dtype)
        if self._unflushed:
            # What is not zero was not flushed, where op by op flushes nothing either.
            steps = _DENORMAL_STEPS * self._step
            exactly = (chunk[1].to(torch.float64) - rounded).abs() <= rtol * size + steps
            kept = (chunk[0] != 0) & exactly & (rounded != 0) & (least > self._step)
            tolerance = torch.where(kept, tolerance - least + steps, tolerance)
        compiled = Element(chunk[0], rounded, exact, finite, tolerance, free, dtype)
        usual = 0.0 if self._apart else typical(eager.error)
        beyond = compiled.error / (tolerance + 2 * eager.error + 3 * usual)
        beyond = torch.where(free | (compiled.error == 0), 0.0, beyond)
        totals.far += int((beyond > SPREAD).sum())
        alone = torch.where(
            beyond == 0, 0.0, compiled.error / (tolerance + 2 * eager.error + 3 * usual + luck)
        )
        totals.worst = max(totals.worst, float(alone.max()))
        theirs = eager.error / (tolerance + 2 * compiled.error + luck)
        totals.eagers_worst = max(totals.eagers_worst, float(torch.where(free, 0.0, theirs).max()))
        totals.between += int(((compiled.off > 0.5) & (compiled.off <= 1.0)).sum())
        totals.certain += int((compiled.special & ~eager.special).sum())
        totals.eager.add(eager)
        totals.compiled.add(compiled)

    def _verdict(self, totals: _Totals, elements: int) -> tuple[Verdict, str]:
        compiled, eager = totals.compiled, totals.eager
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
        verdict: Verdict
        if totals.certain > eager.special:
            verdict = "mismatch"
            worst = (
                f"NaN or infinity disagree with the reference at {compiled.special:,} elements "
                f"(op by op at {eager.special:,})"
            )
        elif self._is_wrong(totals, elements):
            verdict = "mismatch"
        elif (compiled.special, compiled.error) <= (eager.special, eager.error):
            verdict = "compiled_closer"
        else:
            verdict = "eager_closer"
        return verdict, "; ".join(part for part in (counts, worst, partly) if part)

    def _eager_alike(self, totals: _Totals) -> bool:
        """Whether single elements accuse op by op as they accuse compiled: at least half as many, no less far
        off. What is cut off at a threshold, deep in half precision, is moved further than a few disturbed
        references show, each time at other places."""
        compiled, eager = totals.compiled, totals.eager
        return (
            totals.eagers_worst > LOCAL
            and 2 * eager.outside >= compiled.outside
            and eager.error >= compiled.error
        )

    def _drawn_alike(self, totals: _Totals) -> bool:
        """Whether disturbed references accuse each other as they accuse compiled: near a double root, or
        where an iteration jumps, each moves a few elements far that no other does."""
        compiled, drawn = totals.compiled, totals.drawn
        return (
            drawn.worst > LOCAL
            and LOCAL * drawn.error >= compiled.error
            and _as_drawn(compiled.outside, drawn.outside, self._samples.count)
        )

    def _is_wrong(self, totals: _Totals, elements: int) -> bool:
        compiled, eager = totals.compiled, totals.eager
        if self._samples.count:
            apart = elements >= _LEAST_APART and eager.worst <= 1.0 and totals.between < compiled.outside
            # Where op by op has no number that the reference has, the reference is not all of the truth.
            more = compiled.outside - eager.outside
            most = more > MOST * elements and eager.worst < _ALL_BUT_EXACT
            far = totals.far > SHARE * elements
            alike = self._eager_alike(totals) or self._drawn_alike(totals)
            single = totals.worst > (ALONE if apart else LOCAL) and not alike
            return single or far or (most and elements >= _LEAST_APART)
        if compiled.worst > _WITHOUT_NOISE.get(self._precision, 10.0) * max(1.0, eager.worst):
            return True
        scale = math.sqrt(totals.squares / max(1, totals.finite))
        spread = math.sqrt(float(torch.finfo(self._precision).eps)) * scale
        return compiled.rms > _EAGERS * eager.rms and compiled.rms > spread


def _compare_exactly(
    compiled: Tensor, eager: Tensor, reference: Tensor, exact: bool, samples: Samples
) -> OutputCheck:
    sides = [flat(value) for value in (compiled, eager, reference)]
    elements = sides[0].numel()
    while True:
        ours, theirs, certain = Side(), Side(), 0
        for start in range(0, elements, _CHUNK):
            # int64 holds every integer dtype; the wider unsigned ones wrap alike on all sides.
            truth = sides[2][start : start + _CHUNK].to(torch.int64)
            free = torch.zeros_like(truth, dtype=torch.bool)
            if samples.moved is not None:
                free = samples.moved[start : start + _CHUNK] > 0
            wrong = []
            for values, side in ((sides[0], ours), (sides[1], theirs)):
                value = values[start : start + _CHUNK].to(torch.int64)
                distance = (value.to(torch.float64) - truth.to(torch.float64)).abs()
                wrong.append((value != truth) & ~free)
                side.error = max(side.error, float(distance.max()))
                side.outside += int(wrong[-1].sum())
                side.compared += value.numel()
            certain += int((wrong[0] & ~wrong[1]).sum())
        if not ours.outside or not samples.more():
            break
    verdict: Verdict = "compiled_closer" if ours.error <= theirs.error else "eager_closer"
    known = exact or samples.count
    if not ours.outside:
        verdict = "match"
    elif _as_drawn(certain, samples.alone, samples.count):
        pass
    elif certain > (theirs.outside if known else max(_EAGERS * theirs.outside, elements / 1000)):
        verdict = "mismatch"
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


def _as_drawn(outside: int, drawn: int, count: int) -> bool:
    """Whether so many elements of compiled are what one of `count` disturbed references moves that no other
    does, where there are `drawn` such of all of them together."""
    return count >= _LEAST_DRAWN and count * outside <= _MORE_THAN_DRAWN * drawn
