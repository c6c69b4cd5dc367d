"""An expensive operator is computed in the loop that uses it, many times for each element of its result.

Looks at: evaluations of each FX node in the generated loops beside the elements of its output
(inspector.analysis.evaluations), and what they are of all that a kernel computes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from inspector.analysis.dataflow import operator
from inspector.analysis.evaluations import WRITES, chain, is_heavy
from inspector.analysis.steady import RUN_TO_RUN
from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launch
from inspector.explain.estimate import FACTOR, memory_ms, peak
from inspector.explain.in_vain import WRITTEN_ONCE, not_computed_ms, repeated
from inspector.explain.launches import shares_of
from inspector.explain.least import Machine, machine_of
from inspector.explain.rule import Rule, Stage, severity_of, source_evidence
from inspector.model.account import Interval
from inspector.model.explain import Finding, Trial
from inspector.model.fx import FxNode
from inspector.model.source import SourceLocation
from inspector.model.waste import Evaluation
from inspector.units import plural, size, times_each

LEAST_SHARE = 0.01
"""Of a call: less is not worth a line of the program."""


_LINES = 4
"""Of the program's."""
_READ_TWICE = "realize_reads_threshold"
_NEW_TENSORS = (
    f"have Inductor keep in memory what is read twice, torch._inductor.config.{_READ_TWICE} = 1; or make a "
    "new tensor with each write, of which all is computed alike: for x[:, 1:] *= y, x = x * "
    "torch.nn.functional.pad(y, (1, 0), value=1)"
)


class _Cost(NamedTuple):
    """What a launch repeats, the largest part first, and the milliseconds that this takes of a call."""

    ms: Interval
    launch: Launch
    items: Sequence[Evaluation]

    @property
    def worst(self) -> Evaluation:
        return self.items[0]


def find(case: Case) -> Iterable[Finding]:
    """One finding for each operator of a line of the program, with all the kernels that repeat it; and one
    for writes that are each made of those before."""
    machine = machine_of(case)
    for graph in case.graphs:
        costs: dict[tuple[str, tuple[str, ...]], list[_Cost]] = defaultdict(list)
        for launch, items in repeated(graph) if graph.runs else ():
            part = min(1.0, sum(item.part for item in items))
            if part >= RUN_TO_RUN:
                items = sorted(items, key=lambda item: -item.part)
                worst = items[0]
                least, saved = not_computed_ms(case, graph, launch, part, _operations(graph, launch, items))
                kept = _keeping_ms(case, machine, graph, worst)
                # A GPU's memory is as fast as its datasheet says, a CPU's may be twice as slow as thought.
                most = kept if graph.gpu else kept * FACTOR
                ms = max(least - most, 0.0), max(saved - kept, 0.0)
                places = () if worst.operator in WRITES else tuple(map(str, worst.sources))
                costs[worst.operator, places].append(_Cost(ms, launch, items))
        for same in costs.values():
            cost = case.within_call(sum(item.ms[1] for item in same))
            share = case.share(cost)
            if cost > 0 and (share is None or share >= LEAST_SHARE):
                yield _finding(case, graph, same, cost, share)


def _finding(case: Case, graph: GraphCase, costs: list[_Cost], cost: float, share: float | None) -> Finding:
    costs = sorted(costs, key=lambda item: -item.ms[1])
    launch, worst = costs[0].launch, costs[0].worst
    most = [item for item in costs[0].items if item.part >= RUN_TO_RUN] or [worst]
    places: Sequence[SourceLocation]
    if worst.operator in WRITES:
        places, advice, trial = worst.sources, _NEW_TENSORS, Trial(config=((_READ_TWICE, 1),))
    else:
        places, advice, trial = _to_keep(graph, [item for item in most if item.operator not in WRITES])
    more = f" and {len(costs) - 1} more" if len(costs) > 1 else ""
    return Finding(
        rule="recomputed",
        severity=severity_of(share),
        title=(
            f"{_called(worst)} computed {times_each(worst.times)} in {launch.name}{more}: "
            f"{worst.evaluations:,} times for {worst.elements:,} elements"
        ),
        graph=graph.name,
        cost_ms=cost,
        evidence=(
            *(source_evidence(case, place) for place in places[:_LINES]),
            *(graph.launch_evidence(item.launch, _seen(item)) for item in costs[:2]),
        ),
        advice=advice,
        how="estimated",
        share=share,
        trial=trial,
        claims=tuple(on_launch(graph, item.launch, item.ms, "estimated") for item in costs),
    )


def _to_keep(graph: GraphCase, items: Sequence[Evaluation]) -> tuple[Sequence[SourceLocation], str, Trial]:
    """Lines, advice and setting for what is to be computed once: the value that each item's chain ends in."""
    chains = [_chain(graph, item) for item in items]
    kept = {nodes[-1].name: (_kept(nodes), nodes[-1].source) for nodes in chains}
    ends = [place for _, place in kept.values() if place is not None]
    words = ", and of ".join(words for words, _ in kept.values())
    return (
        list(dict.fromkeys([*items[0].sources[:2], *ends])),
        f"have the result of {words} written once: {WRITTEN_ONCE}",
        Trial(kept=tuple(dict.fromkeys(f"aten.{_last(nodes)}" for nodes in chains))),
    )


def _seen(cost: _Cost) -> str:
    what = "" if cost.worst.operator in WRITES else f"{cost.worst.operator} "
    return f"{what}{times_each(cost.worst.times)}, {size(cost.launch.bytes)}: {cost.launch.name}"


def _called(item: Evaluation) -> str:
    if item.operator in WRITES:
        return f"{plural(len(item.fx), 'write')} into parts of a tensor, each made of those before, are"
    return f"{item.operator} is"


def _chain(graph: GraphCase, item: Evaluation) -> list[FxNode]:
    """The operator with what is behind it up to the value to keep."""
    nodes = graph.artifacts.fx_nodes
    return [nodes[name] for name in chain(item.fx[0], nodes)]


def _last(made: Sequence[FxNode]) -> str:
    """The last operator of a chain that takes long."""
    return operator(next((node for node in reversed(made) if is_heavy(node)), made[0]).target)


def _kept(made: Sequence[FxNode]) -> str:
    """The value that a chain ends in, in words."""
    last, end = _last(made), operator(made[-1].target)
    return last if end == last else f"{last} with the {end} behind it"


def _keeping_ms(case: Case, machine: Machine, graph: GraphCase, item: Evaluation) -> float:
    """Writing each result once, and reading it."""
    moved = 2 * 4 * item.elements // len(item.fx)
    limit = None if graph.gpu else machine.roof(moved)
    device = peak(case.facts.devices, graph.gpu, case.threads)
    each = limit.least_ms if limit is not None else memory_ms(moved, device, graph.gpu)
    return each * len(item.fx) * graph.runs


def _operations(graph: GraphCase, launch: Launch, items: Iterable[Evaluation]) -> float:
    """Plain operations of all that is computed again."""
    shares = shares_of(graph, launch)
    return sum(
        item.part / shares[item.group] * graph.fusion.work.get(item.group, 0.0)
        for item in items
        if shares.get(item.group)
    )


RULE = Rule("recomputed", Stage.PROGRAM, find, other_work=True)
"""With a line of the program to change: before what only says which kernel is slow."""
