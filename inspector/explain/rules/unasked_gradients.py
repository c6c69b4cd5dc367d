"""A backward pass computes gradients of weights, and only those of other tensors are asked for.

Looks at: which tensors ``autograd.grad`` was given in all runs of a backward graph (the recorder), and what
of the graph leads to no gradient of these (inspector/analysis/unasked.py). Eager computes none of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from inspector.analysis.call_nodes import core_nodes
from inspector.analysis.dataflow import shown
from inspector.analysis.unasked import half_unasked
from inspector.explain.case import CALLED, Case, GraphCase, Launch
from inspector.explain.claims import on_launch
from inspector.explain.in_vain import computes
from inspector.explain.rule import Rule, Stage, about, how_timed, severity_of, source_evidence, timed
from inspector.model.account import Interval
from inspector.model.explain import Finding
from inspector.units import plural

_OF_BOTH: Interval = (1 / 3, 2 / 3)
"""Of what a convolution's backward takes, its weight's gradient: as many operations as its input's, which one
algorithm does in up to half of the time of another."""
_ADVICE = (
    "model.requires_grad_(False) before these calls, if the same calls train nothing: a graph of its own is "
    "compiled then, whose backward has no gradients of weights"
)


def find(case: Case) -> Iterable[Finding]:
    found = [item for graph in case.graphs if graph.runs for item in _unasked(graph)]
    if not found:
        return
    found.sort(key=lambda item: -sum(item[2]))
    how = how_timed(launch for _, launch, _ in found)
    cost = case.within_call(sum(sum(ms) / 2 for _, _, ms in found))
    share = case.share(cost)
    evidence = [
        graph.launch_evidence(launch, f"{timed(launch, graph.ms(launch))}: {launch.name}")
        for graph, launch, _ in found[:2]
    ]
    places = dict.fromkeys(place for _, launch, _ in found for place in launch.sources[:1])
    shapes = "tensors of " + " and ".join("x".join(map(str, shape)) for shape in found[0][0].asked[:2])
    yield Finding(
        rule="unasked_gradients",
        severity=severity_of(share),
        title=(
            f"{about(cost, how)} a call in {plural(len(found), 'kernel')} of the backward pass computes "
            f"gradients that nobody asks for: only those of {shapes} are, and eager computes no others"
        ),
        graph=found[0][0].name,
        cost_ms=cost,
        evidence=(*(source_evidence(case, place) for place in list(places)[:2]), *evidence),
        advice=_ADVICE,
        how=how,
        share=share,
        claims=tuple(
            on_launch(graph, launch, ms, "profiled" if launch.measured else "estimated")
            for graph, launch, ms in found
        ),
    )


def _unasked(graph: GraphCase) -> Iterable[tuple[GraphCase, Launch, Interval]]:
    """Launches of which all, or a part, leads to no gradient that is asked for, with its milliseconds of a
    steady call."""
    unasked, nodes = graph.unasked, graph.artifacts.fx_nodes
    for launch in graph.launches if unasked else ():
        names = [name for name in (shown(name, nodes) for name in launch.fx) if computes(nodes, name)]
        if launch.role in CALLED:
            names = list(core_nodes(launch.call, [nodes[name] for name in names])) or names
        if names and unasked.issuperset(names):
            yield graph, launch, (graph.ms(launch), graph.ms(launch))
        elif any(half_unasked(nodes, name, unasked) for name in names):
            low, high = _OF_BOTH
            yield graph, launch, (low * graph.ms(launch), high * graph.ms(launch))


RULE = Rule("unasked_gradients", Stage.LOST, find, other_work=True)
