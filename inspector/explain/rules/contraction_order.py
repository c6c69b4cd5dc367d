"""Products of three tensors and more whose order takes many times the multiplications of another.

Looks at: trees of matrix products in the FX graph, an einsum's among them, with the multiplications of each
order (inspector/analysis/contractions.py). Any order gives the same but for how it is rounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from inspector.analysis.contractions import Contraction, contractions
from inspector.analysis.steady import RUN_TO_RUN
from inspector.explain.case import CALLED, Case, GraphCase, Launch
from inspector.explain.claims import on_launches
from inspector.explain.rule import Rule, Stage, about, how_timed, severity_of, source_evidence, timed
from inspector.model.explain import Finding
from inspector.units import plural

TIMES = 2.0
"""The multiplications of an order over those of the best, from which on it is told: smaller products reach a
smaller part of a machine's rate."""


def find(case: Case) -> Iterable[Finding]:
    """One finding for each tree of products."""
    for graph in case.graphs:
        fx = graph.artifacts.fx_after
        if fx is None or not graph.runs:
            continue
        for tree in contractions(fx, graph.hints):
            launches = [launch for launch in graph.launches if _of(launch, tree)]
            if launches and tree.taken >= TIMES * tree.least:
                finding = _finding(case, graph, tree, launches)
                if finding.share is None or finding.share >= RUN_TO_RUN:
                    yield finding


def _of(launch: Launch, tree: Contraction) -> bool:
    return launch.role in CALLED and any(name in tree.nodes for name in launch.fx)


def _finding(case: Case, graph: GraphCase, tree: Contraction, launches: Sequence[Launch]) -> Finding:
    launches = sorted(launches, key=lambda launch: -launch.ms)
    saved = 1 - tree.least / tree.taken
    whole = sum(graph.ms(launch) for launch in launches)
    cost = case.within_call(whole * saved)
    share = case.share(cost)
    places = list(dict.fromkeys(place for launch in launches for place in launch.sources[:1]))
    evidence = [source_evidence(case, place) for place in places[:2]]
    evidence += [
        graph.launch_evidence(launch, f"{timed(launch, launch.ms)}: {launch.name}") for launch in launches[:2]
    ]
    times = tree.taken / tree.least
    claims = on_launches([(graph, launch, graph.ms(launch)) for launch in launches], "estimated", cost)
    return Finding(
        rule="contraction_order",
        severity=severity_of(share),
        title=(
            f"{about(case.within_call(whole), how_timed(launches))} a call in products of "
            f"{plural(len(tree.leaves), 'tensor')} in an order that takes {_times(times)} the "
            "multiplications of another"
        ),
        graph=graph.name,
        cost_ms=cost,
        claims=claims,
        evidence=tuple(evidence),
        advice=f"multiply in this order: {_order(tree)}",
        how="estimated",
        share=share,
    )


def _times(times: float) -> str:
    return f"{times:.1f} times" if times < 10 else f"{round(times):,} times"


def _order(tree: Contraction) -> str:
    return ", then ".join(f"{_shape(one)} with {_shape(other)}" for one, other in tree.order)


def _shape(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "a number"


RULE = Rule("contraction_order", Stage.PROGRAM, find, other_work=True)
