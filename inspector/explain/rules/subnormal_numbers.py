"""A CPU takes some hundred cycles for each operation on numbers that are too small for a float's usual form.

Looks at: the part of the elements of a graph's inputs that were subnormal when the recorder last looked
(inspector/capture/recorder/subnormal.py), and which launches read them. State that decays stays there: the
smallest such number times 0.8 is itself again.
"""

from __future__ import annotations

from collections.abc import Iterable

from inspector.analysis.dataflow import shown
from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launch
from inspector.explain.least import Machine, least_of, machine_of
from inspector.explain.rule import Rule, Stage, about, severity_of, source_evidence, timed
from inspector.model.account import Interval
from inspector.model.explain import Finding, Trial
from inspector.units import percent

LEAST_PART = 0.001
"""Of a tensor's elements. Of fewer few of the vectors that a loop takes have one, and only those are slow."""
SURE_PART = 0.1
"""Then nearly every vector of 8 has one, and what a kernel takes over its work is theirs."""
_ADVICE = (
    "torch.set_flush_denormal(True) at the program's start, before threads are started that take it over: "
    "such numbers are 0 then; or set to 0 what has decayed"
)


def find(case: Case) -> Iterable[Finding]:
    """One finding for each graph."""
    if case.gpu:
        return
    machine = machine_of(case)
    for graph in case.graphs:
        small = {name: part for name, part in graph.subnormal.items() if part >= LEAST_PART}
        items = [item for launch in graph.launches if (item := _item(machine, graph, launch, small))]
        if graph.runs and items:
            yield _finding(case, graph, small, sorted(items, key=lambda item: -item[1][1]))


def _item(
    machine: Machine, graph: GraphCase, launch: Launch, small: dict[str, float]
) -> tuple[Launch, Interval, str] | None:
    """A launch that reads such numbers, what they may cost in a call, and which input has them."""
    nodes = graph.artifacts.fx_nodes
    read = {
        shown(name, nodes) for made in launch.fx if made in nodes for name in nodes[made].inputs
    } & small.keys()
    if not read:
        return None
    least, usual = least_of(machine, graph, launch)[0]
    worst = max(read, key=small.__getitem__)
    over = max(launch.ms - least, 0.0) * graph.runs
    sure = max(launch.ms - usual, 0.0) * graph.runs if small[worst] >= SURE_PART else 0.0
    return (launch, (sure, over), worst) if over > 0 else None


def _finding(
    case: Case, graph: GraphCase, small: dict[str, float], items: list[tuple[Launch, Interval, str]]
) -> Finding:
    cost = case.within_call(sum(ms[1] for _, ms, _ in items))
    share = case.share(cost)
    worst = max((name for _, _, name in items), key=small.__getitem__)
    node = graph.artifacts.fx_nodes[worst]
    shape = "x".join(map(str, node.meta.shape)) if node.meta is not None else ""
    evidence = []
    for launch, _, name in items[:3]:
        text = f"{timed(launch, launch.ms)}, reads {percent(small[name])} subnormal numbers: {launch.name}"
        evidence.append(graph.launch_evidence(launch, text))
        evidence += [source_evidence(case, place) for place in launch.sources[:1]]
    took = about(case.within_call(sum(graph.ms(launch) for launch, _, _ in items)))
    of_what = f"an input of {shape}" if shape else "an input"
    return Finding(
        rule="subnormal_numbers",
        severity=severity_of(share),
        title=(
            f"{percent(small[worst])} of {of_what} are subnormal numbers (in float32 below 1.2e-38), which "
            f"a CPU computes with a hundred times as slowly: {took} a call in what reads them"
        ),
        graph=graph.name,
        cost_ms=cost,
        claims=tuple(on_launch(graph, launch, ms, "estimated") for launch, ms, _ in items),
        evidence=tuple(evidence),
        advice=_ADVICE,
        how="estimated",
        share=share,
        trial=Trial(state=(("set_flush_denormal", "True"),)),
    )


RULE = Rule("subnormal_numbers", Stage.PROGRAM, find, other_work=True)
