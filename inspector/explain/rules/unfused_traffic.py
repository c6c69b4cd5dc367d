"""Kernels write what the next kernel reads again: memory traffic that fusing would save.

Looks at: pairs of generated kernels that share memory and did not fuse, in bytes, with torch's
reason; kernels that may take as long as they do for their bytes, at the rates of this machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launches
from inspector.explain.least import Machine, bounded_by_bytes, bytes_ms, hidden_bytes, machine_of
from inspector.explain.rule import Rule, Stage, severity_of
from inspector.model.account import Claim
from inspector.model.explain import Evidence, Finding, Trial
from inspector.model.fusion import FusionGroup, Missed
from inspector.model.source import Size
from inspector.units import size

LEAST_BYTES = 1 << 20
"""Less than this stays in a cache between two kernels."""


def find(case: Case) -> Iterable[Finding]:
    """One finding, for the graph where it costs most."""
    findings = [
        finding for graph in case.graphs if graph.runs and (finding := _of_graph(case, graph)) is not None
    ]
    if findings:
        yield max(findings, key=lambda finding: finding.cost_ms or 0.0)


def _of_graph(case: Case, graph: GraphCase) -> Finding | None:
    machine = machine_of(case)
    generated = [
        launch
        for launch in graph.launches
        if launch.role in ("generated", "copy") and bounded_by_bytes(machine, graph, launch)
    ]
    calls = {launch.call.index for launch in generated}
    missed = [pair for pair in graph.fusion.missed if _counts(graph, pair, calls)]
    moved = sum(launch.bytes or 0 for launch in generated)
    wasted = min(_distinct_bytes(graph, missed, calls), moved)
    if wasted < LEAST_BYTES or not moved:
        return None
    # No more than moving it takes: what else these kernels do would have to be done all the same.
    costs = [
        (graph, item, min(graph.ms(item), bytes_ms(machine, graph, item, item.bytes or 0) * graph.runs))
        for item in generated
    ]
    cost = sum(ms for _, _, ms in costs) * wasted / moved
    share = case.share(cost)
    first = missed[0]
    evidence = []
    for pair in missed[:3]:
        text = f"{size(pair.bytes or 0)} between {pair.first} and {pair.second}: {pair.plain or pair.reason}"
        if pair.line is not None and case.log_path:
            evidence.append(Evidence(case.log_path, pair.line, text))
        else:
            evidence.append(graph.place("ir_post_fusion.txt", _line(graph, pair.first), text))
        for location in (*pair.first_sources[:1], *pair.second_sources[:1]):
            evidence.append(Evidence(location.path, location.line, location.code or ""))
    return Finding(
        rule="unfused_traffic",
        # Bytes are counted; that torch could have fused these, and what it would win, nobody has seen.
        severity=severity_of(share, at_most="medium"),
        title=(
            f"{size(wasted)} of {size(moved)} moved by generated kernels could be saved by "
            f"fusing: {first.plain or first.reason}"
        ),
        graph=graph.name,
        cost_ms=cost,
        claims=_claims(machine, costs, cost),
        evidence=tuple(evidence),
        advice=(
            first.advice if first.advice and first.category != "other" else "see each pair: inspector fusions"
        ),
        share=share,
        trial=_trial(first),
    )


def _counts(graph: GraphCase, pair: Missed, calls: AbstractSet[int]) -> bool:
    """Both sides are generated code that could share a loop, one of them in `calls`, which bytes bound; the
    bytes are known, and no third kernel needs the one for the other: a sum over everything has to end before
    what divides by it begins; nor does one sum down the columns of what the other writes by rows."""
    groups = [group for name in (pair.first, pair.second) if (group := graph.fusion.group(name)) is not None]
    own = len(groups) == 2 and not any(group.is_wall for group in groups)
    if not own or not pair.bytes or pair.between or not pair.possible:
        return False
    if not any(calls & set(group.calls) for group in groups):
        return False
    first, second = (_points(graph, group) for group in groups)
    return bool(first & second)


def _points(graph: GraphCase, group: FusionGroup) -> set[Size]:
    """How often the loops of a group run, with their reductions and without. What reads windows of another's
    result, or spreads it, runs more often or less, and in one loop would compute it again for each reader."""
    points: set[Size] = set()
    for node in graph.fusion.nodes:
        if node.name in group.nodes:
            for loops, reduced in node.extents:
                whole = loops * reduced if isinstance(loops, int) and isinstance(reduced, int) else loops
                points |= {loops, whole}
    return points


def _claims(
    machine: Machine, costs: Sequence[tuple[GraphCase, Launch, float]], cost: float
) -> tuple[Claim, ...]:
    """What each may save; surely nothing of one whose arithmetic may hide it, by what is expected of that."""
    hidden = {
        (graph.name, launch.call.index) for graph, launch, _ in costs if hidden_bytes(machine, graph, launch)
    }
    return tuple(
        replace(claim, ms=(0.0, claim.ms[1])) if (claim.graph, claim.call) in hidden else claim
        for claim in on_launches(costs, "estimated", cost)
    )


def _line(graph: GraphCase, name: str) -> int | None:
    """Where the scheduler's entry of that name begins."""
    schedule = graph.artifacts.post
    return next((node.span.first for node in schedule.nodes if node.name == name), None) if schedule else None


def _distinct_bytes(graph: GraphCase, missed: list[Missed], calls: AbstractSet[int]) -> int:
    """The pairs' bytes, each buffer once: of three kernels that share one, two reads can be saved. Of a pair
    of which bytes bound one kernel only half of them may be that one's."""
    by_buffer: dict[str, list[int]] = {}
    for pair in missed:
        groups = [graph.fusion.group(name) for name in (pair.first, pair.second)]
        own = sum(group is not None and bool(calls & set(group.calls)) for group in groups)
        saved = (pair.bytes or 0) * own // 2
        shares = [access.bytes or 0 for access in pair.buffers]
        whole = sum(shares) or 1
        for access in pair.buffers:
            by_buffer.setdefault(access.memory, []).append(saved * (access.bytes or 0) // whole)
    return sum(max(amounts) for amounts in by_buffer.values())


def _trial(pair: Missed) -> Trial | None:
    if pair.category == "limit":
        return Trial(config=(("max_fusion_size", 1024),))
    if pair.category == "too_far":
        return Trial(config=(("aggressive_fusion", True),))
    return None


RULE = Rule("unfused_traffic", Stage.CODE, find, other_work=True)
