"""A kernel for a CPU keeps masks in memory: what a comparison gives that a backward pass needs, a dropout, or
the program itself. They become bools one by one.

Looks at: loop nests of generated C++ with ``at::vec`` that store to a ``bool*``, how many elements these
have, and what that takes (inspector.explain.bool_stores).
"""

from __future__ import annotations

from collections.abc import Iterable

from inspector.explain.bool_stores import bool_stores
from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launch
from inspector.explain.rule import Rule, Stage, about, severity_of, source_evidence, timed
from inspector.model.explain import LOOP_VECTORS, Finding, Trial
from inspector.model.source import SourceLocation
from inspector.units import plural

_ADVICE = (
    f"let g++ make vectors of these loops: {LOOP_VECTORS}, and time it: backward passes can become slower; "
    "or keep numbers in place of masks: (x > 0).to(x.dtype)"
)
_BESIDE = (
    "; or have ATen draw a dropout's numbers, torch._inductor.config.fallback_random = True: which wins more "
    "differs, time both"
)


def find(case: Case) -> Iterable[Finding]:
    every = [(graph, launch, bool_stores(case, graph, launch)) for graph, launch in case.launches()]
    items = sorted(
        (item for item in every if item[2].ms[1] > 0), key=lambda item: -item[2].with_numbers_ms[1]
    )
    if not items:
        return
    cost = case.within_call(sum(masks.with_numbers_ms[1] for _, _, masks in items))
    share = case.share(cost)
    evidence = []
    for graph, launch, masks in items[:3]:
        text = f"{timed(launch, launch.ms)}, {masks.elements:,} bools: {launch.name}"
        evidence.append(graph.launch_evidence(launch, text))
        evidence += [source_evidence(case, place) for place in _lines(graph, launch)[:1]]
    elements = round(sum(masks.elements * graph.runs for graph, _, masks in items))
    numbers = round(sum(masks.numbers * graph.runs for graph, _, masks in items))
    of_numbers = f", with {numbers:,} random numbers drawn alike" if numbers else ""
    kernels = f"{plural(len(items), 'kernel')} {'turns' if len(items) == 1 else 'turn'}"
    yield Finding(
        rule="bool_masks",
        severity=severity_of(share),
        title=(
            f"{about(cost, 'estimated')} a call in masks of {elements:,} elements, which {kernels} into "
            f"bools one by one{of_numbers}"
        ),
        graph=items[0][0].name,
        cost_ms=cost,
        claims=tuple(
            on_launch(graph, launch, masks.with_numbers_ms, "estimated") for graph, launch, masks in items
        ),
        evidence=tuple(evidence),
        advice=_ADVICE + (_BESIDE if numbers else ""),
        how="estimated",
        share=share,
        trial=Trial(loop_vectors=True),
    )


def _lines(graph: GraphCase, launch: Launch) -> tuple[SourceLocation, ...]:
    """Where masks are made."""
    nodes = graph.artifacts.fx_nodes
    own = [nodes[name] for name in launch.fx if name in nodes]
    made = [node.source for node in own if node.meta is not None and node.meta.dtype == "bool"]
    return tuple(place for place in made if place is not None) or launch.sources


RULE = Rule("bool_masks", Stage.LOST, find)
"""Eager's kernels have vectors of bools."""
