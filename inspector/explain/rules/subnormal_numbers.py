"""A CPU takes some hundred cycles for each operation on numbers that are too small for a float's usual form.

Looks at: the part of the elements of a graph's inputs that were subnormal when the recorder last looked
(inspector/capture/recorder/subnormal.py), which launches read them, and how much slower runs are than the
quickest. State that decays stays there: the smallest such number times 0.8 is itself again.
"""

from __future__ import annotations

from collections.abc import Iterable

from inspector.analysis.dataflow import shown
from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launch, on_whole
from inspector.explain.least import Machine, least_of, machine_of
from inspector.explain.rule import Rule, Stage, about, severity_of, source_evidence, timed
from inspector.model.account import Interval
from inspector.model.explain import Finding, Trial
from inspector.units import duration, percent

LEAST_PART = 0.001
"""Of a tensor's elements. Of fewer few of the vectors that a loop takes have one, and only those are slow."""
SURE_PART = 0.1
"""Then nearly every vector of 8 has one, and what a kernel takes over its work is theirs."""
SLOWED = 1.5
"""The median run over the quickest of a graph's: what runs take that become slower as numbers become smaller
has its measure in those before."""
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


def _slowed(graph: GraphCase, small: dict[str, float]) -> float:
    """Milliseconds of a call that runs of the graph took more than its quickest, where most of what it reads
    may be why."""
    median, quickest = graph.in_process_ms, graph.quickest_ms
    if median is None or quickest is None or median < SLOWED * quickest or max(small.values()) < SURE_PART:
        return 0.0
    return (median - quickest) * graph.runs


def _finding(
    case: Case, graph: GraphCase, small: dict[str, float], items: list[tuple[Launch, Interval, str]]
) -> Finding:
    claims = [on_launch(graph, launch, ms, "estimated") for launch, ms, _ in items]
    slowed = _slowed(graph, small)
    rest = slowed - sum(claim.ms[1] for claim in claims)
    if rest > 0:
        # A profile of the first calls has kernels as quick as these were.
        claims.append(on_whole((rest / 2, rest), "measured"))
    cost = case.within_call(sum(claim.ms[1] for claim in claims))
    share = case.share(cost)
    worst = max((name for _, _, name in items), key=small.__getitem__)
    node = graph.artifacts.fx_nodes[worst]
    shape = "x".join(map(str, node.meta.shape)) if node.meta is not None else ""
    evidence = []
    for launch, _, name in items[:3]:
        text = f"{timed(launch, launch.ms)}, reads {percent(small[name])} subnormal numbers: {launch.name}"
        evidence.append(graph.launch_evidence(launch, text))
        evidence += [source_evidence(case, place) for place in launch.sources[:1]]
    whole = case.within_call(sum(graph.ms(launch) for launch, _, _ in items))
    took = f"{about(whole)} a call in what reads them"
    if rest > 0 and graph.in_process_ms is not None and graph.quickest_ms is not None:
        median, quickest = duration(graph.in_process_ms), duration(graph.quickest_ms)
        took = f"half of its runs took {median} and more, the quickest {quickest}"
    of_what = f"an input of {shape}" if shape else "an input"
    return Finding(
        rule="subnormal_numbers",
        severity=severity_of(share),
        title=(
            f"{percent(small[worst])} of {of_what} are subnormal numbers (in float32 below 1.2e-38), which "
            f"a CPU computes with a hundred times as slowly: {took}"
        ),
        graph=graph.name,
        cost_ms=cost,
        claims=tuple(claims),
        evidence=tuple(evidence),
        advice=_ADVICE,
        how="measured" if rest > 0 else "estimated",
        share=share,
        trial=Trial(state=(("set_flush_denormal", "True"),)),
    )


RULE = Rule("subnormal_numbers", Stage.PROGRAM, find, other_work=True)
