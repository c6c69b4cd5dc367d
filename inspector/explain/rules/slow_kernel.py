"""A generated kernel takes far longer than its memory traffic and arithmetic ask for, and no rule knows why.

Looks at: each kernel's time, in a profile or a replay, against the least that it could take on this machine;
without either, one that takes nearly all of its graph's time in the run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from inspector.analysis.dataflow import draws_seeds, operator
from inspector.analysis.steady import MOST
from inspector.analysis.traffic import meta_bytes
from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launch
from inspector.explain.cpp_loops import LONG_LAST, loop_nests
from inspector.explain.doubts import profile_fits
from inspector.explain.estimate import FACTOR, FAR_OFF
from inspector.explain.in_force import DESCENT, is_set, max_autotune
from inspector.explain.in_vain import KEPT_PADDING, PADDED
from inspector.explain.launches import code_line, gathers
from inspector.explain.least import Machine, achieved, least_of, machine_of
from inspector.explain.rule import (
    NEARLY_ALL,
    Rule,
    Stage,
    about,
    how_timed,
    severity_of,
    source_evidence,
    timed,
)
from inspector.explain.whole_operators import no_slower_than_aten
from inspector.model.account import ClaimHow, Interval
from inspector.model.explain import Finding, FindingHow, Trial
from inspector.model.fx import FxNode
from inspector.units import plural, ratio, size

from .parallel_in_loop import waiting

_GATHERS = ", as it fetches elements by index"
_FETCHES = frozenset({"index", "_unsafe_index", "gather", "index_select", "take", "embedding"})
_GATHER_ADVICE = (
    "sort the indices, or fetch whole rows: one element is used of each cache line or memory sector"
)
_BOUNDS = re.compile(r"\b(?:Min|Max|Abs)\(")
_PADS = re.compile(r"(?:replication|reflection)_pad")
_STENCIL = 5
"""Places that it reads at least: a cross of neighbours."""
_TABLE_ADVICE = (
    "compute what the table ({}) holds, which goes in vectors, or keep what was looked up: such a table lies "
    "in the nearest cache, and is read element by element all the same"
)
_NEAREST_BYTES = 32 << 10
"""The first-level data cache of a core, which few CPUs have less of."""


def find(case: Case) -> Iterable[Finding]:
    # What a busy machine took is far from any bound.
    if (case.busy and not case.gpu) or not profile_fits(case):
        return
    machine = machine_of(case)
    # Where ATen's own kernel for the same takes as long, what bounds it is the operator's arithmetic.
    as_aten = no_slower_than_aten(case)
    slow = [
        (over, graph, launch)
        for graph, launch in case.launches()
        if (graph.name, launch.call.index) not in as_aten
        and (over := _over_least(machine, graph, launch)) is not None
        # Threads that start in its loops may be why it takes most of that: parallel_in_loop says so.
        and waiting(launch)[1][1] * graph.runs <= MOST * over[1]
    ]
    if not slow:
        return
    slow.sort(key=lambda item: -sum(item[0]))
    (_, most), graph, launch = slow[0]
    how = how_timed(item for _, _, item in slow)
    cost = sum(sum(over) / 2 for over, _, _ in slow)
    share = case.share(cost)
    by_index = any(map(gathers, launch.leaves))
    evidence = [
        owner.launch_evidence(item, f"{timed(item, owner.ms(item))}, {size(item.bytes or 0)}: {item.name}")
        for _, owner, item in slow[:2]
    ]
    fetching = _fetching(graph, launch) if by_index else []
    lines = {str(node.source): node.source for node in fetching if node.source is not None}
    places = tuple(lines.values()) or launch.sources
    evidence += [source_evidence(case, place) for place in places[:2]]
    bounded = 0 if by_index else _bounded(launch)
    short = None if by_index or bounded else _short(launch)
    if short is not None:
        line, held, lanes = short
        text = f"a loop by vectors of {lanes} elements over {held}"
        evidence.insert(1, graph.place("output_code.py", code_line(launch.kernel, line), text))
    more = f", and {plural(len(slow) - 1, 'other kernel')} like it" if len(slow) > 1 else ""
    alone = PADDED if bounded else LONG_LAST if short is not None else _advice(case, graph)
    yield Finding(
        rule="slow_kernel",
        severity=severity_of(share),
        title=f"{launch.name} {_how_far(machine, graph, launch, most)}{_why(by_index, bounded, short)}{more}",
        graph=graph.name,
        cost_ms=cost,
        claims=tuple(on_launch(owner, item, over, _CLAIM[how_timed([item])]) for over, owner, item in slow),
        evidence=tuple(evidence),
        advice=_gathering(graph, fetching) if by_index else alone,
        how=how,
        share=share,
        trial=None if by_index else KEPT_PADDING if bounded else _trial(graph),
    )


_LEAST_USEFUL = 0.1
"""Of what it computes: work in vain is counted with coarse weights, and more of it than nine tenths is not
believed."""
_CLAIM: dict[FindingHow, ClaimHow] = {
    "measured": "profiled",
    "replayed": "replayed",
    "estimated": "estimated",
}


def _over_least(machine: Machine, graph: GraphCase, launch: Launch) -> Interval | None:
    """What a generated kernel takes over the least, per steady call; None for one that takes no longer than
    such kernels do, or whose time is a guess.

    Without a replay or a profile the time of the graph in the run is shared among its launches, which says
    enough about one that takes nearly all of it.
    """
    known = launch.measured or (
        graph.in_process_ms is not None and launch.ms >= NEARLY_ALL * graph.in_process_ms
    )
    if launch.role not in ("generated", "copy") or not known or not graph.runs or draws_seeds(launch.call):
        return None
    # For all that it does, asked for or not: work in vain has rules of its own.
    (low, high), _ = least_of(machine, graph, replace(launch, bytes_asked=None, useful=1.0))
    high /= max(launch.useful, _LEAST_USEFUL)
    # A share of the graph's time is an estimate too.
    high *= FACTOR if not launch.measured and machine.peaks is not None else 1.0
    if launch.measured and launch.ms > FAR_OFF * low and any(map(gathers, launch.leaves)):
        if not graph.gpu and launch.expected_ms is not None and launch.ms <= launch.expected_ms:
            return None
        # What single elements have to take nobody knows; in whole rows it would be their bytes.
        return (0.0, (launch.ms - low) * graph.runs)
    return ((launch.ms - high) * graph.runs, (launch.ms - low) * graph.runs) if launch.ms > high else None


def _fetching(graph: GraphCase, launch: Launch) -> list[FxNode]:
    """The operators that fetch elements by index."""
    nodes = (node for name, node in graph.artifacts.fx_nodes.items() if name in launch.fx)
    return [node for node in nodes if operator(node.target) in _FETCHES]


def _gathering(graph: GraphCase, fetching: Sequence[FxNode]) -> str:
    """What to do about operators that fetch elements by index out of their first argument."""
    nodes = graph.artifacts.fx_nodes
    tables = [nodes.get(node.inputs[0]) if node.inputs else None for node in fetching]
    sizes = [meta_bytes(table) for table in tables]
    if graph.gpu or not sizes or 0 in sizes or max(sizes) > _NEAREST_BYTES:
        return _GATHER_ADVICE
    return _TABLE_ADVICE.format(size(max(sizes)))


def _short(launch: Launch) -> tuple[int, int, int] | None:
    """(line in the kernel, elements that a vector has, that it holds) of the largest loop nest of a kernel
    for a CPU, where its vectors are at most half full. The two parts of complex numbers have to lie side by
    side."""
    own = launch.call.kind == "cpp" and "complex" not in launch.name
    nests = loop_nests(launch.source) if own else ()
    largest = max(nests, key=lambda nest: (nest.points or 0) * max(nest.statements, 1), default=None)
    if largest is None or largest.filled is None or 2 * largest.filled[0] > largest.filled[1]:
        return None
    return largest.line, *largest.filled


def _bounded(launch: Launch) -> int:
    """How many reads of a stencil find their places by minima and maxima, as a tensor is padded that is never
    made (torch/_inductor/index_propagation.py); 0 where they are few, or of something else, as resampling."""
    places = {
        text
        for leaf in launch.leaves
        if leaf.body is not None
        for _, text in leaf.body.indexing
        if _BOUNDS.search(text) is not None
    }
    return len(places) if len(places) >= _STENCIL and _PADS.search(launch.name) is not None else 0


def _why(by_index: bool, bounded: int, short: tuple[int, int, int] | None) -> str:
    if by_index:
        return _GATHERS
    if bounded:
        return f", and finds {bounded} places in padded tensors, which are never made, anew for each element"
    if short is None:
        return ""
    _, held, lanes = short
    return f", with {held} elements in vectors that hold {lanes}"


def _how_far(machine: Machine, graph: GraphCase, launch: Launch, over: float) -> str:
    rate = achieved(machine, launch.bytes or 0, launch.ms)
    if launch.measured and rate:
        return rate
    ms = graph.ms(launch)
    least = ms - over
    asked = f"{ratio(ms / least)} what its bytes and arithmetic ask for" if least else "for little"
    return f"takes {about(ms, how_timed([launch]))}, {asked}"


def _advice(case: Case, graph: GraphCase) -> str:
    if not graph.gpu:
        return "replay it alone (inspector replay): whether it is its code, or what runs beside it"
    ways = [] if max_autotune(case, graph) else ['mode="max-autotune"']
    ways += [] if is_set(graph, DESCENT) else [DESCENT]
    tried = f"try {' or '.join(ways)}, and " if ways else ""
    return f"{tried}see the kernel: inspector replay"


def _trial(graph: GraphCase) -> Trial | None:
    return Trial(config=((DESCENT, True),)) if graph.gpu and not is_set(graph, DESCENT) else None


RULE = Rule("slow_kernel", Stage.CODE, find, place_only=True)
