"""A call computes all of a result of which a part is read, or multiplies a gradient of zeros but for a part.

Looks at: which part of each value a graph reads (inspector/analysis/unread.py), and which part of each factor
the graph has filled with zeros (inspector/analysis/zeros.py). What computing that part alone saves was timed:
benchmarks/results/unread.txt.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from inspector.analysis.call_nodes import core_nodes
from inspector.analysis.dataflow import operator, shown
from inspector.analysis.steady import RUN_TO_RUN
from inspector.analysis.unread import PRODUCTS, TAKES, read_parts
from inspector.analysis.zeros import FILLED, useful_parts
from inspector.explain.case import CALLED, Case, GraphCase, Launch
from inspector.explain.claims import on_launch
from inspector.explain.in_vain import computes
from inspector.explain.rule import Rule, Stage, about, how_timed, severity_of, source_evidence, timed
from inspector.model.explain import Finding
from inspector.model.fx import FxNode
from inspector.model.source import SourceLocation
from inspector.units import percent, plural

_LEAST_SAVED = {(False, False): 0.7, (True, False): 0.3, (False, True): 0.25, (True, True): 0.1}
"""By whether it runs on a GPU, and whether data picks places for each row: of what is not read, the part of
the time that its going saves at least. Weights are read for a few rows as for many."""
MOST_PICKED = 1 / 16
"""Of the places of each row that data picks some of: of four scores one alone took twice as long as all."""
_BY_PARTS = PRODUCTS | {"convolution"}
"""What libraries compute as well in part: not a Fourier transform, a sort, or a solution."""
_DATA_PICKS = frozenset({"gather", "scatter", "scatter_add"})


class _Partly(NamedTuple):
    """A launch of which `part`, 0 to 1, is of use; of what, and by which node it is taken or was put."""

    graph: GraphCase
    launch: Launch
    part: float
    node: FxNode
    by: FxNode


def find(case: Case) -> Iterable[Finding]:
    """One finding for each line that takes a part."""
    places: dict[SourceLocation | None, list[_Partly]] = defaultdict(list)
    for graph in case.graphs:
        for item in _partly(graph) if graph.runs else ():
            places[item.by.source].append(item)
    for place, items in places.items():
        most = sum(item.graph.ms(item.launch) * (1 - item.part) for item in items)
        share = case.share(case.within_call(most))
        if share is None or share >= RUN_TO_RUN:
            yield _finding(case, place, sorted(items, key=lambda item: -item.graph.ms(item.launch)))


def _partly(graph: GraphCase) -> Iterable[_Partly]:
    fx = graph.artifacts.fx_after
    if fx is None:
        return
    nodes = graph.artifacts.fx_nodes
    read, useful = read_parts(fx, graph.hints), useful_parts(fx, graph.hints)
    if not read and not useful:
        return
    for launch in graph.launches:
        names = [name for name in (shown(name, nodes) for name in launch.fx) if computes(nodes, name)]
        if launch.role in CALLED:
            names = list(core_nodes(launch.call, [nodes[name] for name in names])) or names
        parts = {name: min(read.get(name, 1.0), useful.get(name, 1.0)) for name in names}
        if not parts or (part := max(parts.values())) == 1.0:
            continue
        node = nodes[next(name for name in names if parts[name] == part)]
        if launch.role in CALLED and operator(node.target) not in _BY_PARTS:
            continue
        if read.get(node.name, 1.0) <= useful.get(node.name, 1.0):
            by = _first(nodes, node, lambda item: item.users, TAKES)
        else:
            by = _first(nodes, node, lambda item: item.inputs, FILLED)
        if by is not None and _pays(graph, node, by, part):
            yield _Partly(graph, launch, part, node, by)


def _pays(graph: GraphCase, node: FxNode, by: FxNode, part: float) -> bool:
    """Whether what is advised was ever seen to be faster."""
    if operator(by.target) in _DATA_PICKS:
        return part <= MOST_PICKED
    return not (graph.gpu and operator(node.target) == "convolution")


def _first(
    nodes: Mapping[str, FxNode], node: FxNode, to: Callable[[FxNode], Sequence[str]], among: Iterable[str]
) -> FxNode | None:
    """The nearest node that takes a part, or puts one into zeros."""
    kinds = frozenset(among)
    seen, waiting = {node.name}, deque([node])
    while waiting:
        item = waiting.popleft()
        if item is not node and operator(item.target) in kinds:
            return item
        new = [name for name in to(item) if name in nodes and name not in seen]
        seen.update(new)
        waiting.extend(nodes[name] for name in new)
    return None


def _finding(case: Case, place: SourceLocation | None, items: Sequence[_Partly]) -> Finding:
    claims = []
    for item in items:
        most = item.graph.ms(item.launch) * (1 - item.part)
        least = _LEAST_SAVED[item.graph.gpu, operator(item.by.target) in _DATA_PICKS]
        claims.append(on_launch(item.graph, item.launch, (most * least, most), "estimated"))
    cost = sum(sum(claim.ms) / 2 for claim in claims)
    share = case.share(cost)
    first = items[0]
    name = operator(first.node.target)
    whole = about(
        case.within_call(sum(item.graph.ms(item.launch) for item in items)),
        how_timed(item.launch for item in items),
    )
    others = f" and {plural(len(items) - 1, 'other kernel')}" if len(items) > 1 else ""
    zeros = operator(first.by.target) in FILLED
    what = "multiplies zeros but for" if zeros else "computes what nothing reads but for"
    evidence = [source_evidence(case, place)] if place is not None else []
    for item in items[:3]:
        text = f"{timed(item.launch, item.launch.ms)}, {_much(item.part)} of use: {item.launch.name}"
        evidence.append(item.graph.launch_evidence(item.launch, text))
        evidence += [source_evidence(case, line) for line in item.launch.sources[:1]]
    return Finding(
        rule="unread_results",
        severity=severity_of(share),
        title=f"{whole} a call in {name}{others} {what} {_much(first.part)}",
        graph=first.graph.name,
        cost_ms=cost,
        claims=tuple(claims),
        evidence=tuple(dict.fromkeys(evidence)),
        advice=_advice(operator(first.by.target), name),
        how="estimated",
        share=share,
    )


def _much(part: float) -> str:
    return percent(part) if part >= 0.01 else f"one in {round(1 / part):,}" if part else "none"


def _advice(by: str, name: str) -> str:
    if by in ("diagonal", "diagonal_scatter"):
        return "of a product a @ b.T the diagonal is (a * b).sum(-1), without the product"
    if by in _DATA_PICKS:
        return "pick the rows first, and multiply each with what belongs to it: (a * rows).sum(-1)"
    if name == "convolution":
        return "let the convolution compute the places that are read: by its stride, or of a smaller input"
    return "take that part of what goes in, before the call: layer(x[:, -1]), not layer(x)[:, -1]"


RULE = Rule("unread_results", Stage.PROGRAM, find, other_work=True)
