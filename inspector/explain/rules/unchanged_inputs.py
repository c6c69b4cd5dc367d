"""Each call computes the same from inputs that stay as they are: data that a loop hands over again and again,
weights that nobody trains.

Looks at: which arguments of a graph were the very same tensors, written to by nobody, in all runs that the
recorder looked at (inspector/capture/recorder/same_inputs.py), and what follows from these alone. Where that
is all that a graph gives, a loop repeats one call, as benchmarks do, and nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from inspector.analysis.constants import constant_nodes
from inspector.analysis.dataflow import operator, shown
from inspector.analysis.program_calls import of_module
from inspector.analysis.steady import RUN_TO_RUN
from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import interval, on_launches
from inspector.explain.in_vain import computes, constant_parts, leaf_parts, read_instead_ms
from inspector.explain.rule import Rule, Stage, severity_of, source_evidence
from inspector.model.account import Interval
from inspector.model.explain import Finding, Trial
from inspector.model.source import SourceLocation
from inspector.model.waste import Evaluation
from inspector.units import duration, percent

_FREEZING = "torch._inductor.config.freezing"
_ADVICE = "compute it once, before the loop, and hand over the result"
# torch/nn/utils/parametrizations.py, weight_norm.py
_PARAMETRIZED = re.compile(r"nn[/\\]utils[/\\](?:parametri|weight_norm|spectral_norm)")
_REMOVE = (
    "take the parametrization away once the weights are loaded: "
    'torch.nn.utils.parametrize.remove_parametrizations(module, "weight"), for each module that has one'
)
_FREEZE = f"; what follows from a module's parameters alone {_FREEZING} = True works out when it compiles"


_LAID_OUT = "layouts for a library"


class _Costly(NamedTuple):
    """A launch with the `part` of it that follows from unchanged inputs, and the milliseconds of a call that
    would be saved; by which operators, and on which lines."""

    ms: Interval
    part: float
    launch: Launch
    operators: tuple[str, ...]
    lines: tuple[SourceLocation, ...]


def find(case: Case) -> Iterable[Finding]:
    """One finding for each graph."""
    for graph in case.graphs:
        fx = graph.artifacts.fx_after
        if fx is None or not graph.runs or not graph.same_inputs:
            continue
        every = constant_nodes(fx, graph.same_inputs)
        never = constant_nodes(fx)
        costs = sorted(_costs(case, graph, every, never), key=lambda item: -item.ms[1])
        cost = case.within_call(sum(item.ms[1] for item in costs))
        share = case.share(cost)
        seen = share is None or share >= RUN_TO_RUN
        # Where nothing that it gives depends on anything else, a loop repeats one call, as benchmarks do.
        repeats = every.issuperset(name for name in fx.outputs if name is not None)
        if cost and seen and not repeats:
            yield _finding(case, graph, costs, cost)


def _costs(case: Case, graph: GraphCase, every: frozenset[str], never: frozenset[str]) -> Iterable[_Costly]:
    """Launches that compute nothing else, and of others a part, by bytes or weights of operators. What
    follows from no input at all is `constant_work`'s."""
    nodes = graph.artifacts.fx_nodes
    own, others = constant_parts(graph, every), constant_parts(graph, never)
    loops = leaf_parts(graph, every - never, graph.same_inputs)
    for launch in graph.launches:
        names = [name for name in (shown(name, nodes) for name in launch.fx) if computes(nodes, name)]
        number = launch.call.index
        part, part_of_loops = own.get(number, 0.0) - others.get(number, 0.0), loops.get(number, 0.0)
        if names and every.issuperset(names) and not never.issuperset(names):
            part_of_loops = 1.0
        if max(part, part_of_loops) < RUN_TO_RUN:
            continue
        if part > part_of_loops:
            items = _evaluated(graph, launch, every, never)
            ms = read_instead_ms(case, graph, launch, part, every - never)
            operators = tuple(item.operator for item in items)
            lines = tuple(line for item in items for line in item.sources)
        else:
            made = [nodes[name] for name in names if name in every - never]
            operators = tuple(operator(node.target) for node in made) or (_LAID_OUT,)
            lines = tuple(node.source for node in made if node.source is not None)
            ms = interval(graph.ms(launch) * part_of_loops, "estimated")
        yield _Costly(ms, max(part, part_of_loops), launch, operators, lines)


def _evaluated(
    graph: GraphCase, launch: Launch, every: frozenset[str], never: frozenset[str]
) -> list[Evaluation]:
    """The expensive operators of a launch that follow from unchanged inputs, the dearest first."""
    groups = {group.name for group in graph.groups_of(launch)}
    items = [item for item in graph.fusion.evaluations if item.group in groups]
    items = [item for item in items if every.issuperset(item.fx) and not never.issuperset(item.fx)]
    return sorted(items, key=lambda item: -item.whole)


def _finding(case: Case, graph: GraphCase, costs: Sequence[_Costly], cost: float) -> Finding:
    share = case.share(cost)
    lines = {str(line): line for item in costs for line in item.lines}
    names = list(dict.fromkeys(name for item in costs for name in item.operators))
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    evidence = [source_evidence(case, line) for line in list(lines.values())[:2]]
    for item in costs[:2]:
        much = "all of it" if item.part == 1.0 else f"an estimated {percent(item.part)} of it"
        evidence.append(
            graph.launch_evidence(
                item.launch, f"{duration(graph.ms(item.launch))}, {much}: {item.launch.name}"
            )
        )
    parametrized = any(_PARAMETRIZED.search(line.path) for line in lines.values())
    frozen = graph.config.get(_FREEZING) == "True" or graph.artifacts.phase != "inference"
    freeze = not frozen and _has_parameters(case, graph)
    return Finding(
        rule="unchanged_inputs",
        severity=severity_of(share),
        title=(
            f"{duration(cost)} a call in {', '.join(names[:3])}{more} of inputs that were the same, and "
            "unchanged, in all calls that were looked at"
        ),
        graph=graph.name,
        cost_ms=cost,
        evidence=tuple(evidence),
        advice=(_REMOVE if parametrized else _ADVICE) + (_FREEZE if freeze else ""),
        how="estimated",
        share=share,
        trial=Trial(config=(("freezing", True),)) if freeze else None,
        claims=on_launches(((graph, item.launch, item.ms) for item in costs), "estimated", cost),
    )


def _has_parameters(case: Case, graph: GraphCase) -> bool:
    whole = case.frame(graph.artifacts.compile_id)
    return whole is not None and any(not node.target and of_module(node.name) for node in whole.nodes)


RULE = Rule("unchanged_inputs", Stage.PROGRAM, find, other_work=True)
