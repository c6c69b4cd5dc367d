"""Where two times of the same thing disagree: both, and why that may be. None is stretched to fit."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.analysis.steady import SAME
from inspector.analysis.two_sides import side_doubt
from inspector.units import duration

from .block_words import label, short_kernel
from .case import Case
from .estimate import FAR_OFF, wrapper_ms

_UNSEEN = (
    "Python of the program's own, a sleep, or work in other threads or processes, which torch does not see"
)


def doubts(case: Case) -> Iterator[str]:
    """A sentence for each disagreement between this run's calls, its graphs and the replay of its kernels."""
    wall, paired = case.times.compiled_ms, case.paired_ms
    if wall is not None and paired is not None and case.graphs and apart(wall, paired):
        took, there = f"a call took {duration(wall)}", f"{duration(paired)} in the"
        both = f"{took} in the run without debug output and {there} captured one, which"
        if case.times.source == "captured run":
            both = f"{took}, and {there} calls that"
        yield f"{both} the times of graphs are of: {_reasons(case, of_replay=False)}"
    if wall is None or case.unread:
        return
    replayed = [graph.replayed_ms for graph in case.graphs if graph.runs]
    kernels_ms = sum(ms or 0.0 for ms in replayed)
    if not kernels_ms or None in replayed:
        return
    said = _beside_graphs(case, kernels_ms)
    if not said and kernels_ms > wall and apart(kernels_ms, wall):
        said = f"more than the whole call of {duration(wall)}"
    if said:
        yield f"replayed alone the kernels take {duration(kernels_ms)}, {said}: {_reasons(case)}"


def other_kernels(case: Case) -> Iterator[str]:
    """A sentence for each block whose library kernels are others in the replay than in the profile."""
    replayed = {
        (graph.name, kernel.call): kernel.device_kernels
        for graph in case.graphs
        if graph.replay is not None
        for kernel in graph.replay.kernels
    }
    for block in case.sides.joined.blocks if case.sides is not None else ():
        own = [kernel.name for kernel in block.compiled_kernels if not kernel.generated]
        there = [name for place in block.launches for name in replayed.get(place, ())]
        if own and there and own[0] not in there:
            yield (
                f"{label(block)} ran {short_kernel(own[0])} in the profiled calls and "
                f"{short_kernel(there[0])} in the replay: what the profile has holds"
            )


def profile_fits(case: Case) -> bool:
    """Whether the profile of compiled code, where there is one, is of calls as they are without a profiler:
    else it says nothing of what a kernel takes in one."""
    return case.sides is None or not side_doubt(case.sides.joined, "compiled", case.times.compiled_ms)


def profile_doubts(case: Case, unexplained_ms: float) -> Iterator[str]:
    """A sentence where profiled work and the wall of calls that no profiler slowed do not meet."""
    wall = case.times.compiled_ms
    if wall is None or abs(unexplained_ms) <= SAME * wall:
        return
    work = f"{duration(wall - unexplained_ms)} of a profiled call have a name, a call without a profiler "
    seen = f"took {duration(wall)}"
    totals = case.sides.joined.compiled if case.sides is not None else None
    # Where the profiled calls themselves were shorter, what is missing is no work of theirs.
    shorter = totals is not None and totals.wall_ms < wall and apart(totals.wall_ms, wall)
    told = case.busy or unexplained_ms < 0 or shorter
    why = _reasons(case, of_replay=False) if told else _UNSEEN
    yield f"{work}{seen}: {why}"


def _beside_graphs(case: Case, kernels_ms: float) -> str:
    running = [graph for graph in case.graphs if graph.runs]
    if case.gpu or not running or any(graph.in_process_ms is None for graph in running):
        return ""
    inside = sum((graph.in_process_ms or 0.0) * graph.runs for graph in running)
    most = sum(FAR_OFF * wrapper_ms(len(graph.launches)) * graph.runs for graph in running)
    if kernels_ms > inside and apart(kernels_ms, inside):
        return f"in the run its graphs took {duration(inside)} with everything in them"
    if inside > kernels_ms + most and apart(kernels_ms + most, inside):
        return f"in the run its graphs took {duration(inside)}, and no wrapper takes the rest"
    return ""


def apart(first: float, second: float) -> bool:
    """Whether two times of one thing disagree."""
    return abs(first - second) > SAME * max(first, second)


def _reasons(case: Case, of_replay: bool = True) -> str:
    """What is known to differ, else what usually does."""
    known = []
    if case.busy:
        known.append("the machine was busy during the capture")
    if of_replay and case.machine.get("busy"):
        known.append("the machine was busy during the replay")
    threads = case.machine.get("threads")
    if of_replay and isinstance(threads, int) and case.threads and threads != case.threads:
        known.append(f"the run had {case.threads} threads and the replay {threads}")
    if known:
        return " and ".join(known)
    if of_replay:
        return "memory that each call touches first, a busy machine, another clock, or other threads"
    return "debug output or a profiler, a busy machine, or another clock"
