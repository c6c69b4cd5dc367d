"""Many a CPU takes many cycles for each operation on numbers that are too small for a float's usual form.

Looks at: how much longer this machine takes for them, where that was measured (no longer on an AMD EPYC); the
part of the elements of a graph's inputs that were subnormal when the recorder last looked
(inspector/capture/recorder/subnormal.py), which launches read them, and how much slower runs are than the
quickest. State that decays stays there: the smallest such number times 0.8 is itself again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from inspector.analysis.dataflow import shown
from inspector.explain.case import CALLED, Case, GraphCase, Launch
from inspector.explain.claims import on_launch, on_whole
from inspector.explain.least import Machine, least_of, machine_of
from inspector.explain.rule import Rule, Stage, about, severity_of, source_evidence, timed
from inspector.model.account import Interval
from inspector.model.explain import Evidence, Finding, Trial
from inspector.units import duration, percent

LEAST_PART = 0.001
"""Of a tensor's elements: a product took 4 times as long with so many, a loop no longer."""
SURE_PART = 0.01
"""A loop took 2.5 times as long with so many, and 7 times with ten times as many; a product 21 and 94 times
(benchmarks/results/subnormal.txt)."""
SLOW_CALL = 4.0
"""What a library's call took over the least that it could take by its arithmetic and its bytes: products of
such numbers took seventeen and a hundred times as long, and few others take four times."""
SLOWED = 1.5
"""The median run over the quickest of a graph's: what runs take that become slower as numbers become smaller
has its measure in those before. A machine that takes such numbers in less is none that they slow."""
_SHOWN = 3
"""Of launches."""
_ADVICE = (
    "torch.set_flush_denormal(True) at the program's start, before threads are started that take it over: "
    "such numbers are 0 then; or set to 0 what has decayed"
)


class _Item(NamedTuple):
    """A launch, what the numbers may cost in a call, which input they are of, and whether it reads that."""

    launch: Launch
    ms: Interval
    name: str
    reads: bool


class _Graph(NamedTuple):
    """A graph, the part of its inputs that are such numbers, and what they may cost its launches."""

    graph: GraphCase
    small: dict[str, float]
    items: list[_Item]


def find(case: Case) -> Iterable[Finding]:
    """One finding, of all graphs."""
    times = case.costs.subnormal_times
    if case.gpu or (times is not None and times < SLOWED):
        return
    machine = machine_of(case)
    found: list[_Graph] = []
    for graph in case.graphs:
        small = {name: part for name, part in graph.subnormal.items() if part >= LEAST_PART}
        if not graph.runs or not small:
            continue
        of = _origins(graph, small)
        items = [item for launch in graph.launches if (item := _item(machine, graph, launch, small, of))]
        if times is None:
            # How this machine takes such numbers nobody measured: other causes may be as likely.
            items = [item._replace(ms=(0.0, item.ms[1])) for item in items]
        if items:
            found.append(_Graph(graph, small, sorted(items, key=lambda item: -item.ms[1])))
    if found:
        yield _finding(case, sorted(found, key=lambda own: -own.items[0].ms[1]))


def _origins(graph: GraphCase, small: dict[str, float]) -> dict[str, str]:
    """Node -> the input with most such numbers that its value is computed of."""
    of = {name: name for name in small}
    fx = graph.artifacts.fx_after
    for node in fx.nodes if fx is not None else ():
        if came := [of[name] for name in node.inputs if name in of]:
            of[node.name] = max(came, key=small.__getitem__)
    return of


def _item(
    machine: Machine, graph: GraphCase, launch: Launch, small: dict[str, float], of: dict[str, str]
) -> _Item | None:
    """A launch that reads such numbers, or a library's that takes far longer than its arithmetic on what is
    made of them: what they may cost in a call, and which input has them."""
    nodes = graph.artifacts.fx_nodes
    given = [name for made in launch.fx if made in nodes for name in nodes[made].inputs]
    read = {shown(name, nodes) for name in given} & small.keys()
    (least, usual), _ = least_of(machine, graph, launch)
    over = max(launch.ms - least, 0.0) * graph.runs
    slow = launch.role in CALLED and launch.measured and 0 < SLOW_CALL * least <= launch.ms
    if read:
        worst = max(read, key=small.__getitem__)
        sure = over / 2 if slow else max(launch.ms - usual, 0.0) * graph.runs
        sure = sure if small[worst] >= SURE_PART else 0.0
    else:
        came = [of[name] for name in given if name in of]
        if not slow or not came:
            return None
        worst, sure = came[0], over / 2
    return _Item(launch, (sure, over), worst, bool(read)) if over > 0 else None


def _slowed(graph: GraphCase, small: dict[str, float]) -> float:
    """Milliseconds of a call that runs of the graph took more than its quickest, where most of what it reads
    may be why."""
    median, quickest = graph.in_process_ms, graph.quickest_ms
    if median is None or quickest is None or median < SLOWED * quickest or max(small.values()) < SURE_PART:
        return 0.0
    return (median - quickest) * graph.runs


def _finding(case: Case, found: Sequence[_Graph]) -> Finding:
    claims, whole, took = [], 0.0, ""
    evidence: list[Evidence] = []
    for graph, small, items in found:
        own = [on_launch(graph, launch, ms, "estimated") for launch, ms, _, _ in items]
        rest = _slowed(graph, small) - sum(claim.ms[1] for claim in own)
        if rest > 0:
            # A profile of the first calls has kernels as quick as these were.
            own.append(on_whole((rest / 2, rest), "measured"))
            if not took and graph.in_process_ms is not None and graph.quickest_ms is not None:
                median, quickest = duration(graph.in_process_ms), duration(graph.quickest_ms)
                took = f"half of its runs took {median} and more, the quickest {quickest}"
        claims += own
        whole += sum(graph.ms(launch) for launch, _, _, _ in items)
        evidence += _evidence(case, graph, small, items)
    cost = case.within_call(sum(claim.ms[1] for claim in claims))
    share = case.share(cost)
    graph, small, items = found[0]
    worst = max((item.name for item in items), key=small.__getitem__)
    node = graph.artifacts.fx_nodes[worst]
    shape = "x".join(map(str, node.meta.shape)) if node.meta is not None else ""
    of_what = f"an input of {shape}" if shape else "an input"
    times = case.costs.subnormal_times
    slowly = "some CPUs compute with up to a hundred" if times is None else f"this CPU multiplies {times:.0f}"
    return Finding(
        rule="subnormal_numbers",
        severity=severity_of(share),
        title=(
            f"{percent(small[worst])} of {of_what} are subnormal numbers (in float32 below 1.2e-38), which "
            f"{slowly} times as slowly: "
            + (took or f"{about(case.within_call(whole))} a call in what reads them or is made of them")
        ),
        graph=graph.name,
        cost_ms=cost,
        claims=tuple(claims),
        evidence=tuple(evidence[: 2 * _SHOWN]),
        advice=_ADVICE,
        how="measured" if took else "estimated",
        share=share,
        trial=Trial(state=(("set_flush_denormal", "True"),)),
    )


def _evidence(
    case: Case, graph: GraphCase, small: dict[str, float], items: Sequence[_Item]
) -> Iterator[Evidence]:
    for launch, _, name, reads in items[:_SHOWN]:
        what = (
            f"reads {percent(small[name])} subnormal numbers" if reads else "of values made of such numbers"
        )
        yield graph.launch_evidence(launch, f"{timed(launch, launch.ms)}, {what}: {launch.name}")
        yield from (source_evidence(case, place) for place in launch.sources[:1])


RULE = Rule("subnormal_numbers", Stage.PROGRAM, find, other_work=True)
