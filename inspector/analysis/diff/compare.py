"""Two runs side by side: graphs and launches matched, and what differs between those that are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from inspector.analysis.linkage import link_graph
from inspector.frozen import dataclass
from inspector.model.code import KernelCall
from inspector.model.diff import Change, GraphMatch, KernelMatch, LaunchId, Relation
from inspector.model.record import RecordedKernel
from inspector.model.run import GraphArtifacts

from .code import plain_code
from .graphs import Pairing, pair_graphs
from .kernels import Group, Launched, Matcher, Unit, neighbours, own_nodes, units_of
from .nodes import Graph

_Bytes = Mapping[tuple[str, int], int]
"""(graph, call) -> bytes."""
_Compiled = Mapping[str, Mapping[str, RecordedKernel]]
"""graph -> kernel -> what compiling it gave."""
_INTEGER = re.compile(r"\d+")
_MOST_LINES = 4


@dataclass(frozen=True, slots=True)
class GraphFacts:
    """One compiled graph of a run, read. `kernels` is what compiling its Triton kernels gave, by name;
    `bytes` what each launch moves; `modules` the path of the module whose parameters an FX node reads."""

    artifacts: GraphArtifacts
    kernels: Mapping[str, RecordedKernel] = field(default_factory=dict)
    bytes: Mapping[int, int] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Matched:
    """What the comparison of two runs' graphs gives."""

    graphs: tuple[GraphMatch, ...]
    kernels: tuple[KernelMatch, ...]


def match_runs(a: Sequence[GraphFacts], b: Sequence[GraphFacts]) -> Matched:
    """Every graph and every launch of both sides exactly once."""
    ours, theirs = [_Read(facts) for facts in a], [_Read(facts) for facts in b]
    pairing = pair_graphs([item.graph for item in ours], [item.graph for item in theirs])
    units_a = [unit for item in ours for unit in item.units(pairing.classes.a)]
    units_b = [unit for item in theirs for unit in item.units(pairing.classes.b)]
    groups = Matcher(units_a, units_b, pairing.classes).groups()
    bytes_a = _bytes(a)
    bytes_b = _bytes(b)
    compiled_a = {facts.artifacts.ident: facts.kernels for facts in a}
    compiled_b = {facts.artifacts.ident: facts.kernels for facts in b}
    kernels = tuple(
        _kernel_match(group, units_a, units_b, (bytes_a, bytes_b), (compiled_a, compiled_b))
        for group in groups
    )
    graphs = tuple(_graph_matches(ours, theirs, pairing, kernels))
    return Matched(graphs, kernels)


class _Read:
    """One graph's nodes and launches."""

    def __init__(self, facts: GraphFacts) -> None:
        artifacts = facts.artifacts
        fx = artifacts.fx_after or artifacts.fx_before
        self.artifacts = artifacts
        self.graph = Graph(artifacts.ident, artifacts.phase, fx, facts.modules)
        links = {link.call: link.fx for link in link_graph(artifacts).calls}
        kernels = {kernel.name: kernel for kernel in artifacts.code.kernels} if artifacts.code else {}
        plain: dict[str, str] = {}
        near = neighbours(artifacts.code) if artifacts.code is not None else {}
        self.launches: list[Launched] = []
        for call in artifacts.code.calls if artifacts.code else ():
            kernel = kernels.get(call.kernel)
            if call.kernel not in plain:
                plain[call.kernel] = plain_code(kernel) if kernel is not None else ""
            names = links.get(call.index, ())
            ident = LaunchId(artifacts.ident, call.index, call.kernel, call.kind, self._lines(names))
            self.launches.append(
                Launched(
                    ident,
                    call,
                    kernel,
                    plain[call.kernel],
                    names,
                    self._size(call, names),
                    *map(frozenset, near[call.index]),
                )
            )

    def units(self, classes: Mapping[tuple[str, str], int]) -> list[Unit]:
        """Its launches with what they compute."""
        code = self.artifacts.code
        return units_of(self.graph, self.launches, classes, code.text if code is not None else "")

    def _lines(self, names: Iterable[str]) -> tuple[str, ...]:
        nodes = self.graph.nodes
        places = dict.fromkeys(
            nodes[self.graph.position[name]].place for name in names if name in self.graph.position
        )
        return tuple(place for place in places if place)[:_MOST_LINES]

    def _size(self, call: KernelCall, names: Sequence[str]) -> str:
        """What tells launches of one code apart: a Triton kernel's extents, a library call's result."""
        if call.kind in ("triton", "user", "template"):
            return " ".join(text for text in call.arguments if _INTEGER.fullmatch(text))
        if call.kind == "cpp":
            return ""
        nodes = [self.graph.nodes[self.graph.position[name]] for name in own_nodes(self.graph, call, names)]
        return " ".join(f"{node.dtype}[{', '.join(node.shape)}]" for node in nodes)


def _bytes(facts: Sequence[GraphFacts]) -> dict[tuple[str, int], int]:
    return {(item.artifacts.ident, call): amount for item in facts for call, amount in item.bytes.items()}


def _kernel_match(
    group: Group,
    a: Sequence[Unit],
    b: Sequence[Unit],
    moved: tuple[_Bytes, _Bytes],
    compiled: tuple[_Compiled, _Compiled],
) -> KernelMatch:
    ours, theirs = [a[x] for x in group.a], [b[y] for y in group.b]
    relation = group.relation
    changes: tuple[Change, ...] = ()
    if ours and theirs:
        changes = tuple(_changes(ours, theirs, moved, compiled))
        if relation == "changed" and not changes:
            relation = "same"
    return KernelMatch(
        tuple(unit.ident for unit in ours),
        tuple(unit.ident for unit in theirs),
        relation,
        group.basis,
        group.share,
        changes,
    )


def _changes(
    a: Sequence[Unit],
    b: Sequence[Unit],
    moved: tuple[_Bytes, _Bytes],
    compiled: tuple[_Compiled, _Compiled],
) -> Iterable[Change]:
    """What differs between launches that compute the same, gravest first."""
    yield from _differing(
        "kind", _texts(unit.ident.kind for unit in a), _texts(unit.ident.kind for unit in b)
    )
    library = [unit for unit in (*a, *b) if unit.ident.kind in ("extern", "fallback")]
    if library:
        yield from _differing("library call", _texts(map(_target, a)), _texts(map(_target, b)))
    gone = {op for unit in a for op in unit.operators}
    new = {op for unit in b for op in unit.operators}
    yield from _differing("operators", _texts(gone - new), _texts(new - gone))
    sizes = _texts((unit.size for unit in a), ordered=True), _texts((unit.size for unit in b), ordered=True)
    if len(a) == len(b) == 1 and a[0].ident.kind == b[0].ident.kind:
        yield from _differing("size", *sizes)
    if len(a) == len(b) == 1 and a[0].code and b[0].code and a[0].code != b[0].code:
        lines = a[0].code.count("\n") + 1, b[0].code.count("\n") + 1
        yield Change("source", f"{lines[0]} lines", f"{lines[1]} lines")
    both = (
        sum(moved[0].get((unit.ident.graph, unit.ident.call), 0) for unit in a),
        sum(moved[1].get((unit.ident.graph, unit.ident.call), 0) for unit in b),
    )
    if all(both) and both[0] != both[1]:
        yield Change("bytes", str(both[0]), str(both[1]))
    if len(a) == len(b) == 1:
        one = compiled[0].get(a[0].ident.graph, {}).get(a[0].ident.kernel)
        two = compiled[1].get(b[0].ident.graph, {}).get(b[0].ident.kernel)
        if one is not None and two is not None:
            names = [
                name for name in {**one.config, **two.config} if one.config.get(name) != two.config.get(name)
            ]
            yield from _differing("configuration", _config(one, names), _config(two, names))
            for what in ("registers", "spills", "shared_bytes"):
                left, right = getattr(one, what), getattr(two, what)
                if left is not None and right is not None:
                    yield from _differing(what.replace("_bytes", " memory"), str(left), str(right))


def _target(unit: Unit) -> str:
    if unit.ident.kind not in ("extern", "fallback"):
        return f"a {unit.ident.kind} kernel"
    return unit.ident.kernel.removeprefix("torch.ops.")


def _differing(what: str, a: str, b: str) -> Iterable[Change]:
    if a != b:
        yield Change(what, a or None, b or None)


def _texts(texts: Iterable[str], ordered: bool = False) -> str:
    unique = dict.fromkeys(text for text in texts if text)
    return ", ".join(unique if ordered else sorted(unique))


def _config(kernel: RecordedKernel, names: Iterable[str]) -> str:
    """Those of its settings: `XBLOCK=256 num_warps=4`."""
    return " ".join(f"{name}={kernel.config[name]}" for name in sorted(names) if name in kernel.config)


def _graph_matches(
    a: Sequence[_Read], b: Sequence[_Read], pairing: Pairing, kernels: Sequence[KernelMatch]
) -> Iterable[GraphMatch]:
    """Each graph once: those that share operations together, then those that only one side has."""
    side_a = {item.graph.ident: item for item in a}
    side_b = {item.graph.ident: item for item in b}
    differing = {launch.graph for match in kernels if match.relation != "same" for launch in match.a}
    groups = _graph_groups((*pairing.pairs, *_pairs_of_kernels(kernels)))
    order = {ident: number for number, ident in enumerate(side_a)}
    for left, right, count in sorted(groups, key=lambda group: min(order[ident] for ident in group[0])):
        nodes = _operations(side_a, left), _operations(side_b, right), count
        calls = _launch_count(side_a, left), _launch_count(side_b, right)
        changes = []
        if nodes[0] != nodes[1]:
            changes.append(Change("operations", str(nodes[0]), str(nodes[1])))
        elif count != nodes[0]:
            changes.append(Change("operations", f"{nodes[0]}, {count} matched", str(nodes[1])))
        if calls[0] != calls[1]:
            changes.append(Change("launches", str(calls[0]), str(calls[1])))
        relation: Relation = "changed"
        if len(left) != len(right):
            relation = "split" if len(left) < len(right) else "merged"
        elif not changes and not differing.intersection(left):
            relation = "same"
        yield GraphMatch(tuple(left), tuple(right), relation, nodes, tuple(changes))
    paired = {ident for left, _, _ in groups for ident in left}
    for ident in side_a:
        if ident not in paired:
            yield GraphMatch((ident,), (), "only_a", (_operations(side_a, [ident]), 0, 0))
    paired = {ident for _, right, _ in groups for ident in right}
    for ident in side_b:
        if ident not in paired:
            yield GraphMatch((), (ident,), "only_b", (0, _operations(side_b, [ident]), 0))


def _pairs_of_kernels(kernels: Sequence[KernelMatch]) -> Iterable[tuple[str, str, int]]:
    """Graphs that share launches, which those without FX nodes are known by."""
    pairs = ((match.a[0].graph, match.b[0].graph, 0) for match in kernels if match.a and match.b)
    return tuple(dict.fromkeys(pairs))


def _graph_groups(pairs: Iterable[tuple[str, str, int]]) -> list[tuple[list[str], list[str], int]]:
    """(graphs of A, graphs of B, matched operations): the strongest pairs first, several of one side to
    one of the other at most."""
    group_of_a: dict[str, int] = {}
    group_of_b: dict[str, int] = {}
    groups: list[tuple[list[str], list[str], int]] = []
    for ident, other, count in sorted(pairs, key=lambda pair: -pair[2]):
        own, its = group_of_a.get(ident), group_of_b.get(other)
        if own is None and its is None:
            group_of_a[ident] = group_of_b[other] = len(groups)
            groups.append(([ident], [other], count))
        elif own is None and its is not None and len(groups[its][1]) == 1:
            group_of_a[ident] = its
            groups[its] = ([*groups[its][0], ident], groups[its][1], groups[its][2] + count)
        elif its is None and own is not None and len(groups[own][0]) == 1:
            group_of_b[other] = own
            groups[own] = (groups[own][0], [*groups[own][1], other], groups[own][2] + count)
    return groups


def _operations(side: Mapping[str, _Read], idents: Iterable[str]) -> int:
    return sum(len(side[ident].graph.operations) for ident in idents)


def _launch_count(side: Mapping[str, _Read], idents: Iterable[str]) -> int:
    return sum(len(side[ident].launches) for ident in idents)
