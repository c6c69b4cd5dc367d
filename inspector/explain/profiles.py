"""From a run and its profiles to both sides, joined. Reads what is there and runs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from inspector.analysis.blocks import Attributed, GraphOfBlocks, join
from inspector.analysis.call_nodes import nodes_of_calls, split_program
from inspector.analysis.calls import compiled_more
from inspector.analysis.compiled_side import (
    CompiledGraphCalls,
    behind_regions,
    place_compiled,
    waiting_operators,
)
from inspector.analysis.eager_side import marked_calls, place_eager, places_of
from inspector.analysis.linkage import link_graph
from inspector.analysis.profile_work import work_of
from inspector.analysis.program_calls import program_graph
from inspector.analysis.side_totals import totals
from inspector.analysis.steady import RUN_TO_RUN
from inspector.analysis.two_sides import side_doubt, two_sided_ledger
from inspector.frozen import dataclass
from inspector.model.fx import FxGraph
from inspector.model.links import Linkage
from inspector.model.problem import InspectorError
from inspector.model.profile import Profile
from inspector.model.two_sides import Joined, LaunchTime, Phase, ProgramGraph, Side, Sides
from inspector.readers.kineto import load_profile
from inspector.readers.program_graphs import dynamo_graphs, traced_codes
from inspector.units import percent

if TYPE_CHECKING:
    from inspector.readers.graph import CompiledGraph
    from inspector.readers.run import Run

FOLDER = "profile"
"""Where a capture puts its profiles in the run: `compiled.json.gz` and `eager.json.gz`."""


@dataclass(frozen=True, slots=True)
class Profiles:
    """Both sides' profiles, None for one that there is not; `notes` on what was wrong with their files."""

    compiled: Profile | None
    eager: Profile | None
    notes: tuple[str, ...] = ()


def load_profiles(run: Run, compiled: Path | None = None, eager: Path | None = None) -> Profiles | None:
    """The files that the user names, else those of the run; None where there is none.

    A named file that is no profile is an InspectorError, one in the run a note.
    """
    notes: list[str] = []
    loaded: list[Profile | None] = []
    for side, path in (("compiled", compiled), ("eager", eager)):
        own = run.root / FOLDER / f"{side}.json.gz"
        if path is None and not own.is_file():
            loaded.append(None)
            continue
        if path is None and side == "compiled" and (more := compiled_more(run.variants)):
            name, before, then = more[0]
            notes.append(
                f"compiled: its profile is left out, as it is of other graphs: {name} was compiled in {then} "
                f"of the calls there, with torch's caches full, and in {before} before"
            )
            loaded.append(None)
            continue
        try:
            profile, problems = load_profile(path or own, str(path) if path else run.label(own))
        except InspectorError as error:
            if path is not None:
                raise
            notes.append(str(error))
            loaded.append(None)
            continue
        notes += (str(problem) for problem in problems)
        loaded.append(profile)
    if loaded == [None, None] and not notes:
        return None
    return Profiles(loaded[0], loaded[1], tuple(notes))


def compare(
    run: Run,
    profiles: Profiles,
    eager_ms: float | None,
    compiled_ms: float | None,
    traced: Mapping[str, FxGraph] | None = None,
) -> Sides:
    """Both sides joined, and the ledger between the walls of calls that no profiler slowed, where known."""
    joined = join_profiles(run, profiles.compiled, profiles.eager, traced=traced)
    notes = list(profiles.notes)
    sides: tuple[tuple[Side, float | None], ...] = (("compiled", compiled_ms), ("eager", eager_ms))
    for side, wall in sides:
        whole = joined.compiled if side == "compiled" else joined.eager
        if whole is None:
            notes.append(f"no profile of the {side} side: inspector capture --baseline -- COMMAND")
            continue
        notes += (f"{side}: {note}" for note in whole.notes)
        if doubt := side_doubt(joined, side, wall):
            notes.append(f"{side}: {doubt}, so that it is no breakdown of that call")
        if whole.attributed < 1 - RUN_TO_RUN:
            notes.append(f"{side}: only {percent(whole.attributed)} of the work has a place")
    sources = tuple(p.path for p in (profiles.eager, profiles.compiled) if p is not None)
    return Sides(joined, two_sided_ledger(joined, eager_ms, compiled_ms), sources, tuple(notes))


def join_profiles(
    run: Run,
    compiled: Profile | None,
    eager: Profile | None,
    *,
    traced: Mapping[str, FxGraph] | None = None,
) -> Joined:
    """Both sides of a run's first rank, block by block; either profile may be missing. `traced`: what Dynamo
    traced, by compile id, where that is read already."""
    traced = dynamo_graphs(run) if traced is None else traced
    programs = {compile_id: program_graph(compile_id, fx) for compile_id, fx in traced.items()}
    graphs = _first_rank(run)
    calls, ids = _compiled_calls(run)
    right = left = None
    regions: tuple[str, ...] = tuple(sorted(programs))
    compiled_totals = eager_totals = None
    calls_per_pass = 1.0
    behind: tuple[tuple[str, ...], ...] = ()
    launches: tuple[LaunchTime, ...] = ()
    runs: tuple[tuple[str, float], ...] = ()
    waiting: tuple[str, ...] = ()
    if compiled is not None:
        work, device = work_of(compiled)
        places = place_compiled(compiled, work, calls, programs.keys())
        right = Attributed(work, places.places, places.calls)
        launches, runs = places.launches, places.runs
        if places.regions is not None:
            regions = places.regions
            behind = behind_regions(compiled, len(regions)) if eager is not None else ()
        calls_per_pass = places.calls_per_pass
        waiting = waiting_operators(compiled)
        compiled_totals = totals(
            compiled, work, places.places, places.calls, places.windows, device, places.notes
        )
    if eager is not None:
        work, device = work_of(eager)
        known = [number for number, compile_id in enumerate(regions) if compile_id in programs]
        order = [programs[regions[number]] for number in known]
        outside = [behind[number] for number in known if behind]
        same = marked_calls(compiled) if compiled is not None else None
        placed = place_eager(eager, order, calls_per_pass, outside, same)
        on = places_of(eager, work, placed)
        left = Attributed(work, on, placed.calls)
        eager_totals = totals(eager, work, on, placed.calls, placed.windows, device, ())
    joined = join(left, right, programs, _of_blocks(graphs, ids, programs, right))
    # A launch without a call of the program has no place in it.
    loose = sum(
        block.compiled_ms or 0.0 for block in joined if block.place == "graph" and not block.operators
    )
    if compiled_totals is not None:
        compiled_totals = replace(compiled_totals, attributed_ms=compiled_totals.attributed_ms - loose)
    multiprocessors = compiled.multiprocessors if compiled is not None else None
    return Joined(joined, eager_totals, compiled_totals, launches, multiprocessors, runs, waiting)


def launch_times(run: Run) -> dict[str, dict[int, float]]:
    """Milliseconds of each launch of the first rank's graphs in the run's own profile, by the graph's ident
    and the call's number; only of graphs whose launches the profile tells apart."""
    profiles = load_profiles(run)
    times: dict[str, dict[int, float]] = {}
    if profiles is not None and profiles.compiled is not None:
        calls, _ = _compiled_calls(run)
        for launch in place_compiled(profiles.compiled, work_of(profiles.compiled)[0], calls).launches:
            times.setdefault(launch.graph, {})[launch.call] = launch.ms
    return times


def _compiled_calls(run: Run) -> tuple[dict[str, CompiledGraphCalls], dict[str, str]]:
    """The first rank's graphs as a profile is put on them, by key, and their compile ids by ident."""
    traced = {code.ident: code for code in traced_codes(run)}
    calls: dict[str, CompiledGraphCalls] = {}
    ids: dict[str, str] = {}
    for graph in _first_rank(run):
        code = traced.get(graph.ident)
        ids[graph.ident] = graph.compile_id or (code.compile_id if code is not None else None) or ""
        if graph.files:
            calls[(code.key if code is not None else None) or graph.ident] = _calls(graph, ids[graph.ident])
    return calls, ids


def _first_rank(run: Run) -> list[CompiledGraph]:
    return [graph for graph in run.graphs if (graph.rank or 0) == 0]


def _calls(graph: CompiledGraph, compile_id: str) -> CompiledGraphCalls:
    code = graph.code()
    return CompiledGraphCalls(
        graph.ident,
        compile_id,
        _phase(graph),
        code.calls if code is not None else (),
        # A C++ kernel's function is called "kernel"; a user's Triton kernel has another name on the device.
        {k.name: k.function for k in code.kernels if k.function and k.kind != "cpp"} if code else {},
    )


def _of_blocks(
    graphs: Sequence[CompiledGraph],
    ids: Mapping[str, str],
    programs: Mapping[str, ProgramGraph],
    compiled: Attributed | None,
) -> list[GraphOfBlocks]:
    """Each graph in its own region, and in the others that ran its code. What its launches do there is known
    by the place of the program's calls, where both regions have as many: names differ."""
    ran = {(place.graph, place.compile_id) for place in compiled.places} if compiled is not None else set()
    linkages = {graph.ident: link_graph(graph.artifacts()) for graph in graphs if graph.files}
    parts = _parts(graphs, ids, programs, linkages)
    made = []
    for graph in graphs:
        if not graph.files:
            continue
        own = ids[graph.ident]
        empty = ProgramGraph(own, ())
        for compile_id in sorted({own, *(there for ident, there in ran if ident == graph.ident)}):
            program = programs.get(compile_id, empty)
            part = parts.get((compile_id, _number(graph) if compile_id == own else ""))
            if part is None and len(program.calls) == len(programs.get(own, empty).calls):
                program = programs.get(own, empty)
            nodes = nodes_of_calls(graph.artifacts(), linkages[graph.ident], program, part)
            made.append(GraphOfBlocks(graph.ident, compile_id, _phase(graph), nodes))
    return made


def _parts(
    graphs: Sequence[CompiledGraph],
    ids: Mapping[str, str],
    programs: Mapping[str, ProgramGraph],
    linkages: Mapping[str, Linkage],
) -> dict[tuple[str, str], range]:
    """Which calls each graph does of a frame that several share, by compile id and the graph's number in AOT
    autograd; without a number that of the only one that has no files, as its code came from a cache."""
    parts: dict[tuple[str, str], range] = {}
    for compile_id, program in programs.items():
        forward = [g for g in graphs if ids[g.ident] == compile_id and _phase(g) == "forward"]
        if len(forward) < 2:
            continue
        needed = [
            {name for _, names in linkages[g.ident].pre_fx for name in names} if g.files else ()
            for g in forward
        ]
        ranges = split_program(program, needed)
        for graph, part in zip(forward, ranges or (), strict=False):
            parts[compile_id, _number(graph)] = part
            if not graph.files:
                parts[compile_id, ""] = part
    return parts


def _number(graph: CompiledGraph) -> str:
    """`1` of model__1_forward_4.1: a graph and its backward share it."""
    return graph.name.removeprefix("model__").split("_")[0]


def _phase(graph: CompiledGraph) -> Phase:
    return "backward" if graph.phase == "backward" else "forward"
