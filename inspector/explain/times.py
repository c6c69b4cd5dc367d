"""Times of calls, as the recorder and a baseline have them, brought to one steady call of the program."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from inspector.analysis.calls import CallPayOff, PayOff, pay_off, run_again
from inspector.analysis.phases import Meant, counts_phases, in_meant, main_calls, most_called, of_meant
from inspector.analysis.steady import (
    MOST,
    SAME,
    call_groups,
    first_and_later,
    mixed,
    notch_ms,
    once_for_each,
    sizes_of_calls,
    typical,
    with_backward,
)
from inspector.frozen import dataclass
from inspector.model.calls import (
    CallGroup,
    CompiledCallable,
    Event,
    GraphRuns,
    Outcome,
    ProcessCalls,
    Steady,
    SteadySpan,
    VariantRun,
)

if TYPE_CHECKING:
    from inspector.model.run import Manifest
    from inspector.readers.run import Run

NEWEST = 200
"""So many of the last calls are compared with the graphs that ran in them (the recorder keeps 300 runs)."""
LEAST_PAIRED = 4
"""Calls, so that a half of them is more than one."""


@dataclass(frozen=True, slots=True)
class NewSizes:
    """Steady calls whose sizes no earlier one had: so many `calls` of `of`. Of those whose sizes came again
    what one took and what later ones with the same take, medians, and what all took `beyond_ms` that; `slow`:
    so much that something is done once for each."""

    calls: int
    of: int
    ms: float = 0.0
    again_ms: float = 0.0
    beyond_ms: float = 0.0
    slow: bool = False

    @property
    def most(self) -> bool:
        """Whether few sizes come again."""
        return self.calls >= MOST * self.of


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds per steady call, from the recorder; all None where no calls were recorded.

    A call is one pass over all compiled callables, as often as the most called one. `source` says which
    run of the command gave `compiled_ms`. `cold_ms` is what the calls that compiled took beyond a steady
    one, `recompile_ms` the part of it after each callable's first call; `calls` counts all calls.
    """

    compiled_ms: float | None = None
    eager_ms: float | None = None
    source: str = ""
    calls: int = 0
    steady_calls: int = 0
    cold_ms: float | None = None
    recompile_ms: float = 0.0
    recompiling: bool = False
    """Whether it went on compiling again in the second half of its calls: a steady call is none then."""
    outcome: Outcome = "unknown"
    """How compiled compares with eager beyond noise, by `inspector.analysis.calls`."""
    again: float | None = None
    """The ratio of the same runs made again, where it says something else and the outcome is unknown."""
    notch_ms: float = 0.0
    """How far off the median of the most important callable may be, by how uneven its calls were."""
    grad: bool | None = None
    training: bool | None = None
    callables: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    by_sizes: CallPayOff | None = None
    """The callable whose calls of different sizes take different times; None where all are alike."""
    compiled: Steady | None = None
    """`compiled_ms` with its spread."""
    eager: Steady | None = None
    new_sizes: NewSizes | None = None
    """Of the callable that takes longest; None where it is not known which calls had sizes of their own."""
    faults: float | None = None
    """Page faults of a compiled call; None where nobody counted."""
    eager_faults: float | None = None
    captured_faults: float | None = None
    """Of the captured run, the same program: how many there are depends on what lies where in the heap."""
    span: SteadySpan | None = None
    """Of the process with most in its calls; None where nobody looked."""
    meant: Meant = Meant()
    """Which calls these are of, where a program's are of several kinds."""
    only: tuple[str, ...] = ()
    """Names of the callables whose calls these are, where others are called before or after them alone."""

    @property
    def losing(self) -> tuple[CallGroup, ...]:
        """Calls of sizes that are slower than in eager where others are not, those that lose most first."""
        groups = self.by_sizes.groups if self.by_sizes is not None else ()
        slower = [group for group in groups if group.outcome == "slower"]
        return tuple(sorted(slower, key=lambda group: -group.lost_ms)) if len(slower) < len(groups) else ()

    @property
    def sized(self) -> tuple[CallGroup, ...]:
        """Calls of different sizes; none where they are but a part of what a call is here, as without their
        backward passes."""
        groups = self.by_sizes.groups if self.by_sizes is not None else ()
        phase = self.meant.phase
        own = [group.compiled for group in groups if phase is None or phase in (group.alike[0] or (phase,))]
        mean = mixed(own, [side.count for side in own])
        if mean is None or self.compiled_ms is None:
            return groups
        return groups if abs(mean.median_ms - self.compiled_ms) <= SAME * self.compiled_ms else ()

    @property
    def ratio(self) -> float | None:
        """Eager over compiled: above 1 compiling is faster."""
        if self.compiled_ms is None or self.eager_ms is None or not self.compiled_ms:
            return None
        return self.eager_ms / self.compiled_ms


def recorded_calls(run: Run) -> tuple[ProcessCalls, ...]:
    return tuple(record.calls for record in run.records if record.calls is not None)


def all_events(processes: Iterable[ProcessCalls]) -> tuple[Event, ...]:
    return tuple(event for calls in processes for event in calls.events)


def all_counters(processes: Iterable[ProcessCalls]) -> dict[str, int]:
    counters: dict[str, int] = {}
    for calls in processes:
        for name, value in calls.counters:
            counters[name] = counters.get(name, 0) + value
    return counters


def measured_times(run: Run, nothing_compiled: bool = False) -> Times:
    """Times of the first rank, from the run without debug output where there is one. What compiling cost, and
    which calls are compared, is as `inspector.analysis.calls.pay_off` has it."""
    variants = {variant.variant: variant.processes for variant in run.variants}
    captured = variants.get("captured") or recorded_calls(run)
    compiled = variants.get("compiled") or ()
    chosen, source = (compiled, "compiled run") if _has_steady(compiled) else (captured, "captured run")
    every = _called(chosen)
    if not every:
        return Times()
    paid = pay_off(run.variants, nothing_compiled)
    meant = main_calls(first_rank(chosen), _profiled(run.manifest, every))
    if not counts_phases(captured):
        meant = replace(meant, phase=None)
    between = Meant(callables=meant.callables)
    of_them, of_call = (
        paid if calls == Meant() else pay_off(_in_meant(run.variants, calls), nothing_compiled)
        for calls in (between, meant)
    )
    called, both = of_meant(every, meant), of_meant(every, between)
    in_eager = _called(variants.get("eager") or ())
    eager = of_meant(in_eager, meant) if not paid.both_eager else []
    ours, theirs = _compared(of_call, source) or (_one_call(called), _one_call(eager))
    main = max(both, key=lambda item: item.total_ms)
    cold, again = _cold(every)
    if paid.cost_ms is not None and paid.callables[0].measured_in == source.split()[0]:
        cold = paid.cost_ms
    return Times(
        compiled_ms=ours.median_ms if ours is not None else None,
        eager_ms=theirs.median_ms if theirs is not None else None,
        compiled=ours,
        eager=theirs,
        faults=_faults(called),
        eager_faults=_faults(eager),
        captured_faults=_faults(of_meant(_called(captured), meant)),
        source=source,
        span=_span(chosen) if _are_last(both, every) else None,
        calls=_passes(both),
        steady_calls=len(main.steady_ms),
        cold_ms=cold,
        recompile_ms=min(again, cold),
        recompiling=any(_keeps_compiling(item) for item in every),
        outcome=of_call.outcome,
        again=of_call.again,
        notch_ms=notch_ms(typical(max(called, key=lambda item: item.total_ms))),
        by_sizes=_by_sizes(of_them.callables, both, of_meant(in_eager, between)),
        new_sizes=_new_sizes(main),
        grad=main.grad,
        training=main.training,
        callables=tuple(dict.fromkeys(item.name for item in every)),
        backends=tuple(dict.fromkeys(item.backend for item in every if item.backend)),
        meant=meant,
        only=tuple(dict.fromkeys(item.name for item in called if item.kind == "call"))
        if between.callables
        else (),
    )


def _profiled(manifest: Manifest | None, every: Iterable[CompiledCallable]) -> int | None:
    """The number of the callable of which calls were profiled, the one with most where nobody noted it; None
    where none were."""
    entry = manifest.baseline.get("compiled") if manifest is not None else None
    profile = entry.get("profile") if isinstance(entry, Mapping) else None
    if not isinstance(profile, Mapping):
        return None
    order = profile.get("order")
    if isinstance(order, int):
        return order
    most = most_called(every)
    return most.order if most is not None else None


def _in_meant(variants: Sequence[VariantRun], meant: Meant) -> tuple[VariantRun, ...]:
    return tuple(
        replace(run, processes=in_meant(run.processes, meant), profiled=in_meant(run.profiled, meant))
        for run in variants
    )


def _are_last(called: Iterable[CompiledCallable], every: Iterable[CompiledCallable]) -> bool:
    """Whether no other is called after the last call of these."""
    ends, end = ([item.span[1] for item in items if item.span is not None] for items in (called, every))
    return max(ends, default=0) >= max(end, default=0)


def _span(processes: Sequence[ProcessCalls]) -> SteadySpan | None:
    spans = [item.steady_span for item in processes if not item.rank and item.steady_span is not None]
    return max(spans, key=lambda span: span.inside_ms, default=None)


def _new_sizes(item: CompiledCallable) -> NewSizes | None:
    sizes = first_and_later(item)
    if not sizes:
        return None
    again = [(first, later) for first, later in sizes if later is not None]
    if not again:
        return NewSizes(len(sizes), len(item.steady_ms))
    first, later = (statistics.median(side) for side in zip(*again, strict=True))
    beyond = sum(max(ms - usual, 0.0) for ms, usual in again)
    return NewSizes(len(sizes), len(item.steady_ms), first, later, beyond, once_for_each(sizes))


def _by_sizes(
    callables: Sequence[CallPayOff], ours: Sequence[CompiledCallable], theirs: Sequence[CompiledCallable]
) -> CallPayOff | None:
    """Of the first rank; where several callables have calls of different sizes, that which takes longest.
    What alone has a backward pass is with it."""
    first = [item for item in callables if not item.rank]
    pairs = [_pair(side) for side in (ours, theirs) if side]
    sums = [with_backward(*pair) if pair is not None else None for pair in pairs]
    if len(first) == 2 and None not in sums:
        groups = call_groups(*(item for item in sums if item is not None))
        first = [replace(item, groups=groups) for item in first if item.kind == "call"]
    several = [item for item in first if len(item.groups) > 1]

    def whole(item: CallPayOff) -> float:
        return sum(group.compiled.median_ms * group.compiled.count for group in item.groups)

    return max(several, key=whole, default=None)


def _pair(called: Sequence[CompiledCallable]) -> tuple[CompiledCallable, CompiledCallable] | None:
    """The one callable and its backward pass; None where there are others."""
    calls, passes = ([item for item in called if item.kind == kind] for kind in ("call", "backward"))
    return (calls[0], passes[0]) if len(calls) == len(passes) == 1 else None


_ENDED = 4
"""Times as many calls since the last that compiled as from the first such to it."""


def _keeps_compiling(item: CompiledCallable) -> bool:
    """Whether the second half of its calls compiled more than once, and not in a row that came to its end
    long before the last call: that is a change of what the program does, as the first evaluation or the end
    of an epoch."""
    late = [index for index in item.cold_index[1:] if index >= item.calls / 2]
    return len(late) > 1 and item.calls - 1 - late[-1] < _ENDED * (late[-1] - late[0])


def first_rank(processes: Sequence[ProcessCalls]) -> list[ProcessCalls]:
    ranks = sorted({calls.rank or 0 for calls in processes})
    return [calls for calls in processes if (calls.rank or 0) == (ranks[0] if ranks else 0)]


def _has_steady(processes: Sequence[ProcessCalls]) -> bool:
    return any(item.steady_ms for calls in processes for item in calls.callables)


def steady_call_ms(processes: Sequence[ProcessCalls]) -> float | None:
    """One pass over all callables of the first rank; None without steady calls."""
    return _per_call(of_meant(_called(processes), main_calls(first_rank(processes))))


def call_again(run: Run, meant: Meant) -> Steady | None:
    """The same call, of those meant, in the run that was profiled, where most of its calls were not; None
    where that can't be told."""
    again = {variant.variant: variant.processes for variant in run_again(run.variants)}
    return _one_call(of_meant(_called(again.get("compiled", ())), meant))


def _called(processes: Sequence[ProcessCalls]) -> list[CompiledCallable]:
    """Of the first rank, those that were called."""
    return [item for calls in first_rank(processes) for item in calls.callables if item.calls]


def _per_call(called: Sequence[CompiledCallable]) -> float | None:
    """Milliseconds of `_one_call`."""
    call = _one_call(called)
    return call.median_ms if call is not None else None


def _one_call(called: Sequence[CompiledCallable]) -> Steady | None:
    """One pass over all callables, each as often as it is called for one call of the most called: medians, of
    calls of several sizes their mean. None without steady calls."""
    most = _passes(called)
    calls = [(item.calls, call) for item in called if (call := typical(item)) is not None]
    return _passed(calls, most) if calls else None


def _compared(paid: PayOff, source: str) -> tuple[Steady, Steady] | None:
    """One pass on both sides as they are compared: sizes in groups by what either takes, as often as compiled
    has them. None unless all of the first rank were timed on both."""
    first = min((item.rank or 0 for item in paid.callables), default=0)
    items = [item for item in paid.callables if (item.rank or 0) == first]
    pairs = [
        (item.calls, item.compiled, item.eager)
        for item in items
        if item.compiled is not None and item.eager is not None and item.measured_in == source.split()[0]
    ]
    if not pairs or len(pairs) < len(items) or paid.both_eager:
        return None
    most = _passes(items)
    ours, theirs = (
        _passed([(calls, (compiled, eager)[side]) for calls, compiled, eager in pairs], most)
        for side in (0, 1)
    )
    return ours, theirs


def _passes(called: Iterable[CompiledCallable | CallPayOff]) -> int:
    """How often that is called which is called most. Backward passes are known together: several losses
    have each their own in one pass."""
    often = [(item.kind == "call", item.calls) for item in called]
    return max(often, default=(True, 0))[1]


def _passed(sides: Sequence[tuple[int, Steady]], most: int) -> Steady:
    """The sum of calls' times, each as often as it is called for one call of the `most` called."""
    total = sum(side.median_ms * calls / most for calls, side in sides)
    spread = math.hypot(*(side.iqr_ms * calls / most for calls, side in sides))
    return Steady(total, spread, max(side.count for _, side in sides))


def _faults(called: Sequence[CompiledCallable]) -> float | None:
    """Page faults of one pass, of each callable the median; None where nobody counted them."""
    steady = [item for item in called if item.steady_ms]
    if not steady or any(len(item.steady_faults) != len(item.steady_ms) for item in steady):
        return None
    most = _passes(called)
    return sum(statistics.median(item.steady_faults) * item.calls / most for item in steady)


def _cold(called: Sequence[CompiledCallable]) -> tuple[float, float]:
    """(all cold time beyond steady calls, the part after each first call)."""
    cold = again = 0.0
    for item in called:
        call = typical(item)
        steady = call.median_ms if call is not None else 0.0
        cold += item.setup_ms
        for place, (index, ms) in enumerate(zip(item.cold_index, item.cold_ms, strict=False)):
            extra = max(ms - steady, 0.0)
            cold += extra
            if index > 0 and place > 0:
                again += extra
    return cold, again


@dataclass(frozen=True, slots=True)
class GraphTimes:
    """`of` maps (process folder, graph) to (runs in one call, milliseconds of one run). `wall_ms` is one pass
    over the same calls that the runs were in; None where nothing was timed."""

    of: Mapping[tuple[str, str], tuple[float, float]]
    wall_ms: float | None


def graph_times(processes: Sequence[ProcessCalls]) -> GraphTimes:
    """Of the captured run, as they were: only its recorder times graphs.

    Wall times and graphs' times are of the same calls, as a busy machine slows both sides alike; medians of
    each would be of different calls. Where calls and runs can be paired, these are the middle half of the
    calls: one that was interrupted for long says nothing of the others. Else they are medians.
    """
    times_of: dict[tuple[str, str], tuple[float, float]] = {}
    walls: list[float] = []
    for calls in processes:
        called = [item for item in calls.callables if item.calls]
        most = _passes(called)
        newest = [item.steady_ms[-NEWEST:] for item in called]
        typical = _typical_calls(called, calls.graph_runs)
        if typical:
            wall = statistics.fmean(sum(item.steady_ms[-back] for item in called) for back in typical)
        else:
            wall = _per_call(called) or 0.0
        if not wall:
            continue
        walls.append(wall)
        steady = max((len(times) for times in newest), default=0)
        for graph in calls.graph_runs:
            # A graph's first run is in the call that compiled it, which is no steady one.
            runs = graph.runs / most if graph.runs > 1 or most == 1 else 0.0
            ms = _mean_of(graph, typical, round(runs)) if typical else _median(graph, runs, steady)
            times_of[(graph.process, graph.graph)] = (runs, ms)
    return GraphTimes(times_of, walls[0] if walls else None)


def _typical_calls(called: Sequence[CompiledCallable], graphs: Sequence[GraphRuns]) -> tuple[int, ...]:
    """The middle half of the newest calls by their time, each size apart, counted from the end; none where
    runs cannot be told apart by call: callables called differently often, graphs that run in some calls only,
    cold calls among the newest."""
    most = called[0].calls if called else 0
    if not most or any(item.calls != most for item in called):
        return ()
    if any(not graph.runs or graph.runs % most for graph in graphs):
        return ()
    reach = min(
        [NEWEST, *(len(item.steady_ms) for item in called)]
        + [len(graph.ms) // (graph.runs // most) for graph in graphs]
    )
    cold = max((index for item in called for index in item.cold_index), default=-1)
    if reach < LEAST_PAIRED or cold >= most - reach:
        return ()
    sizes = [sizes_of_calls(item) for item in called]
    alike: dict[object, list[int]] = {}
    for back in range(1, reach + 1):
        alike.setdefault(tuple(own[-back] for own in sizes), []).append(back)
    middle: list[int] = []
    for backs in alike.values():
        backs.sort(key=lambda back: sum(item.steady_ms[-back] for item in called))
        middle += backs[len(backs) // 4 : len(backs) - len(backs) // 4]
    return tuple(middle)


def _mean_of(graph: GraphRuns, backs: Sequence[int], runs: int) -> float:
    """Of the runs in those calls."""
    return statistics.fmean(graph.ms[-(back - 1) * runs - 1 - run] for back in backs for run in range(runs))


def _median(graph: GraphRuns, runs: float, calls: int) -> float:
    """Of the runs in the newest `calls` calls; the first of all only where there is no other."""
    wanted = max(1, min(round(calls * runs), len(graph.ms)))
    return statistics.median(graph.ms[-wanted:]) if graph.ms else 0.0
