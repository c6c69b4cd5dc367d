"""Compiled code's work put on the launches of each graph's wrapper.

Inside the annotation of a graph's run its operators come in the wrapper's order: a Triton kernel by its
name, a library's call as an ATen operator. In a CUDA graph's replay only the device's events are left,
in the wrapper's order too: generated kernels by name, and between them those of the library calls there.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter

from inspector.frozen import dataclass
from inspector.model.code import KernelCall
from inspector.model.profile import Profile
from inspector.model.two_sides import LaunchTime, Phase

from .dataflow import operator
from .eager_side import Place, marked_calls, marks, within
from .profile_work import (
    ENGINE,
    Interval,
    Work,
    graph_key,
    hook_of,
    is_backward,
    is_generated,
    kernel_name,
    outermost,
    region_of,
    section_of,
    step_of,
)
from .sequences import align, period

_COUNT = re.compile(r"_\d+$")
_ALIKE = 0.8
"""Of a graph with the same compile id and phase: one compilation pads a few products, another does not."""
_GRAPH_LAUNCH = "GraphLaunch"


@dataclass(frozen=True, slots=True)
class CompiledGraphCalls:
    """What a profile is put on: a graph with its wrapper's launches."""

    ident: str
    compile_id: str
    phase: Phase
    calls: tuple[KernelCall, ...]
    functions: Mapping[str, str]
    """Kernel -> the name of its function, by which the device knows it."""


@dataclass(frozen=True, slots=True)
class CompiledPlaces:
    """The place of each piece of work, in their order; `regions` the compile ids of one pass through the
    program in the order in which they run, None where graphs ran and torch marked no
    region (before 2.6). `notes` say what was ambiguous or not known."""

    places: tuple[Place, ...]
    calls: int
    windows: tuple[Interval, ...]
    regions: tuple[str, ...] | None
    calls_per_pass: float
    launches: tuple[LaunchTime, ...]
    runs: tuple[tuple[str, float], ...]
    notes: tuple[str, ...]


def waiting_operators(profile: Profile) -> tuple[str, ...]:
    """Operators in compiled graphs in which the host waits for the device, as the profile or MAGMA shows."""
    waits = [
        at for at, event in enumerate(profile.host) if event.kind == "runtime" and "Synchronize" in event.name
    ]
    waits += [event.launch for event in profile.device if "magma" in event.name and event.launch >= 0]
    names = []
    for at in waits:
        inside: list[str] = []
        for outer in profile.around(at):
            if graph_key(profile.host[outer].name) is not None:
                names += inside[-1:]
                break
            inside.append(profile.host[outer].name.removeprefix("aten::"))
    return tuple(dict.fromkeys(names))


def place_compiled(
    profile: Profile,
    work: Sequence[Work],
    graphs: Mapping[str, CompiledGraphCalls],
    programs: Set[str] = frozenset(),
) -> CompiledPlaces:
    """`graphs` by the key in the annotation's name, and those whose key is not known by their ident;
    `programs` are the compile ids that the run knows.

    A profile of another run of the program may have other keys: then a graph is known by the compile id of
    the region around it, by its phase, and by the kernels that it launches.
    """
    runs = graph_runs(profile)
    graphs = _with_other_keys(profile, runs, graphs)
    calls, windows, regions = calls_of(profile)
    passes = sum(region_of(event) is not None for event in profile.host) / len(regions) if regions else calls
    marked = marks(profile)
    region_ids = _region_ids(profile, runs)
    by_operator = _place_operators(profile, runs, graphs)
    replayed, ambiguous = _place_replays(profile, work, runs, graphs)
    places = []
    strange: set[str] = set()
    for number, piece in enumerate(work):
        place = replayed.get(number)
        if place is None:
            place = _place_of(profile, piece, runs, graphs, by_operator, strange)
        if place.graph is None:
            begun = profile.host[piece.host].start if piece.host >= 0 else piece.start
            backward = place.phase == "backward" and not marked
            inside = backward or any(start <= begun < end for start, end in marked or windows)
            place = replace(place, inside=inside)
        elif (run := _run_of(profile, piece, runs)) is not None:
            region = region_ids.get(run, "")
            own = graphs[runs[run]].compile_id if runs[run] in graphs else ""
            place = replace(place, compile_id=region if region in programs else own)
        places.append(place)
    notes = []
    if not runs:
        notes.append("no compiled graph ran in the profiled calls")
    if strange:
        notes.append(f"{len(strange)} compiled graphs ran that this run has no files of")
    if ambiguous:
        notes.append(
            f"{ambiguous} kernels of CUDA graphs lie between two generated ones with several library calls: "
            "which call made which kernel is not known"
        )
    launches = _launch_times(work, places, runs, graphs)
    ran = tuple(
        (graphs[key].ident, count / calls) for key, count in Counter(runs.values()).items() if key in graphs
    )
    return CompiledPlaces(
        tuple(places),
        calls,
        tuple(marked or windows),
        regions if regions or not runs else None,
        calls / passes,
        launches,
        ran,
        tuple(notes),
    )


def _launch_times(
    work: Sequence[Work],
    places: Sequence[Place],
    runs: Mapping[int, str],
    graphs: Mapping[str, CompiledGraphCalls],
) -> tuple[LaunchTime, ...]:
    """Of each graph whose every piece of work is told apart; a launch that did nothing takes nothing."""
    counts = Counter(runs.values())
    spent: dict[tuple[str, int], float] = {}
    for piece, place in zip(work, places, strict=True):
        if place.graph is not None:
            part = place.parts[0] if len(place.parts) == 1 else -1 if not place.parts else -2
            spent[place.graph, part] = spent.get((place.graph, part), 0.0) + piece.ms
    times = []
    for key, graph in graphs.items():
        # A kernel of Inductor's that took no time at all was not recorded: a CPU's without kernel profile.
        made = [call for call in graph.calls if call.kind not in ("extern", "fallback")]
        known = all((graph.ident, call.index) in spent for call in made) and (graph.ident, -2) not in spent
        for call in graph.calls if counts[key] and known else ():
            ms = spent.get((graph.ident, call.index), 0.0) / counts[key]
            times.append(LaunchTime(graph.ident, call.index, ms))
    return tuple(times)


def graph_runs(profile: Profile) -> dict[int, str]:
    """Position of each annotation around a graph's run -> key."""
    return {
        position: key
        for position, event in enumerate(profile.host)
        if event.kind in ("operator", "annotation") and (key := graph_key(event.name)) is not None
    }


def _with_other_keys(
    profile: Profile, runs: Mapping[int, str], graphs: Mapping[str, CompiledGraphCalls]
) -> dict[str, CompiledGraphCalls]:
    """`graphs` by the keys of this profile."""
    known = {key: graph for key, graph in graphs.items() if key in set(runs.values())}
    free = {graph.ident: graph for graph in graphs.values()}
    for graph in known.values():
        free.pop(graph.ident, None)
    region_ids = _region_ids(profile, runs)
    for run, key in runs.items():
        if key in known:
            continue
        backward = any(is_backward(profile, outer) for outer in (run, *profile.around(run)))
        compile_id = region_ids.get(run)
        names = [_event_token(profile.host[inside].name) for inside in _children(profile, run)]
        fitting = [
            (_likeness(graph, names), graph.ident)
            for graph in free.values()
            if graph.compile_id == compile_id and (graph.phase == "backward") == backward
        ]
        share, ident = max(fitting, default=(0.0, ""))
        if share >= _ALIKE:
            known[key] = free.pop(ident)
    return known


def _region_ids(profile: Profile, runs: Mapping[int, str]) -> dict[int, str]:
    """Each graph's run whose region is known -> the region's compile id, a backward's that of its forward."""
    regions = _regions_by_sequence(profile)
    known = {}
    for run in runs:
        around = (run, *profile.around(run))
        ids = [region_of(profile.host[outer]) for outer in around]
        ids += [regions.get(profile.host[outer].sequence or -1) for outer in around]
        compile_id = next((name for name in ids if name is not None), None)
        if compile_id is not None:
            known[run] = compile_id
    return known


def _regions_by_sequence(profile: Profile) -> dict[int, str]:
    """autograd's number of a compiled forward -> the compile id of the region around it."""
    regions: dict[int, str] = {}
    for position, event in enumerate(profile.host):
        if event.name == "CompiledFunction" and event.sequence is not None:
            names = (region_of(profile.host[outer]) for outer in profile.around(position))
            compile_id = next((name for name in names if name is not None), None)
            if compile_id is not None:
                regions[event.sequence] = compile_id
    return regions


def _likeness(graph: CompiledGraphCalls, names: Sequence[str]) -> float:
    """Share of the graph's launches that the profile has in their order. Where none of Inductor's kernels
    shows, as on a CPU without kernel profile, of the library calls; all where nothing shows at all, as in a
    CUDA graph's replay."""
    shown = any(is_generated(name) for name in names)
    wanted = [_call_token(call) for call in graph.calls if shown or call.kind in ("extern", "fallback")]
    if not wanted or (not shown and not set(names) & set(wanted)):
        return float(not shown)
    return len(_aligned(wanted, names)) / len(wanted)


def calls_of(profile: Profile) -> tuple[int, list[Interval], tuple[str, ...]]:
    """How many steady calls, the window of each outermost region, and the regions of one pass through the
    program in order. There are as many calls as the most called frame has, and a pass may hold several."""
    outer: list[tuple[float, float, str]] = []
    every: list[tuple[float, str]] = []
    for position, event in enumerate(profile.host):
        compile_id = region_of(event)
        if compile_id is None:
            continue
        every.append((event.start, compile_id))
        if not any(region_of(profile.host[around]) for around in profile.around(position)):
            outer.append((event.start, event.end, compile_id))
    frames = Counter(compile_id.rpartition("/")[0] for _, _, compile_id in outer)
    calls = marked_calls(profile) or max(frames.values(), default=0)
    if not calls:
        keys = Counter(
            key for position in graph_runs(profile) if (key := graph_key(profile.host[position].name))
        )
        calls = max(keys.values(), default=1)
    order = [compile_id for _, compile_id in sorted(every)]
    return calls, [(start, end) for start, end, _ in outer], tuple(order[: period(order)])


def behind_regions(profile: Profile, regions: int) -> tuple[tuple[str, ...], ...]:
    """Of each of the regions of a pass the operators that the program runs outside of graphs up to the next,
    as most passes have it."""
    runs = graph_runs(profile)
    begun = [(event.start, event.thread) for event in profile.host if region_of(event) is not None]
    marked = marks(profile)
    found: list[list[str]] = [[] for _ in begun]
    for position, event in enumerate(profile.host):
        at = bisect_right(begun, event.start, key=itemgetter(0)) - 1
        own = at >= 0 and event.kind == "operator" and event.thread == begun[at][1]
        own = own and (not marked or within(event.start, marked))
        own = own and section_of(event) is None and not is_backward(profile, position)
        outer = [profile.host[outer] for outer in profile.around(position)] if own else []
        inside = any(each.kind == "operator" and section_of(each) is None for each in outer)
        if own and not inside and _around(profile, position, runs) is None:
            found[at].append(event.name)
    votes = [Counter(map(tuple, found[at::regions])) for at in range(regions)]
    return tuple(vote.most_common(1)[0][0] for vote in votes)


def _around(profile: Profile, position: int, runs: Mapping[int, str]) -> int | None:
    """The graph's run around an operator."""
    if position in runs:
        return position
    return next((outer for outer in profile.around(position) if outer in runs), None)


def _run_of(profile: Profile, piece: Work, runs: Mapping[int, str]) -> int | None:
    """The graph's run that a piece of work is of: by its operator, in a CUDA graph by its launch."""
    around = (_around(profile, at, runs) for at in (piece.host, piece.launch) if at >= 0)
    return next((run for run in around if run is not None), None)


def _children(profile: Profile, run: int) -> list[int]:
    """Outermost operators inside a graph's run, in order."""
    inside: list[int] = []
    stack = list(reversed(profile.children.get(run, ())))
    while stack:
        position = stack.pop()
        event = profile.host[position]
        if event.kind == "operator" and section_of(event) is None:
            inside.append(position)
        elif event.kind != "runtime":
            stack.extend(reversed(profile.children.get(position, ())))
    return inside


def _place_operators(
    profile: Profile, runs: Mapping[int, str], graphs: Mapping[str, CompiledGraphCalls]
) -> dict[int, Place]:
    """Outermost operators of graphs' runs -> their launch."""
    places: dict[int, Place] = {}
    for run, key in runs.items():
        graph = graphs.get(key)
        if graph is None:
            continue
        inside = _children(profile, run)
        wanted = [_call_token(call) for call in graph.calls]
        names = [_event_token(profile.host[position].name) for position in inside]
        pairs = _aligned(wanted, names)
        for call, position in pairs:
            places[inside[position]] = _at(graph, (call,), profile.host[inside[position]].name)
        for (call, position), (later, stop) in _gaps(pairs, len(wanted), len(names)):
            free = list(range(call + 1, later))
            between = range(position + 1, stop)
            for number, other in enumerate(between):
                parts = (free[number],) if len(free) == len(between) else ()
                places.setdefault(inside[other], _at(graph, parts, profile.host[inside[other]].name))
    return places


def _aligned(wanted: Sequence[str], names: Sequence[str]) -> list[tuple[int, int]]:
    """Launches and what ran, in order. The number in a kernel's name counts those of one compilation: where
    another one has a kernel more, as torch/_inductor/fx_passes/pad_mm.py pads by what it times, all that
    follow are known by the rest of their names."""
    exact = align(wanted, names)
    if len(exact) == min(len(wanted), len(names)):
        return exact
    uncounted = [
        [_COUNT.sub("", name) if is_generated(name) else name for name in side] for side in (wanted, names)
    ]
    loose = align(uncounted[0], uncounted[1])
    return loose if len(loose) > len(exact) else exact


def _gaps(
    pairs: Sequence[tuple[int, int]], rows: int, columns: int
) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    ends = [(-1, -1), *pairs, (rows, columns)]
    return list(pairwise(ends))


def _at(graph: CompiledGraphCalls, parts: tuple[int, ...], name: str) -> Place:
    return Place(graph.ident, parts, graph.phase, name)


def _call_token(call: KernelCall) -> str:
    """What the host's event around a launch is called: a kernel as in the wrapper, a user's numbered
    (torch/_inductor/runtime/triton_heuristics.py: CachingAutotuner._pre_launch, ``kernel_name``)."""
    return _library(operator(call.kernel)) if call.kind in ("extern", "fallback") else call.kernel


def _event_token(name: str) -> str:
    return _library(name.partition("::")[2]) if "::" in name else kernel_name(name)


def _library(name: str) -> str:
    name = name.removeprefix("bias_").rstrip("_")
    return "addmm" if name == "addmm_activation" or name == "_addmm_activation" else name


def _place_of(
    profile: Profile,
    piece: Work,
    runs: Mapping[int, str],
    graphs: Mapping[str, CompiledGraphCalls],
    placed: Mapping[int, Place],
    strange: set[str],
) -> Place:
    if piece.host < 0:
        return Place(None, (), "forward", piece.name)
    run = _around(profile, piece.host, runs)
    if run is None:
        top = outermost(profile, piece.host)
        backward = any(is_backward(profile, at) for at in (top, piece.host))
        name = hook_of(profile, piece.host) or step_of(profile, piece.host)
        name = name or _outside_name(profile, piece.host)
        return Place(None, (), "backward" if backward else "forward", name)
    for position in (piece.host, *profile.around(piece.host)):
        if position in placed:
            return placed[position]
        if position == run:
            break
    graph = graphs.get(runs[run])
    if graph is None:
        strange.add(runs[run])
        return Place(runs[run], (), "forward", piece.name)
    return _at(graph, (), profile.host[piece.host].name)


def _outside_name(profile: Profile, position: int) -> str:
    """The outermost operator that is none of torch's own sections."""
    name = profile.host[position].name
    for outer in profile.around(position):
        event = profile.host[outer]
        if event.kind == "operator" and section_of(event) in (None, "autograd"):
            name = event.name
    return name.removeprefix(ENGINE)


# -- CUDA graphs


def _place_replays(
    profile: Profile,
    work: Sequence[Work],
    runs: Mapping[int, str],
    graphs: Mapping[str, CompiledGraphCalls],
) -> tuple[dict[int, Place], int]:
    """Number of each piece of work that a CUDA graph's replay did -> its place; and how many of them may be
    of several calls."""
    pieces: dict[int, list[int]] = {}
    for number, piece in enumerate(work):
        if piece.launch >= 0 and _GRAPH_LAUNCH in profile.host[piece.launch].name:
            run = _around(profile, piece.launch, runs)
            if run is not None:
                pieces.setdefault(run, []).append(number)
    places: dict[int, Place] = {}
    ambiguous = 0
    for run, numbers in pieces.items():
        graph = graphs.get(runs[run])
        if graph is None:
            continue
        placed, open_ = _place_replay(graph, [work[number] for number in numbers])
        places.update(zip(numbers, placed, strict=True))
        ambiguous += open_
    return places, ambiguous


def _place_replay(graph: CompiledGraphCalls, pieces: Sequence[Work]) -> tuple[list[Place], int]:
    wanted = [
        "" if call.kind in ("extern", "fallback") else graph.functions.get(call.kernel) or call.kernel
        for call in graph.calls
    ]
    names = [piece.name if piece.generated or piece.name in wanted else "" for piece in pieces]
    pairs = _aligned(wanted, names)
    parts: dict[int, tuple[int, ...]] = {position: (call,) for call, position in pairs}
    ambiguous = 0
    for (call, position), (later, stop) in _gaps(pairs, len(wanted), len(names)):
        # What only fills or copies memory comes with the library call that it is for.
        free = list(range(call + 1, later))
        between = list(range(position + 1, stop))
        kernels = [at for at in between if not _fills(pieces[at].name)]
        if len(free) == 1:
            parts.update(dict.fromkeys(between, (free[0],)))
        elif free and len(free) == len(kernels):
            owner = iter(free)
            last = free[0]
            waiting: list[int] = []
            for at in between:
                waiting.append(at)
                if at in kernels:
                    last = next(owner)
                    parts.update(dict.fromkeys(waiting, (last,)))
                    waiting = []
            parts.update(dict.fromkeys(waiting, (last,)))
        elif free:
            parts.update(dict.fromkeys(between, tuple(free)))
            ambiguous += len(between)
    return [_at(graph, parts.get(at, ()), piece.name) for at, piece in enumerate(pieces)], ambiguous


def _fills(name: str) -> bool:
    return name.startswith(("memset", "memcpy"))
