"""What of a program's calls is work of one kind: no call is the mean of two kinds.

Calls of one callable with gradients and without, as of a training and of what is made with the model between;
callables of which some are called only after the last call of the others, as a simulation after a training.
An account and a profile are of the kind that takes most of the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Literal

from inspector.frozen import dataclass
from inspector.model.calls import CompiledCallable, GraphRuns, ProcessCalls

from .steady import MINIMUM_CALLS, sizes_of_calls

Phase = Literal["with gradients", "without gradients"]
"""As the recorder has it of each call (inspector/capture/recorder/calls.py: sizes_of)."""
WITH: Phase = "with gradients"
WITHOUT: Phase = "without gradients"
_ROW = 8
"""Calls, of which a profile can be."""


@dataclass(frozen=True, slots=True)
class Meant:
    """Which calls an account is of; by default all of them.

    `callables` are (kind, order) of those that are called between each other, where others are called only
    before or after these; empty where all take turns.
    """

    phase: Phase | None = None
    callables: frozenset[tuple[str, int]] = frozenset()


def main_calls(processes: Iterable[ProcessCalls], order: int | None = None) -> Meant:
    """Those of one rank that most time passes in; with `order` those among which that callable's are."""
    called = [[item for item in process.callables if item.calls] for process in processes]
    every = [item for own in called for item in own]
    # Each process counts its own calls: of several it is not known what was called when.
    rows = _stretches(every) if sum(map(bool, called)) == 1 else []
    rows = [row for row in rows if max(len(item.steady_ms) for item in row) >= MINIMUM_CALLS]
    rows.sort(key=lambda row: (any((i.kind, i.order) == ("call", order) for i in row), _steady_time(row)))
    if len(rows) < 2:
        return Meant(main_phase(every))
    return Meant(main_phase(rows[-1]), frozenset((item.kind, item.order) for item in rows[-1]))


def most_called(called: Iterable[CompiledCallable]) -> CompiledCallable | None:
    """The callable with most calls, the first of those with as many; None where none was called."""
    items = (item for item in called if item.kind == "call" and item.calls)
    return max(items, key=lambda item: (item.calls, -item.order), default=None)


def _stretches(called: Iterable[CompiledCallable]) -> list[list[CompiledCallable]]:
    """Callables in rows, each of which is called only after the last call of the row before; one row where
    it is not known when they were called."""
    called = [*called]
    spans = [item.span for item in called if item.span is not None]
    if len(spans) < len(called):
        return [called]
    rows: list[list[CompiledCallable]] = []
    end = -1
    for (first, last), item in sorted(zip(spans, called, strict=True), key=lambda pair: pair[0]):
        if first > end:
            rows.append([])
        rows[-1].append(item)
        end = max(end, last)
    return rows


def _steady_time(row: Iterable[CompiledCallable]) -> float:
    """Milliseconds of all steady calls; of a long run the newest ones stand for all."""
    return sum(
        sum(item.steady_ms) * (item.calls - len(item.cold_ms)) / max(len(item.steady_ms), 1) for item in row
    )


def main_phase(called: Iterable[CompiledCallable]) -> Phase | None:
    """That which most time passes in, backward passes included, of callables that have steady calls of both.
    None where none has, where it is not known which are which, where calls of both take turns, as a teacher's
    and a student's do, and where the one without gradients is beside other callables that only train."""
    called = list(called)
    both = [item for item in called if _is_both(item)]
    if not both or all(max(_rows(item), default=0) < _ROW for item in both):
        return None
    trained = sum(_in_phase(item, WITH) for item in both)
    trained += sum(sum(item.steady_ms) for item in called if item.kind == "backward")
    if trained >= sum(_in_phase(item, WITHOUT) for item in both):
        return WITH
    only = (item for item in called if item.kind == "call" and not _is_both(item))
    return None if any(WITH in phases_of_calls(item) for item in only) else WITHOUT


def of_meant(called: Iterable[CompiledCallable], meant: Meant) -> list[CompiledCallable]:
    """The callables that are meant, as if calls of that phase were all that the mixed ones had."""
    own = [item for item in called if not meant.callables or (item.kind, item.order) in meant.callables]
    if meant.phase is None:
        return own
    kept = (item for item in own if item.kind == "call" or meant.phase == WITH)
    return [_restricted(item, meant.phase) if _is_both(item) else item for item in kept]


def counts_phases(processes: Iterable[ProcessCalls]) -> bool:
    """Whether the recorder that watched graphs told their runs apart, and a profile is of one phase then;
    also where it saw none."""
    runs = [each for process in processes for each in process.graph_runs]
    return not runs or any(each.trained is not None for each in runs)


def in_meant(processes: Sequence[ProcessCalls], meant: Meant) -> tuple[ProcessCalls, ...]:
    """Processes with the calls that are meant, and with the runs of graphs in them."""
    return (*processes,) if meant == Meant() else tuple(_of_process(each, meant) for each in processes)


def _of_process(process: ProcessCalls, meant: Meant) -> ProcessCalls:
    kept = of_meant(process.callables, meant)
    spans = [item.span for item in kept if item.span is not None] if meant.callables else []
    first, last = min((one for one, _ in spans), default=0), max((other for _, other in spans), default=0)
    runs = [
        each
        for each in process.graph_runs
        if not spans or each.span is None or (each.span[0] <= last and each.span[1] >= first)
    ]
    of_phase = runs if meant.phase is None else (_runs(each, meant.phase) for each in runs)
    return replace(process, callables=tuple(kept), graph_runs=tuple(filter(None, of_phase)))


def phases_of_calls(item: CompiledCallable) -> list[str | None]:
    """Of each steady call, in order; None where that is not known."""
    known = (WITH, WITHOUT)
    return [sizes[0] if sizes and sizes[0] in known else None for sizes in sizes_of_calls(item)]


def _is_both(item: CompiledCallable) -> bool:
    phases = phases_of_calls(item) if item.kind == "call" else []
    return None not in phases and min(map(phases.count, (WITH, WITHOUT))) >= MINIMUM_CALLS


def _rows(item: CompiledCallable) -> Iterator[int]:
    """How many steady calls in a row are of one phase."""
    for _, row in groupby(phases_of_calls(item)):
        yield sum(1 for _ in row)


def _in_phase(item: CompiledCallable, phase: Phase) -> float:
    return sum(ms for ms, own in zip(item.steady_ms, phases_of_calls(item), strict=True) if own == phase)


def _restricted(item: CompiledCallable, phase: Phase) -> CompiledCallable:
    """Its steady calls of that phase; of those that compiled it is not known which they are of."""
    kept = [place for place, own in enumerate(phases_of_calls(item)) if own == phase]
    return replace(
        item,
        calls=round(item.calls * len(kept) / len(item.steady_ms)),
        cold_ms=(),
        cold_index=(),
        steady_ms=tuple(item.steady_ms[place] for place in kept),
        steady_sizes=tuple(item.steady_sizes[place] for place in kept),
        steady_faults=tuple(item.steady_faults[place] for place in kept if item.steady_faults),
    )


def _runs(runs: GraphRuns, phase: Phase) -> GraphRuns | None:
    """What of a graph's runs is in calls of that phase, None where most are not."""
    trained = runs.trained or 0
    own = trained if phase == WITH else runs.runs - trained
    return replace(runs, runs=own) if 2 * own > runs.runs else None
