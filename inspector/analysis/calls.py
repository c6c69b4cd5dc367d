"""Does compiling pay: the user's calls compiled and in eager, and after how many calls it is won back."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from inspector.frozen import dataclass
from inspector.model.calls import (
    CallGroup,
    CompiledCallable,
    Outcome,
    ProcessCalls,
    Steady,
    Variant,
    VariantRun,
)
from inspector.model.source import SourceLocation

from .steady import MINIMUM_CALLS, NOTCH, RUN_TO_RUN, call_groups, either, mixed, outcome_of, typical


@dataclass(frozen=True, slots=True)
class CallPayOff:
    """One callable in both ways. `ratio` is eager's time over compiled's: above 1, compiled is faster.

    `cost_ms` is what compiling adds before its calls are steady: ``torch.compile`` itself and the cold calls
    beyond a steady one's time, less the same of the eager run, whose first calls are slow too.
    `break_even` is the number of calls after which that is won back, 0 where there is nothing to win back,
    None where compiled is not faster. What was not measured is None. `measured_in` is the run that
    `compiled` comes from: `captured` has debug output on. Where sizes differ, both are of the mean call.
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
    groups: tuple[CallGroup, ...] = ()
    """Calls of different sizes; one group where their times do not differ."""


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
    again: float | None = None
    """`ratio` of the runs that were profiled, over their other calls, where it says something else, 1.0 where
    that is "as fast": the outcome is unknown then."""
    both_eager: bool = False
    """Whether nothing was compiled and the two runs differ all the same, by what else the machine did."""


_ENOUGH = 13
"""Steady calls, more than half of them without a profiler: capture/profiles.py has up to six with one."""


def run_again(variants: Iterable[VariantRun]) -> tuple[VariantRun, ...]:
    """The baseline's runs once more, from those in which a few calls were profiled; empty where these made
    too few calls to tell what one takes without."""
    again = tuple(replace(run, processes=run.profiled) for run in variants if run.profiled)
    counts = [
        len(item.steady_ms)
        for run in again
        for process in run.processes
        for item in process.callables
        if item.calls
    ]
    return again if min(counts, default=0) >= _ENOUGH else ()


def compiled_more(variants: Iterable[VariantRun]) -> tuple[tuple[str, int, int], ...]:
    """(callable, calls in which it was compiled, and in which it was in the run that was profiled) of those
    that were compiled surely more often there: torch's caches are full then, and what it takes from them may
    be for fewer calls than what it compiles."""
    compiled = next((run for run in variants if run.variant == "compiled"), None)
    if compiled is None:
        return ()
    first = _by_identity(compiled.processes)
    counted = [
        (again.name, len(first[identity].cold_index), len(again.cold_index))
        for identity, again in _by_identity(compiled.profiled).items()
        if identity in first
    ]
    return tuple(item for item in counted if item[1] and item[2] >= max(2 * item[1], item[1] + MINIMUM_CALLS))


def pay_off(variants: Sequence[VariantRun], nothing_compiled: bool = False) -> PayOff:
    """What compiling cost and gained. Prefers the compiled run of a baseline to the captured one. Where
    `nothing_compiled`, a difference is none of compiled code. Where the same runs say something else when
    they are made again, to be profiled, neither is said."""
    first = _compared_once(variants, nothing_compiled)
    second = _compared_once(run_again(variants), nothing_compiled)
    if either((first.outcome, first.ratio), (second.outcome, second.ratio)) == first.outcome:
        return first
    callables = tuple(replace(item, outcome="unknown", break_even=None) for item in first.callables)
    again = 1.0 if second.outcome == "same" else second.ratio
    return replace(first, callables=callables, outcome="unknown", break_even_runs=None, again=again)


def _compared_once(variants: Iterable[VariantRun], nothing_compiled: bool) -> PayOff:
    runs = {run.variant: run for run in variants}
    compiled, eager = runs.get("compiled") or runs.get("captured"), runs.get("eager")
    if compiled is None:
        return PayOff((), "unknown", None, None, None, None, None, eager is not None)
    partners = _by_identity(eager.processes) if eager is not None else {}
    compared: list[CallPayOff] = []
    for identity, item in _by_identity(compiled.processes).items():
        if item.calls:
            compared.append(_compare(item, partners.get(identity), identity[0][0], compiled.variant))
    whole = _whole(tuple(compared), eager is not None)
    if not nothing_compiled or whole.outcome not in ("faster", "slower"):
        return whole
    untold = (replace(item, outcome="unknown", ratio=None, break_even=None) for item in compared)
    return replace(
        whole, callables=tuple(untold), outcome="unknown", ratio=None, break_even_runs=None, both_eager=True
    )


# /tmp/ipykernel_4711/630323241.py: a cell, and the process that ran it (ipykernel/compiler.py)
_NOTEBOOK = re.compile(r"(?<=[/\\]ipykernel)_\d+(?=[/\\])")

_Place = tuple[int | None, str, str, str | None, int | None]


def _by_identity(processes: Sequence[ProcessCalls]) -> dict[tuple[_Place, int], CompiledCallable]:
    """By rank, kind, name and place, and the number among those that share all of these."""
    callables: dict[tuple[_Place, int], CompiledCallable] = {}
    numbers: Counter[_Place] = Counter()
    for process in processes:
        for item in process.callables:
            path = _NOTEBOOK.sub("", item.location.path) if item.location else None
            line = item.location.line if item.location else None
            place = (process.rank, item.kind, item.name, path, line)
            callables[place, numbers[place]] = item
            numbers[place] += 1
    return callables


def _compare(
    item: CompiledCallable, partner: CompiledCallable | None, rank: int | None, variant: Variant
) -> CallPayOff:
    groups = call_groups(item, partner)
    counts = [group.compiled.count for group in groups]
    ours = mixed([group.compiled for group in groups], counts)
    both = [group.eager for group in groups if group.eager is not None]
    # As many of each size as the compiled run has.
    theirs = mixed(both, counts) if len(both) == len(groups) else None
    if theirs is None and partner is not None:
        theirs = typical(partner)
    outcome: Outcome = "unknown"
    ratio = cost = None
    break_even: int | None = None
    if ours is not None and theirs is not None and partner is not None:
        ratio = theirs.median_ms / ours.median_ms if ours.median_ms else None
        cost = max(0.0, _before_steady(item, ours) - _before_steady(partner, theirs))
        outcome = outcome_of(ours, theirs)
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
        groups=groups,
    )


def _before_steady(item: CompiledCallable, steady: Steady) -> float:
    """Milliseconds beyond what the same calls would have taken had they been steady."""
    return item.setup_ms + sum(max(0.0, time - steady.median_ms) for time in item.cold_ms)


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
    # What those may take that were called too seldom to tell, either way.
    unsure = sum(
        item.calls * max(item.compiled.median_ms, item.eager.median_ms)
        for item in counted
        if item.outcome == "unknown" and item.compiled and item.eager
    )
    noise = math.hypot(
        *(
            item.calls * NOTCH * one.iqr_ms / math.sqrt(one.count)
            for item in counted
            for one in (item.compiled, item.eager)
            if one is not None
        )
    )
    # What is noise of every function is noise of all together.
    told = any(item.outcome != "same" for item in counted)
    least = RUN_TO_RUN * min(ours, theirs)
    outcome: Outcome = "unknown" if unsure > least else "same"
    if told and abs(theirs - ours) > max(noise, least) + unsure:
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
