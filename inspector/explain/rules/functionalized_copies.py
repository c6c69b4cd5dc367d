"""A write into a part of a tensor became a rewrite of the whole tensor.

Looks at: bytes that kernels move for a tensor which the program writes in parts, beside what writing them
takes (inspector.analysis.as_written). Torch leaves one write into an input in place, and those through a
strided view of the tensor; what it takes for better computed anew it does not
(torch/_inductor/fx_passes/reinplace.py: should_reinplace_scatter).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice

from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launches, on_whole
from inspector.explain.least import Machine, bytes_ms, hidden_bytes, machine_of
from inspector.explain.rule import NEARLY_ALL, Rule, Stage, how_timed, severity_of, source_evidence, timed
from inspector.model.account import Claim
from inspector.model.explain import KEEP_IN_PLACE, Finding, FindingHow, Trial
from inspector.units import asked_text, plural, size

_KEPT = (
    f"keep the writes in place: {KEEP_IN_PLACE} before the first call, once with "
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES=1, as caches don't know of it; or "
)
_STRIDED = (
    "write through a strided view of the whole tensor, which torch leaves in place: "
    "whole.as_strided(size, strides, offset).copy_(value), with the part's own as numbers"
)
_OWN_TENSORS = (
    "make each part that is written a tensor of its own, for example a list with one for each layer"
)

_LINES = 3
"""Of the program's that write."""
LARGE = 0.25
"""Of what a kernel moves: with so much that nobody asked for it is made of loops that rewrite."""


_Cost = tuple[float, int, GraphCase, Launch]
"""Milliseconds and bytes that a launch spends on rewriting."""


def find(case: Case) -> Iterable[Finding]:
    """One finding for all graphs, as one setting keeps the writes of all in place."""
    machine = machine_of(case)
    found = [
        (graph.fusion.rewritten, own)
        for graph in case.graphs
        if graph.runs and (own := _costs(machine, graph))
    ]
    if not found:
        return
    found.sort(key=lambda both: -both[1][0][0])
    items = [item for own, _ in found for item in own]
    costs = sorted((cost for _, own in found for cost in own), key=lambda cost: -cost[0])
    how = how_timed(launch for *_, launch in costs)
    cost = case.within_call(sum(ms for ms, *_ in costs))
    share = case.share(cost)
    places = dict.fromkeys(place for item in items for place in item.sources[:2])
    evidence = [source_evidence(case, place) for place in islice(places, _LINES)]
    for ms, lost, graph, launch in costs[:2]:
        text = f"{timed(launch, ms)}, {size(lost)} that nobody asked for: {launch.name}"
        evidence.append(graph.launch_evidence(launch, text))
    tensors = "a tensor rewrite all of it" if len(items) == 1 else f"{len(items)} tensors rewrite all of them"
    moved, asked = sum(item.moved for item in items), sum(item.asked for item in items)
    by_index = all(any(item.by_index for item in own) for own, _ in found)
    yield Finding(
        rule="functionalized_copies",
        severity=severity_of(share),
        title=(
            f"{plural(sum(len(item.writes) for item in items), 'write')} into parts of {tensors}: "
            f"{asked_text(moved, asked)}"
        ),
        graph=costs[0][2].name,
        cost_ms=cost,
        evidence=tuple(evidence),
        advice=_OWN_TENSORS if by_index else f"{_KEPT}{_STRIDED}; or {_OWN_TENSORS}",
        how=how,
        share=share,
        trial=Trial(in_place=True),
        claims=_claims(case, costs, how, cost),
    )


def _costs(machine: Machine, graph: GraphCase) -> list[_Cost]:
    """Of each launch, the most expensive first: the part of its time that is of its bytes, and of one whose
    arithmetic may hide these no more than they take by themselves."""
    wasted: Counter[str] = Counter()
    for item in graph.fusion.rewritten:
        wasted.update(dict(item.groups))
    costs = []
    for launch in graph.launches:
        groups = graph.groups_of(launch)
        moved = sum(group.bytes_moved or 0 for group in groups)
        lost = sum(wasted[group.name] for group in groups)
        if moved and lost and launch.ms > 0:
            ms = launch.ms * lost / moved
            if hidden_bytes(machine, graph, launch):
                ms = min(ms, bytes_ms(machine, graph, launch, lost))
            costs.append((ms * graph.runs, lost, graph, launch))
    return sorted(costs, key=lambda cost: -cost[0])


def _claims(case: Case, costs: list[_Cost], how: FindingHow, cost: float) -> tuple[Claim, ...]:
    """What each launch surely loses by it, its part of what the launch moves; up to all that it takes longer
    than in eager, which has none of it, where that part is large: a loop that rewrites a tensor has to tell
    by its index what is new, which takes longer than its bytes. Where the launch is nearly all that was
    profiled it may be all that a call lost."""
    slower = {place: (number, block) for number, block in case.slower for place in block.launches}
    joined = case.sides.joined if case.sides is not None else None
    worked = joined.compiled.work_ms if joined is not None and joined.compiled is not None else 0.0
    claims: list[Claim] = []
    for claim, (_, lost, graph, launch) in zip(
        on_launches(((graph, launch, ms) for ms, _, graph, launch in costs), how, cost), costs, strict=True
    ):
        number, block = slower.get((graph.name, launch.call.index), (None, None))
        if number is None or block is None or lost < LARGE * (launch.bytes or 0):
            claims.append(claim)
            continue
        most = max(claim.ms[1], block.difference_ms)
        claims.append(Claim(number, "eager", (claim.ms[0], most), "profiled"))
        call = (case.times.compiled_ms or 0.0) - (case.times.eager_ms or 0.0)
        if case.times.outcome == "slower" and graph.ms(launch) >= NEARLY_ALL * worked > 0 and call > most:
            claims.append(on_whole((0.0, call - most), "measured", "eager"))
    return tuple(claims)


RULE = Rule("functionalized_copies", Stage.CODE, find, other_work=True)
