"""The same is computed in every call: a table of positions, a window, a bias that no input goes into.

Looks at: FX nodes that depend on no input (inspector.analysis.constants), and what their operators are of
all that a kernel computes. A function behind ``functools.lru_cache`` is traced like any other: what eager
computes once is then in the graph (torch/_dynamo/variables/functions.py: WrapperUserFunctionVariable).
"""

from __future__ import annotations

from collections.abc import Iterable

from inspector.analysis.constants import constant_nodes
from inspector.analysis.steady import RUN_TO_RUN
from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launches
from inspector.explain.in_vain import constant_parts, read_instead_ms
from inspector.explain.rule import Rule, Stage, severity_of, source_evidence
from inspector.model.account import Interval
from inspector.model.explain import Finding
from inspector.model.source import SourceLocation
from inspector.model.waste import Evaluation
from inspector.units import plural

LEAST_EVALUATIONS = 1 << 14
"""Fewer take less than a launch."""
LEAST_SHARE = 0.01
"""Of a call: less is not worth a line of the program."""


def find(case: Case) -> Iterable[Finding]:
    """One finding for each graph."""
    for graph in case.graphs:
        constant = constant_nodes(graph.artifacts.fx_after) if graph.runs else frozenset()
        items = [item for item in graph.fusion.evaluations if constant.issuperset(item.fx)]
        parts = constant_parts(graph) if items else {}
        costs = [
            (read_instead_ms(case, graph, launch, part, constant), launch)
            for launch in graph.launches
            if (part := parts.get(launch.call.index, 0.0)) >= RUN_TO_RUN
        ]
        evaluated = sum(item.evaluations for item in items)
        cost = case.within_call(sum(ms[1] for ms, _ in costs))
        share = case.share(cost)
        worth = share is None or share >= LEAST_SHARE
        if cost and worth and evaluated >= LEAST_EVALUATIONS:
            yield _finding(case, graph, items, costs, cost, evaluated)


def _finding(
    case: Case,
    graph: GraphCase,
    items: list[Evaluation],
    costs: list[tuple[Interval, Launch]],
    cost: float,
    evaluated: int,
) -> Finding:
    share = case.share(cost)
    lines: dict[str, SourceLocation] = {}
    for item in sorted(items, key=lambda item: -item.evaluations):
        lines.update({str(place): place for place in item.sources})
    operators = list(dict.fromkeys(item.operator for item in items))
    cached = _cached(case, lines.values())
    behind = f": {cached} keeps its results in eager, and tracing looks through that" if cached else ""
    _, launch = max(costs, key=lambda item: item[0][1])
    return Finding(
        rule="constant_work",
        severity=severity_of(share),
        title=(
            f"{', '.join(operators[:3])} of what never changes: {plural(evaluated, 'evaluation')} "
            f"in every call{behind}"
        ),
        graph=graph.name,
        cost_ms=cost,
        evidence=(
            *(source_evidence(case, place) for place in list(lines.values())[:2]),
            graph.launch_evidence(launch, f"computed again in each launch: {launch.name}"),
        ),
        advice=(
            "compute it once outside of the compiled function: a tensor that is handed in, a buffer of the "
            "module, or a global that is made before the first call"
        ),
        how="estimated",
        share=share,
        claims=on_launches(((graph, launch, ms) for ms, launch in costs), "estimated", cost),
    )


def _cached(case: Case, lines: Iterable[SourceLocation]) -> str:
    for place in lines:
        for program in case.programs_of(place):
            if name := program.cached_function(place.line):
                return name
    return ""


RULE = Rule("constant_work", Stage.PROGRAM, find, other_work=True)
