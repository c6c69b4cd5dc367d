"""Steady calls: how long they take, how sure that is, and which of different sizes are to be told apart."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from inspector.model.calls import CallGroup, CompiledCallable, Outcome, Sizes, Steady

MINIMUM_CALLS = 3
"""Fewer steady calls than this say nothing about their spread."""

RUN_TO_RUN = 0.05
"""Two runs of one program differ by a few per cent of their medians without any cause in the code, which the
spread within a run does not show: a smaller difference is called the same."""
SAME = 2 * RUN_TO_RUN
"""Of the larger: times of one thing in two runs of different kinds (profiled, replayed, another variant) are
nearer than that, as each is off by what two runs differ by."""
LOOKS = 20
"""At a program: of fewer it is chance how often they found it at one line."""
MOST = 0.5
"""Of a time: what takes more of it than all else decides how long it is."""

NOTCH = 1.57
"""Half-width of a median's confidence interval in interquartile ranges over the root of n (McGill 1978)."""

ONCE = 4.0
"""Times what later calls with the same sizes take: what the first ones do more is done once for each size,
and no spread of calls."""
OTHERS: Sizes = ("other sizes",)


def steady(times: Sequence[float]) -> Steady | None:
    """None of no calls."""
    if not times:
        return None
    times = sorted(times)
    quarters = statistics.quantiles(times, n=4, method="inclusive") if len(times) > 1 else times * 3
    return Steady(statistics.median(times), quarters[2] - quarters[0], len(times))


def notch_ms(*sides: Steady | None) -> float:
    """How far off a median is, or the difference of two, by how uneven the calls were."""
    known = [side for side in sides if side is not None]
    return NOTCH * math.hypot(*(side.iqr_ms / math.sqrt(side.count) for side in known))


def outcome_of(ours: Steady, theirs: Steady | None) -> Outcome:
    """How compiled calls compare with those in eager."""
    if theirs is None or min(ours.count, theirs.count) < MINIMUM_CALLS:
        return "unknown"
    difference = theirs.median_ms - ours.median_ms
    if abs(difference) <= max(notch_ms(ours, theirs), RUN_TO_RUN * min(ours.median_ms, theirs.median_ms)):
        return "same"
    return "faster" if difference > 0 else "slower"


Compared = tuple[Outcome, float | None]
"""What a comparison says, and its ratio."""


def either(first: Compared, again: Compared) -> Outcome:
    """What two runs of the same comparison say together: nothing where they say different things, opposite
    ones or such that are further apart than two runs are."""
    (said, ratio), (then, ratio_then) = first, again
    if then in (said, "unknown") or not ratio or not ratio_then:
        return said
    if "same" not in (said, then):
        return "unknown"
    # Where uneven calls alone keep a run from telling a difference, it does not say that there is none.
    even = ratio if said == "same" else ratio_then
    told = abs(math.log(even)) <= SAME < abs(math.log(ratio_then / ratio))
    return "unknown" if told else said


def call_groups(item: CompiledCallable, partner: CompiledCallable | None = None) -> tuple[CallGroup, ...]:
    """The calls by sizes, as far as their times differ by more than noise on either side, shortest first; one
    group where none do. `partner` is the same callable in eager. Sizes with too few calls to have a spread
    are one group together."""
    ours = _by_sizes(item)
    theirs = _by_sizes(partner) if partner is not None else {}
    rare = [s for s in ours if min(len(ours[s]), len(theirs[s]) if s in theirs else math.inf) < MINIMUM_CALLS]
    pools: list[list[Sizes]] = []
    medians = {sizes: statistics.median(times) for sizes, times in ours.items()}
    for sizes in sorted(ours.keys() - set(rare), key=lambda sizes: (medians[sizes], sizes)):
        if pools and all(_alike(side, pools[-1][-1], sizes) for side in (ours, theirs)):
            pools[-1].append(sizes)
        else:
            pools.append([sizes])
    pools += [rare] if rare else []
    groups = []
    for pool in pools:
        rest = [sizes for other in pools if other is not pool for sizes in other]
        compiled, eager = (steady(_all(side, pool)) for side in (ours, theirs))
        assert compiled is not None
        said = OTHERS if pool is rare and len(pools) > 1 else _apart(pool[0], rest)
        groups.append(CallGroup(said, tuple(pool), compiled, eager, outcome_of(compiled, eager)))
    return tuple(groups)


def with_backward(item: CompiledCallable, back: CompiledCallable) -> CompiledCallable | None:
    """The steady calls of each size with the backward passes of that size, the first with the first; those
    of sizes that nothing goes back from as they are. None where not each has a pass of its own."""
    calls, passed = _by_sizes(item), _by_sizes(back)
    if not all(_as_many(calls.get(sizes, ()), times) for sizes, times in passed.items()):
        return None
    passes = {sizes: iter(times) for sizes, times in passed.items()}
    sums = []
    for place, (sizes, ms) in enumerate(zip(sizes_of_calls(item), item.steady_ms, strict=True)):
        behind = next(passes[sizes], None) if sizes in passes else 0.0
        if behind is not None:
            sums.append((place, ms + behind))
    known = item.steady_sizes if len(item.steady_sizes) == len(item.steady_ms) else ()
    return replace(
        item,
        steady_ms=tuple(ms for _, ms in sums),
        steady_sizes=tuple(known[place] for place, _ in sums) if known else (),
    )


def _as_many(calls: Sequence[float], passes: Sequence[float]) -> bool:
    """But for those that compiled."""
    return abs(len(calls) - len(passes)) <= SAME * max(len(calls), len(passes))


def typical(item: CompiledCallable) -> Steady | None:
    """A call of those that it makes: where sizes differ, what the mean of them takes."""
    groups = call_groups(item)
    return mixed([group.compiled for group in groups], [group.compiled.count for group in groups])


def mixed(sides: Sequence[Steady], counts: Sequence[int]) -> Steady | None:
    """The mean of medians, each as often as `counts` says; None of no calls."""
    whole = sum(counts)
    if not whole:
        return None
    if len(sides) == 1:
        return sides[0]
    shares = [count / whole for count in counts]
    mean = sum(share * side.median_ms for share, side in zip(shares, sides, strict=True))
    # So that the root of `whole` gives back the error of the mean.
    error = math.hypot(
        *(share * side.iqr_ms / math.sqrt(side.count) for share, side in zip(shares, sides, strict=True))
    )
    return Steady(mean, error * math.sqrt(whole), whole)


def sizes_of_calls(item: CompiledCallable) -> list[Sizes]:
    """Of each steady call, in order."""
    if len(item.steady_sizes) != len(item.steady_ms):
        return [()] * len(item.steady_ms)
    return [item.sizes[place] if place < len(item.sizes) else OTHERS for place in item.steady_sizes]


def first_and_later(item: CompiledCallable) -> list[tuple[float, float | None]]:
    """Of each of the sizes that steady calls had the time of the first with it and the median of later ones,
    None where none came; nothing where the recorder did not keep all calls with their sizes."""
    whole = len(item.steady_sizes) == len(item.steady_ms) == item.calls - len(item.cold_ms)
    if not whole or any(sizes[-1:] == OTHERS for sizes in sizes_of_calls(item)):
        return []
    times: dict[int, list[float]] = {}
    for place, ms in zip(item.steady_sizes, item.steady_ms, strict=True):
        times.setdefault(place, []).append(ms)
    return [(first, statistics.median(later) if later else None) for first, *later in times.values()]


def once_for_each(sizes: Sequence[tuple[float, float | None]]) -> bool:
    """Whether the first calls, as `first_and_later` has them, take so much longer than later ones."""
    ratios = [first / later for first, later in sizes if later]
    return len(ratios) >= MINIMUM_CALLS and statistics.median(ratios) > ONCE


def _by_sizes(item: CompiledCallable) -> dict[Sizes, list[float]]:
    times: dict[Sizes, list[float]] = {}
    for sizes, ms in zip(sizes_of_calls(item), item.steady_ms, strict=True):
        times.setdefault(sizes, []).append(ms)
    return times


def _all(side: Mapping[Sizes, Sequence[float]], pool: Sequence[Sizes]) -> list[float]:
    return [ms for sizes in pool for ms in side.get(sizes, ())]


def _alike(side: Mapping[Sizes, Sequence[float]], first: Sizes, second: Sizes) -> bool:
    """Whether calls of both sizes take the same time, as far as that side has both."""
    one, other = (steady(side.get(sizes, ())) for sizes in (first, second))
    return one is None or other is None or outcome_of(one, other) == "same"


def _apart(sizes: Sizes, others: Sequence[Sizes]) -> Sizes:
    """What of the sizes any other ones do not have in its place."""
    if not others:
        return ()
    return tuple(
        part
        for place, part in enumerate(sizes)
        if any(place >= len(other) or other[place] != part for other in others)
    )
