"""Calls of one callable with gradients and without, as of a training and of what is made with the model
between: work of two kinds, of which no call is the mean.

An account and a profile are of the kind that takes most of the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Literal

from inspector.model.calls import CompiledCallable, GraphRuns, ProcessCalls

from .steady import MINIMUM_CALLS, sizes_of_calls

Phase = Literal["with gradients", "without gradients"]
"""As the recorder has it of each call (inspector/capture/recorder/calls.py: sizes_of)."""
WITH: Phase = "with gradients"
WITHOUT: Phase = "without gradients"
_ROW = 8
"""Calls, of which a profile can be."""


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


def of_phase(called: Iterable[CompiledCallable], phase: Phase | None) -> list[CompiledCallable]:
    """The callables as if calls of that phase were all that the mixed ones had; all of them for None."""
    if phase is None:
        return [*called]
    kept = (item for item in called if item.kind == "call" or phase == WITH)
    return [_restricted(item, phase) if _is_both(item) else item for item in kept]


def counts_phases(processes: Iterable[ProcessCalls]) -> bool:
    """Whether the recorder that watched graphs told their runs apart, and a profile is of one phase then;
    also where it saw none."""
    runs = [each for process in processes for each in process.graph_runs]
    return not runs or any(each.trained is not None for each in runs)


def in_phase(processes: Sequence[ProcessCalls], phase: Phase | None) -> tuple[ProcessCalls, ...]:
    """Processes with the calls of that phase, and with the runs of graphs in them."""
    if phase is None:
        return (*processes,)
    return tuple(
        replace(
            process,
            callables=tuple(of_phase(process.callables, phase)),
            graph_runs=tuple(kept for runs in process.graph_runs if (kept := _runs(runs, phase)) is not None),
        )
        for process in processes
    )


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
