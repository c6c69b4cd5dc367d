"""From a run and its profiles to both sides, joined. Reads what is there and runs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inspector.analysis.blocks import Attributed, GraphOfBlocks, join
from inspector.analysis.call_nodes import nodes_of_calls
from inspector.analysis.compiled_side import CompiledGraphCalls, place_compiled
from inspector.analysis.eager_side import place_eager, places_of
from inspector.analysis.linkage import link_graph
from inspector.analysis.profile_work import work_of
from inspector.analysis.program_calls import program_graph
from inspector.analysis.side_totals import totals
from inspector.model.profile import Profile
from inspector.model.two_sides import Joined, Phase, ProgramGraph
from inspector.readers.program_graphs import dynamo_graphs, graph_keys

if TYPE_CHECKING:
    from inspector.readers.graph import CompiledGraph
    from inspector.readers.run import Run


def join_profiles(run: Run, compiled: Profile | None, eager: Profile | None) -> Joined:
    """Both sides of a run's first rank, block by block; either profile may be missing."""
    programs = {compile_id: program_graph(compile_id, fx) for compile_id, fx in dynamo_graphs(run).items()}
    idents = {ident: key for key, ident in graph_keys(run).items()}
    graphs = [graph for graph in run.graphs if graph.files and (graph.rank or 0) == 0]
    calls = {idents[g.ident]: _calls(g) for g in graphs if g.ident in idents}
    blocks = {g.ident: _nodes(g, programs) for g in graphs}
    right = left = None
    regions: tuple[str, ...] = tuple(sorted(programs))
    compiled_totals = eager_totals = None
    if compiled is not None:
        work, device = work_of(compiled)
        places = place_compiled(compiled, work, calls)
        right = Attributed(work, places.places, places.calls)
        regions = places.regions or regions
        compiled_totals = totals(
            compiled, work, places.places, places.calls, places.windows, device, places.notes
        )
    if eager is not None:
        work, device = work_of(eager)
        order = [programs[compile_id] for compile_id in regions if compile_id in programs]
        placed = place_eager(eager, order)
        on = places_of(eager, work, placed)
        left = Attributed(work, on, placed.calls)
        eager_totals = totals(eager, work, on, placed.calls, placed.windows, device, ())
    return Joined(join(left, right, programs, blocks), eager_totals, compiled_totals)


def _calls(graph: CompiledGraph) -> CompiledGraphCalls:
    code = graph.code()
    return CompiledGraphCalls(
        graph.ident,
        _phase(graph),
        code.calls if code is not None else (),
        {kernel.name: kernel.function for kernel in code.kernels if kernel.function} if code else {},
    )


def _nodes(graph: CompiledGraph, programs: dict[str, ProgramGraph]) -> GraphOfBlocks:
    compile_id = graph.compile_id or ""
    program = programs.get(compile_id) or ProgramGraph(compile_id, ())
    artifacts = graph.artifacts()
    nodes = nodes_of_calls(artifacts, link_graph(artifacts), program)
    return GraphOfBlocks(graph.ident, compile_id, _phase(graph), nodes)


def _phase(graph: CompiledGraph) -> Phase:
    return "backward" if graph.phase == "backward" else "forward"
