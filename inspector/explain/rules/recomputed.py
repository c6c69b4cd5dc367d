"""An expensive operator is computed in the loop that uses it, many times for each element of its result.

Looks at: evaluations of each FX node in the generated loops beside the elements of its output
(inspector.analysis.evaluations), and what they are of all that a kernel computes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from inspector.analysis.constants import constant_nodes
from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launch
from inspector.explain.estimate import memory_ms, peak
from inspector.explain.rule import Rule, Stage, severity_of, source_evidence
from inspector.model.explain import Finding
from inspector.model.waste import Evaluation
from inspector.units import size, times_each

LEAST_TIMES = 1.5
LEAST_EXTRA = 1 << 16
"""Evaluations beyond one for each element: fewer take less than a launch."""
LEAST_PART = 0.05
"""Of what a kernel computes; the weights of operators are coarse."""


def find(case: Case) -> Iterable[Finding]:
    """One finding for each kernel that computes something again and again."""
    for graph in case.graphs:
        again: dict[str, list[Evaluation]] = defaultdict(list)
        # What never changes is no producer of the program's: constant_work names it.
        constant = constant_nodes(graph.artifacts.fx_after)
        for item in graph.fusion.evaluations if graph.runs else ():
            often = item.times >= LEAST_TIMES and item.extra >= LEAST_EXTRA
            if often and not constant.issuperset(item.fx):
                again[item.group].append(item)
        for launch in graph.launches:
            groups = [group for group in graph.fusion.groups if launch.call.index in group.calls]
            items = [item for group in groups for item in again.get(group.name, ())]
            part = sum(item.part for item in items) / max(len(groups), 1)
            if part >= LEAST_PART:
                yield _finding(case, graph, launch, items, part)


def _finding(case: Case, graph: GraphCase, launch: Launch, items: list[Evaluation], part: float) -> Finding:
    worst = max(items, key=lambda item: item.part)
    ms = graph.ms(launch)
    most = case.within_call(min(ms * min(part, 1.0), _beyond_memory(case, graph, launch)))
    share = case.share(most)
    lines = {str(place): place for item in (worst, *items) for place in item.sources}
    return Finding(
        rule="recomputed",
        severity=severity_of(share),
        title=(
            f"{worst.operator} is computed {times_each(worst.times)} in {launch.name}: "
            f"{worst.evaluations:,} times for {worst.elements:,} elements"
        ),
        graph=graph.name,
        cost_ms=most,
        evidence=(
            *(source_evidence(case, place) for place in list(lines.values())[:2]),
            graph.launch_evidence(launch, _loop_text(items, launch)),
        ),
        advice=(
            f"have the result of {worst.operator} written once: y = y.as_strided(y.size(), y.stride()) makes "
            "torch keep it in memory (in inference; in training a custom operator does the same)"
        ),
        how="estimated",
        share=share,
        claims=(on_launch(graph, launch, (most / 2, most), "estimated"),),
    )


def _beyond_memory(case: Case, graph: GraphCase, launch: Launch) -> float:
    """What the launch takes beyond moving its bytes: computing less can't save more."""
    ms = graph.ms(launch)
    if launch.roofline_fraction is not None:
        return ms * max(0.0, 1 - launch.roofline_fraction)
    device = peak(case.facts.devices, graph.gpu, case.threads)
    return max(0.0, ms - memory_ms(launch.bytes or 0, device, graph.gpu) * graph.runs)


def _loop_text(items: list[Evaluation], launch: Launch) -> str:
    each = ", ".join(f"{item.operator} {times_each(item.times)}" for item in items[:4])
    moved = f", {size(launch.bytes)}" if launch.bytes else ""
    return f"{each}{moved}: {launch.name}"


RULE = Rule("recomputed", Stage.CODE, find)
