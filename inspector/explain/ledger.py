"""Where one steady compiled call's time goes, in parts that add up."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from inspector.analysis.side_totals import NAMED
from inspector.analysis.two_sides import HOST, compiled_parts, side_doubt
from inspector.model.calls import Outcome
from inspector.model.explain import How, Ledger, LedgerPart
from inspector.model.two_sides import Block, Sides, SideTotals
from inspector.units import duration, percent

from .case import Case, GraphCase, Role
from .doubts import apart, doubts, other_kernels, profile_doubts, profile_fits
from .estimate import FAR_OFF, wrapper_ms
from .transfers import waiting_ms

TRANSFERS = "device transfers and syncs"
PARTS: tuple[tuple[str, Role], ...] = (
    ("library kernels", "library"),
    ("generated kernels", "generated"),
    ("fallbacks", "fallback"),
    ("copies and layout changes", "copy"),
    (TRANSFERS, "transfer"),
)
PROFILE = "profile"
WITHIN_GRAPHS = "host gap: wrapper and launches"
GUARDS = "host gap: guards and dispatch"
PYTHON = "Python between graphs (graph breaks)"
BETWEEN_RANKS = "autograd, other ranks, Python"
HOST_SIDE = "compiled graphs, the host's side"
WAITING = "the GPU's work after that, guards and Python"
WHOLE_GRAPHS = "compiled graphs, kernels and wrapper together"
EAGER = "in eager, since the recompile limit"
_MOST_OTHERS = 3
"""How many sentences of one kind are shown."""
HOST_PARTS = (WITHIN_GRAPHS, GUARDS, PYTHON)


def make_ledger(case: Case) -> Ledger:
    """The ledger of a case; `parts` and `unexplained_ms` add up to `compiled_ms` where that is known."""
    times = case.times
    if case.sides is not None and _by_profile(case, case.sides):
        return _profiled(case, case.sides)
    parts = tuple(part for part in _parts(case) if part.ms)
    wall = times.compiled_ms
    if wall is None and case.graphs and case.kernels_measured:
        replayed = [
            graph.replay.compiled_wall or graph.replay.compiled for graph in case.graphs if graph.replay
        ]
        known = [timing.median_ms for timing in replayed if timing is not None]
        wall = sum(known) if known else None
    if wall is None:
        parts = _estimated(case)
    unexplained = None if wall is None else wall - sum(part.ms for part in parts)
    return Ledger(
        eager_ms=times.eager_ms,
        compiled_ms=wall,
        parts=parts,
        unexplained_ms=unexplained,
        compile_s=case.compile_s,
        compile_source=case.compile_source,
        break_even_calls=break_even(case),
        missing=tuple(_missing(case)),
        doubts=tuple(doubts(case)) if times.compiled_ms is not None else (),
        how="measured" if times.compiled_ms is not None else "estimated",
    )


def _by_profile(case: Case, sides: Sides) -> bool:
    """Whether a profile says how a call divides."""
    return sides.joined.compiled is not None and profile_fits(case)


NO_GAIN: dict[Outcome, str] = {
    "slower": "a call is slower than in eager",
    "same": "a call takes as long as in eager",
}
"""Why compiling is never won back, of comparisons that can tell."""


def break_even(case: Case) -> int | None:
    """Calls until compiling has paid; None where it never does, or where it is no faster beyond the noise."""
    times = case.times
    if times.cold_ms is None or times.eager_ms is None or times.compiled_ms is None or not case.graphs:
        return None
    gain = times.eager_ms - times.compiled_ms
    return math.ceil(times.cold_ms / gain) if times.outcome == "faster" and gain > 0 else None


def host_part_ms(case: Case) -> float:
    """What the parts of the host's side take in the ledger of a case whose calls and kernels have times."""
    if case.sides is not None and _by_profile(case, case.sides):
        parts, _ = compiled_parts(case.sides.joined, case.wall_ms, case.times.compiled_ms is not None)
        return sum(ms for name, ms in parts if name in (HOST, *NAMED))
    return sum(part.ms for part in _parts(case) if part.part in HOST_PARTS)


def _profiled(case: Case, sides: Sides) -> Ledger:
    """By the profile of the compiled side; its kernels are those of profiled calls, unscaled."""
    timed = case.times.compiled_ms is not None
    eager = case.times.eager_ms
    if eager is None and not timed and sides.joined.eager is not None:
        eager = sides.joined.eager.wall_ms
    parts, unexplained = _divided(sides, case.wall_ms, timed)
    return Ledger(
        eager_ms=eager,
        compiled_ms=case.wall_ms,
        parts=parts,
        unexplained_ms=unexplained,
        compile_s=case.compile_s,
        compile_source=case.compile_source,
        break_even_calls=break_even(case),
        missing=sides.notes,
        doubts=(*profile_doubts(case, unexplained), *islice(other_kernels(case), _MOST_OTHERS)),
        how="measured",
    )


def ledger_again(ledger: Ledger, sides: Sides, wall_ms: float) -> Ledger | None:
    """The ledger of the run that was profiled, of whose calls without a profiler `wall_ms` is; None where its
    profile is none of such calls."""
    if sides.joined.compiled is None or side_doubt(sides.joined, "compiled", wall_ms):
        return None
    parts, unexplained = _divided(sides, wall_ms, timed=True)
    return replace(ledger, compiled_ms=wall_ms, parts=parts, unexplained_ms=unexplained, how="measured")


def _divided(sides: Sides, wall_ms: float, timed: bool) -> tuple[tuple[LedgerPart, ...], float]:
    """A call's parts by the profile, and what is unexplained of it."""
    parts, unexplained = compiled_parts(sides.joined, wall_ms, timed)
    return tuple(LedgerPart(name, ms, PROFILE) for name, ms in parts), unexplained


def graph_ms(graph: GraphCase) -> float | None:
    """One run of a graph, kernels and wrapper: in the user's process, else in a replay."""
    if graph.in_process_ms is not None:
        return graph.in_process_ms
    if graph.replay is not None:
        timing = graph.replay.compiled_wall or graph.replay.compiled
        return timing.median_ms if timing is not None else None
    return None


def outside_share(totals: SideTotals, outside: Iterable[Block]) -> float:
    """Of a profiled call, these operators outside of all graphs, and what the host took for such while a GPU
    had nothing to do."""
    return (sum(block.compiled_ms or 0.0 for block in outside) + totals.outside_ms) / totals.wall_ms


def operators_outside(case: Case) -> tuple[str, float] | None:
    """`92 % of a call is operators outside of graphs, aten::lstm 13.0 ms`, the largest of them, and that
    share of a profiled call; None without such operators, or a profile."""
    totals = case.sides.joined.compiled if case.sides is not None else None
    if case.sides is None or totals is None or not totals.wall_ms:
        return None
    outside = [
        block
        for block in case.sides.joined.blocks
        if block.place == "outside" and block.inside and block.operators
    ]
    if not outside:
        return None
    largest = max(outside, key=lambda block: block.compiled_ms or 0.0)
    share = outside_share(totals, outside)
    most = f"{largest.operators[0]} {duration(largest.compiled_ms or 0.0)}"
    return f"{percent(share)} of a call is operators outside of graphs, {most}", share


def outside_graphs_ms(case: Case) -> float | None:
    """What a steady call spends outside its compiled graphs; None where either side was not measured in
    the user's own process. On a GPU no more than it waits for the host."""
    if case.times.compiled_ms is None or not case.graphs:
        return None
    inside = 0.0
    for graph in _running(case):
        if graph.in_process_ms is None:
            return None
        inside += graph.in_process_ms * graph.runs
    # Two runs of a program differ: what is outside of graphs is of the calls that they were timed in.
    whole = min(case.times.compiled_ms, case.paired_ms or case.times.compiled_ms)
    outside = max(whole - inside, 0.0)
    if case.gpu and case.kernels_measured:
        outside = min(outside, _idle_ms(case) - waiting_ms(case)[0])
    return outside


def guards_ms(case: Case) -> float | None:
    """What a steady call on a CPU spends in guards and dispatch; None where it was not measured, or where the
    program's own Python runs between its graphs."""
    return None if case.gpu or _outside_name(case) != GUARDS else outside_graphs_ms(case)


def _running(case: Case) -> list[GraphCase]:
    """The graphs that run in a steady call, without those of a GPU's backward pass: where the host launches
    these, in a thread of autograd's own, older recorders did not look."""
    unseen = case.gpu and any(graph.in_process_ms is not None for graph in case.graphs)
    return [
        graph
        for graph in case.graphs
        if graph.runs and not (unseen and graph.in_process_ms is None and graph.artifacts.phase == "backward")
    ]


def _idle_ms(case: Case) -> float:
    """How long the GPU waits in a steady call."""
    return max((case.times.compiled_ms or 0.0) - case.kernels_ms, 0.0)


def _parts(case: Case) -> list[LedgerPart]:
    wall = case.times.compiled_ms
    if wall is None and not case.kernels_measured:
        return []
    if case.in_eager and wall is not None:
        return [LedgerPart(EAGER, wall, "calls")]
    if case.gpu and wall is not None and case.kernels_measured:
        return _parts_on_gpu(case)
    parts = []
    running = _running(case)
    inside = sum((graph_ms(graph) or 0.0) * graph.runs for graph in running)
    known = bool(running) and all(graph_ms(graph) is not None for graph in running)
    counted = all(graph.in_process_ms is not None for graph in running)
    if case.kernels_measured:
        parts += [LedgerPart(name, case.role_ms(role), "replay", "estimated") for name, role in PARTS]
        if known:
            # What no wrapper takes stays unexplained, as memory that the run alone touches first.
            most = sum(FAR_OFF * wrapper_ms(len(graph.launches)) * graph.runs for graph in running)
            gap = min(max(inside - case.kernels_ms, 0.0), most)
            source = "recorder - replay" if counted else "replay"
            parts.append(LedgerPart(WITHIN_GRAPHS, gap, source, "estimated"))
    elif known:
        # Of a graph on a GPU the recorder sees the host's side, and replay all of it.
        name = HOST_SIDE if case.gpu and counted else WHOLE_GRAPHS
        parts.append(
            LedgerPart(name, inside, "recorder")
            if counted
            else LedgerPart(name, inside, "replay", "estimated")
        )
    outside = outside_graphs_ms(case)
    if outside is not None:
        waits = case.gpu and not case.kernels_measured
        name = WAITING if waits else _outside_name(case)
        parts.append(LedgerPart(name, outside, "calls - recorder", _outside_how(case)))
    return parts


def _outside_name(case: Case) -> str:
    if case.ranks > 1:
        return BETWEEN_RANKS
    broken = case.facts.graph_breaks or any(event.kind == "graph_break" for event in case.events)
    return PYTHON if broken else GUARDS


def _outside_how(case: Case) -> How:
    """A difference between calls of one run and graphs of another says something only where both agree."""
    wall, paired = case.times.compiled_ms, case.paired_ms
    return "estimated" if wall is not None and paired is not None and apart(wall, paired) else "measured"


def _parts_on_gpu(case: Case) -> list[LedgerPart]:
    """The kernels, and what the GPU waits for the host: both work at once, so only the host's time that no
    kernel covers counts. Of that, what lies outside the graphs comes first, as no kernel runs before it."""
    parts = [
        LedgerPart(name, case.role_ms(role), "replay", "estimated")
        for name, role in PARTS
        if role != "transfer"
    ]
    waiting, measured = waiting_ms(case)
    moving = waiting + case.role_ms("transfer")
    parts.append(LedgerPart(TRANSFERS, moving, "calls - replay" if measured else "estimate", "estimated"))
    outside = outside_graphs_ms(case) or 0.0
    within = _idle_ms(case) - waiting - outside
    parts.append(LedgerPart(WITHIN_GRAPHS, within, "calls - replay", "estimated"))
    parts.append(LedgerPart(_outside_name(case), outside, "calls - recorder", _outside_how(case)))
    return parts


def _estimated(case: Case) -> tuple[LedgerPart, ...]:
    """Without any measurement: what the kernels would take by their size."""
    parts = [LedgerPart(name, case.role_ms(role), "estimate", "estimated") for name, role in PARTS]
    parts.append(LedgerPart(WITHIN_GRAPHS, case.wall_ms - case.kernels_ms, "estimate", "estimated"))
    return tuple(part for part in parts if part.ms > 0)


def _missing(case: Case) -> list[str]:
    missing = []
    times = case.times
    if case.uncalled:
        missing.append("times of calls: no run called what torch.compile made")
    elif times.compiled_ms is None:
        missing.append("times of calls: inspector capture --baseline -- COMMAND")
    elif times.eager_ms is None:
        missing.append("eager times: inspector capture --baseline -- COMMAND")
    if case.unread:
        missing.append("launches: a wrapper could not be read (cpp_wrapper, or cut short)")
    elif case.graphs and not case.kernels_measured and all(graph.in_cpp for graph in case.graphs):
        missing.append("times of kernels: replay does not run AOTInductor's code, which is C++ alone")
    elif case.graphs and not case.kernels_measured:
        here = (
            "inspector explain RUN --measure"
            if case.host is not None
            else "inspector replay RUN, on such a machine"
        )
        again = any(graph.replay is not None for graph in case.graphs if graph.runs)
        missing.append(f"times of kernels: {here}{', when nothing else runs' if again else ''}")
    return missing
