"""Profiles of a capture: the command once more compiled and once in eager, a few steady calls profiled.

Each is a run of its own, so that the times of calls stay those of runs without a profiler. Which calls are
steady is known from the baseline's compiled run; the recorder starts torch.profiler there.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

from inspector.analysis.phases import (
    Meant,
    Phase,
    main_calls,
    main_phase,
    most_called,
    of_meant,
    phases_of_calls,
)
from inspector.analysis.steady import (
    RUN_TO_RUN,
    call_groups,
    first_and_later,
    once_for_each,
    sizes_of_calls,
    typical,
)
from inspector.capture.child import run_apart
from inspector.capture.progress import Display
from inspector.frozen import dataclass
from inspector.model.calls import BASELINE_VARIANTS, CompiledCallable, ProcessCalls, Variant
from inspector.readers.anew import made_anew
from inspector.readers.variants import read_records

FOLDER = "profile"
SAID = {"compiled": "compiled, profiled", "eager": "in eager, profiled"}
_MOST_CALLS = 5
_USUAL = 0.25
"""Of the median call: what five calls are off by without a cause, where others use the machine too."""
_LONGEST_ROUND, _OF_SHORT_CALLS = 16, 64
"""Calls of one round of the program's loop that are profiled as a whole: steps of an episode are many, and
short."""
_SHORT_MS = 10.0
"""Sixty-four of them are some hundred thousand events of a CPU's at most."""
_SETTLE = 16
"""Steady calls before the first profiled one, at most half of those that are not needed: on a CPU the first
ten took up to three times as long as later ones, in memory that was new to the program."""
_WARM_UP = 6
"""Steady calls with the profiler ready, right before those that are kept: to start it takes a while, and for
up to four calls behind that two threads shared a core, where a kernel of 0.6 ms took up to 1.3."""


@dataclass(frozen=True, slots=True)
class ProfilePlan:
    """Which calls are profiled, as the recorder takes it; see recorder/profiling.py: Profiling."""

    order: int
    first: int
    calls: int
    warm_up: int = 1


def plan_profile(run: Path) -> tuple[ProfilePlan | None, str]:
    """By the calls of the baseline's compiled run: those of the callable that is called most, where most of
    them follow each other and none compiles. None, with a note for the user, where no two do."""
    records = read_records(run / "baseline" / "compiled", str, as_recorded=True)
    calls = [record.calls for record in records if record.calls is not None]
    counted = _counted([process for process in calls if (process.rank or 0) == 0])
    called = [item for item in counted if item.kind == "call"]
    main = most_called(called)
    if main is None:
        return None, ""
    phase = main_phase(counted)
    if phase is not None:
        only = of_meant(counted, Meant(phase))
        kept = [item for item in only if item.order == main.order and item.kind == "call"]
        # Calls of the other kind lie between these: their rounds have other lengths.
        plan = plan_calls(main, _round(kept[0], only), phase)
        if plan is not None:
            return replace(plan, warm_up=_warm_up(plan, _steady(main, phase)[0])), ""
    # Several calls before each backward are a round too, if what is called without it does not spoil that.
    plan = plan_calls(main, max(_round(main, called), _round(main, counted)))
    if plan is None:
        return None, "nothing was profiled: the program makes no two steady calls of compiled code"
    return replace(plan, warm_up=_warm_up(plan, _steady(main)[0])), ""


def _counted(processes: Sequence[ProcessCalls]) -> list[CompiledCallable]:
    """The callables that are called while those are that most time passes in."""
    called = [item for process in processes for item in process.callables if item.calls]
    # What is compiled anew for each part of the work is one callable among the others.
    as_one = [made_anew(process) for process in processes]
    meant = main_calls(as_one)
    if not meant.callables:
        return called
    kept = [item.span for process in as_one for item in of_meant(process.callables, meant) if item.span]
    first, last = min(one for one, _ in kept), max(other for _, other in kept)
    return [item for item in called if item.span and first <= item.span[0] and item.span[1] <= last]


def _warm_up(plan: ProfilePlan, steady: int) -> int:
    return max(1, min(_WARM_UP, plan.first + 1 - steady))


def kernel_profile(run: Path) -> dict[str, str]:
    """Inductor's C++ kernels are operators of their own then (torch/_inductor/config.py: cpp). Nothing where
    a run's generated code has none: as it counts in torch's cache keys, each graph is compiled anew."""
    # Both ways to write one: torch/_inductor/codegen/cpp.py: define_kernel.
    marks = (b"async_compile.cpp", b'extern "C"')
    generated = [path.read_bytes() for path in run.rglob("output_code.py") if path.is_file()]
    without = generated and not any(mark in text for text in generated for mark in marks)
    return {} if without else {"TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE": "1"}


def _round(main: CompiledCallable, called: Sequence[CompiledCallable]) -> int:
    """Calls of `main` in one round of the program's loop, by how often it calls each: a critic eleven times
    where a generator is called six times. 1 where counts have nothing in common, or a round is too long."""
    rounds = math.gcd(*(item.calls for item in called))
    calls = main.calls // rounds if rounds > 1 else _nearly(main, called)
    short = bool(main.steady_ms) and statistics.median(main.steady_ms) <= _SHORT_MS
    longest = _OF_SHORT_CALLS if short else _LONGEST_ROUND
    return calls if calls <= longest else 1


def _nearly(main: CompiledCallable, called: Sequence[CompiledCallable]) -> int:
    """The same where a few calls of `main` are of no round: a cipher's self-test before its records. 1 where
    others are called otherwise often."""
    others = [item.calls for item in called if item is not main]
    times = [round(main.calls / calls) for calls in others]
    beside = [abs(main.calls - each * calls) for each, calls in zip(times, others, strict=True)]
    most = max(times, default=1)
    fits = all(left <= RUN_TO_RUN * main.calls for left in beside)
    return most if fits and all(most % each == 0 for each in times) else 1


def _steady(main: CompiledCallable, phase: Phase | None = None) -> tuple[int, int]:
    """Most calls in a row of which none compiled, the later ones of as many: an evaluation behind a training
    compiles once more. With a phase none is of the other. The first of them, and the one behind the last."""
    ends = {-1, *main.cold_index, main.calls}
    if phase is not None:
        steady = [index for index in range(main.calls) if index not in ends]
        phases = phases_of_calls(main)
        # Of a long run the newest ones are known.
        ends |= {index for index, own in zip(steady[-len(phases) :], phases, strict=False) if own != phase}
        ends |= set(steady[: -len(phases)])
    return max(
        ((one + 1, other) for one, other in pairwise(sorted(ends))), key=lambda row: (row[1] - row[0], row)
    )


def _between(main: CompiledCallable, first: int, end: int) -> CompiledCallable:
    """As if it had been called no more from `end` on, and steady calls before `first` were not known."""
    cold = sum(index < end for index in main.cold_index)
    later = main.calls - end - (len(main.cold_index) - cold)
    # Of a long run the newest ones are known, which may all be later ones.
    keep = max(len(main.steady_ms) - later, 0)
    known = slice(max(keep - (end - first), 0), keep)
    return replace(
        main,
        calls=end,
        cold_ms=main.cold_ms[:cold],
        cold_index=main.cold_index[:cold],
        steady_ms=main.steady_ms[known],
        steady_sizes=main.steady_sizes[known],
        steady_faults=main.steady_faults[known],
    )


def plan_calls(
    main: CompiledCallable, round_calls: int = 1, phase: Phase | None = None
) -> ProfilePlan | None:
    """Among most calls in a row of which none compiled, with a phase those of it, whole rounds of
    `round_calls` where there are as many; None where these are no two."""
    steady, end = _steady(main, phase)
    left = end - steady
    if left < 2:
        return None
    main = _between(main, steady if phase is not None else 0, end)
    # One call warms the profiler up, and the beginning of another one ends the profile, where there is one.
    calls = max(1, min(_MOST_CALLS, left - 2))
    if round_calls <= left - 2:
        calls = max(calls // round_calls, 1) * round_calls
    settle = min(_SETTLE, max(left - calls - 2, 0) // 2)
    first = steady + settle
    if calls % round_calls == 0:
        # Behind the warm-up a round begins, as the program's first call begins one.
        later = first + -(first + 1) % round_calls
        starts = (later, later - round_calls)
        first = next((at for at in starts if steady <= at <= main.calls - calls - 2), first)
    plan = _like_usual(main, ProfilePlan(main.order, first, calls), round_calls)
    # Of a whole round no other number of calls is like all.
    return _known_sizes(main, plan) or _like_all(main, plan, calls if round_calls > 1 else 2)


def _like_usual(main: CompiledCallable, plan: ProfilePlan, step: int) -> ProfilePlan:
    """Where calls of the same sizes take another time in the middle of a run than at its beginning, as a
    simulation's do: the first ones in a row that take what calls usually take, every `step` calls."""
    times = main.steady_ms
    # Of a long run the newest ones are known.
    known = main.calls - len(times)
    first = max(plan.first, known + (plan.first - known) % step)
    starts = range(first, main.calls - plan.calls - 1, step)
    if len(set(main.steady_sizes)) > 1 or not starts:
        return plan
    usual = statistics.median(times)

    def off(first: int) -> float:
        return abs(statistics.median(times[first - known :][: plan.calls]) - usual)

    near = (first for first in starts if off(first) <= _USUAL * usual)
    return replace(plan, first=next(near, min(starts, key=off)))


def _known_sizes(main: CompiledCallable, plan: ProfilePlan) -> ProfilePlan | None:
    """Where calls of new sizes take several times as long as later ones with the same, the first in a row
    that are none of these; None elsewhere, and where there are not so many in a row."""
    if not once_for_each(first_and_later(main)):
        return None
    cold, seen = set(main.cold_index), set[int]()
    steady = [index for index in range(main.calls) if index not in cold]
    known: list[bool] = []
    for place in main.steady_sizes:
        known.append(place in seen)
        seen.add(place)
    # One more warms the profiler up, and one ends the profile.
    for at in range(len(known) - plan.calls - 1):
        first, whole = steady[at], range(at, at + plan.calls + 2)
        if first >= plan.first and all(known[i] and steady[i] == first + i - at for i in whole):
            return replace(plan, first=first)
    return None


def _like_all(main: CompiledCallable, plan: ProfilePlan, least: int) -> ProfilePlan:
    """Where calls are of several sizes, the first ones in a row, no more of them and at `least` so many, that
    are what the mean call is: what a profile shows is compared with the mean of all."""
    groups = call_groups(main)
    whole = typical(main)
    medians = {sizes: group.compiled.median_ms for group in groups for sizes in group.alike}
    # The newest steady calls that were kept, without those between cold ones.
    times = [medians[sizes] for sizes in sizes_of_calls(main)][-(main.calls - plan.first) :]
    first = main.calls - len(times)
    if len(groups) < 2 or whole is None or len(times) < plan.calls + 2:
        return plan
    windows = [
        (start, calls)
        for calls in range(plan.calls, min(least, plan.calls) - 1, -1)
        for start in range(len(times) - calls - 1)
    ]

    def off(window: tuple[int, int]) -> float:
        kept = times[window[0] + 1 :][: window[1]]
        return round(abs(statistics.fmean(kept) - whole.median_ms), 6)

    start, calls = min(windows, key=off)
    return ProfilePlan(plan.order, first + start, calls)


def run_profiles(
    argv: Sequence[str],
    run: Path,
    screen: Display,
    environments: Mapping[Variant, Mapping[str, str]],
    order: int,
    *,
    live: bool,
) -> tuple[dict[str, dict[str, object]], tuple[str, ...], bool]:
    """Run `argv` in both ways, with `environments` by variant as `profiled_environment` made them and calls
    of the callable `order` that are profiled.

    Gives the manifest's entries by variant, notes for the user, and whether it was interrupted.
    """
    ran: dict[str, dict[str, object]] = {}
    notes: list[str] = []
    for variant in BASELINE_VARIANTS:
        if variant not in environments:
            continue
        folder = run / FOLDER / variant
        screen.say(f"inspector: running the command again {SAID[variant]}")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            result = run_apart(argv, environments[variant], folder, screen, SAID[variant], live=live)
        except OSError as error:
            notes.append(f"the {variant} run could not be profiled: {error.strerror or error}")
            continue
        trace = run / FOLDER / f"{variant}.json.gz"
        ran[variant] = {
            "exit_code": result.exit_code,
            "seconds": round(result.seconds, 3),
            "bytes": trace.stat().st_size if trace.is_file() else None,
            "order": order,
        }
        if result.interrupted:
            notes.append(f"the profile was interrupted in its {variant} run")
            return ran, tuple(notes), True
        if not trace.is_file():
            notes.append(f"no profile of the {variant} run: see {FOLDER}/{variant}/recorder.log")
    return ran, tuple(notes), False


def profile_request(run: Path, variant: str, plan: ProfilePlan) -> dict[str, object]:
    """What the recorder is asked for."""
    return {"file": os.path.abspath(run / FOLDER / f"{variant}.json.gz"), **asdict(plan)}
