"""Does compiling pay: the user's calls compiled and in eager, and after how many calls it is won back."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from inspector.model.calls import CompiledCallable, ProcessCalls, Variant, VariantRun
from inspector.model.source import SourceLocation

Outcome = Literal["faster", "slower", "same", "unknown"]

MINIMUM_CALLS = 3
"""Fewer steady calls than this say nothing about their spread."""

RUN_TO_RUN = 0.05
"""Two runs of one program differ by a few per cent of their medians without any cause in the code, which the
spread within a run does not show: a smaller difference is called the same."""

NOTCH = 1.57
"""Half-width of a median's confidence interval in interquartile ranges over the root of n (McGill 1978)."""


@dataclass(frozen=True, slots=True)
class Steady:
    """Calls during which nothing was compiled, in milliseconds: median, interquartile range, count."""

    median_ms: float
    iqr_ms: float
    count: int


@dataclass(frozen=True, slots=True)
class CallPayOff:
    """One callable in both ways. `ratio` is eager's time over compiled's: above 1, compiled is faster.

    `cost_ms` is what compiling adds before its calls are steady: ``torch.compile`` itself and the cold calls
    beyond a steady one's time, less the same of the eager run, whose first calls are slow too.
    `break_even` is the number of calls after which that is won back, 0 where there is nothing to win back,
    None where compiled is not faster. What was not measured is None. `measured_in` is the run that
    `compiled` comes from: `captured` has debug output on.
    """

    name: str
    location: SourceLocation | None
    kind: Literal["call", "backward"]
    rank: int | None
    calls: int
    cold: int
    outcome: Outcome
    measured_in: Variant
    compiled: Steady | None
    eager: Steady | None
    first_ms: float | None
    cost_ms: float | None
    ratio: float | None
    break_even: int | None


@dataclass(frozen=True, slots=True)
class PayOff:
    """All callables, and the run as a whole.

    The run is compared over one call of each callable for each of its calls: `compiled_ms` and `eager_ms` are
    the medians times the calls of the compiled run, summed. `break_even_runs` is how often the run's calls
    must be made until `cost_ms` is won back.
    """

    callables: tuple[CallPayOff, ...]
    outcome: Outcome
    compiled_ms: float | None
    eager_ms: float | None
    ratio: float | None
    cost_ms: float | None
    break_even_runs: float | None
    baseline: bool
    """Whether there is an eager run to compare with."""


def pay_off(variants: Iterable[VariantRun]) -> PayOff:
    """What compiling cost and gained. Prefers the compiled run of a baseline to the captured one."""
    runs = {run.variant: run for run in variants}
    compiled, eager = runs.get("compiled") or runs.get("captured"), runs.get("eager")
    if compiled is None:
        return PayOff((), "unknown", None, None, None, None, None, eager is not None)
    partners = _by_identity(eager.processes) if eager is not None else {}
    compared: list[CallPayOff] = []
    for identity, item in _by_identity(compiled.processes).items():
        if item.calls:
            compared.append(_compare(item, partners.get(identity), identity[0][0], compiled.variant))
    return _whole(tuple(compared), eager is not None)


_Place = tuple[int | None, str, str, str | None, int | None]


def _by_identity(processes: Sequence[ProcessCalls]) -> dict[tuple[_Place, int], CompiledCallable]:
    """By rank, kind, name and place, and the number among those that share all of these."""
    callables: dict[tuple[_Place, int], CompiledCallable] = {}
    numbers: Counter[_Place] = Counter()
    for process in processes:
        for item in process.callables:
            path = item.location.path if item.location else None
            line = item.location.line if item.location else None
            place = (process.rank, item.kind, item.name, path, line)
            callables[place, numbers[place]] = item
            numbers[place] += 1
    return callables


def steady(item: CompiledCallable) -> Steady | None:
    """None where every call was cold."""
    if not item.steady_ms:
        return None
    times = sorted(item.steady_ms)
    quarters = statistics.quantiles(times, n=4, method="inclusive") if len(times) > 1 else times * 3
    return Steady(statistics.median(times), quarters[2] - quarters[0], len(times))


def _compare(
    item: CompiledCallable, partner: CompiledCallable | None, rank: int | None, variant: Variant
) -> CallPayOff:
    ours, theirs = steady(item), steady(partner) if partner is not None else None
    outcome: Outcome = "unknown"
    ratio = cost = None
    break_even: int | None = None
    if ours is not None and theirs is not None and partner is not None:
        ratio = theirs.median_ms / ours.median_ms if ours.median_ms else None
        cost = max(0.0, _before_steady(item, ours) - _before_steady(partner, theirs))
        outcome = _outcome(ours, theirs)
        if outcome == "faster":
            break_even = math.ceil(cost / (theirs.median_ms - ours.median_ms))
    elif ours is not None:
        cost = _before_steady(item, ours)
    return CallPayOff(
        name=item.name,
        location=item.location,
        kind=item.kind,
        rank=rank,
        calls=item.calls,
        cold=len(item.cold_ms),
        outcome=outcome,
        measured_in=variant,
        compiled=ours,
        eager=theirs,
        first_ms=item.first_ms,
        cost_ms=cost,
        ratio=ratio,
        break_even=break_even,
    )


def _before_steady(item: CompiledCallable, steady: Steady) -> float:
    """Milliseconds beyond what the same calls would have taken had they been steady."""
    return item.setup_ms + sum(max(0.0, time - steady.median_ms) for time in item.cold_ms)


def notch_ms(*sides: Steady | None) -> float:
    """How far off a median is, or the difference of two, by how uneven the calls were."""
    known = [side for side in sides if side is not None]
    return NOTCH * math.hypot(*(side.iqr_ms / math.sqrt(side.count) for side in known))


def _outcome(ours: Steady, theirs: Steady) -> Outcome:
    if min(ours.count, theirs.count) < MINIMUM_CALLS:
        return "unknown"
    difference = theirs.median_ms - ours.median_ms
    if abs(difference) <= max(notch_ms(ours, theirs), RUN_TO_RUN * min(ours.median_ms, theirs.median_ms)):
        return "same"
    return "faster" if difference > 0 else "slower"


def _whole(callables: tuple[CallPayOff, ...], baseline: bool) -> PayOff:
    """The run over all callables that were measured both ways.

    One rank counts where there are several: they work side by side.
    """
    ranks = sorted({item.rank for item in callables if item.rank is not None})
    counted = [
        item
        for item in callables
        if item.compiled is not None and item.eager is not None and (not ranks or item.rank == ranks[0])
    ]
    if not counted:
        return PayOff(callables, "unknown", None, None, None, None, None, baseline)
    ours = sum(item.calls * item.compiled.median_ms for item in counted if item.compiled)
    theirs = sum(item.calls * item.eager.median_ms for item in counted if item.eager)
    cost = sum(item.cost_ms or 0.0 for item in counted)
    known = [item.outcome for item in counted if item.outcome != "unknown"]
    noise = math.hypot(
        *(
            item.calls * NOTCH * one.iqr_ms / math.sqrt(one.count)
            for item in counted
            for one in (item.compiled, item.eager)
            if one is not None
        )
    )
    outcome: Outcome = "unknown"
    if len(known) == len(counted):
        outcome = "same"
        if abs(theirs - ours) > max(noise, RUN_TO_RUN * min(ours, theirs)):
            outcome = "faster" if theirs > ours else "slower"
    return PayOff(
        callables=callables,
        outcome=outcome,
        compiled_ms=ours,
        eager_ms=theirs,
        ratio=theirs / ours if ours else None,
        cost_ms=cost,
        break_even_runs=cost / (theirs - ours) if outcome == "faster" else None,
        baseline=baseline,
    )
