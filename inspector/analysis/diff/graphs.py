"""Which graphs of two runs compute the same, whole or in part."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from .align import Alignment, exact, loose
from .nodes import Graph

LEAST_SHARE = 0.2
"""Of the operations of the smaller graph this part must be known in the other, by line and operator ..."""
LEAST_EXACT = 0.1
"""... and this part on the same dtypes and shapes too, unless nearly all agree but for these."""
LEAST_LOOSE = 0.6
LEAST_WITHOUT_LINES = 0.6
"""Where torch wrote no lines this part of the larger graph must agree in operator, dtype and shape ..."""
LEAST_MODULES = 0.9
"""... or this part in operator and module."""
LEAST_OPERATIONS = 4
"""Fewer operations without lines say nothing."""
LEAST_OF_RUN = 0.1
"""Of the operations of the smaller run so much must be matched: unrelated programs share a line by chance."""

_MOST_CANDIDATES = 48
"""Graphs of B that one of A is compared with."""


@dataclass(slots=True)
class Classes:
    """What is the same: for each side (graph's ident, node's name) -> number of the class. A class has one
    node of each side, or the nodes of one stretch of a line that each side computes in another way."""

    a: dict[tuple[str, str], int] = field(default_factory=dict)
    b: dict[tuple[str, str], int] = field(default_factory=dict)
    exact: set[int] = field(default_factory=set)
    lines: set[int] = field(default_factory=set)
    modules: set[int] = field(default_factory=set)
    whole: set[int] = field(default_factory=set)
    count: int = 0


@dataclass(slots=True)
class Pairing:
    """Pairs of graphs that share operations, with how many, in the order in which they were made."""

    classes: Classes
    pairs: list[tuple[str, str, int]]


def pair_graphs(a: Sequence[Graph], b: Sequence[Graph]) -> Pairing:
    """Graphs by the operations that they share, the most similar first; what one graph does not take another
    may, as where a new break splits a graph."""
    work = _Work(a, b)
    work.same_first(with_lines=True)
    while work.step():
        pass
    if work.related() or work.all_alike():
        work.same_first(with_lines=False)
        return work.result
    return Pairing(Classes(), [])


class _Side:
    def __init__(self, graphs: Sequence[Graph]) -> None:
        self.graphs = {graph.ident: graph for graph in graphs}
        self.free = {graph.ident: set(graph.operations) for graph in graphs}
        self.keys: dict[str, list[tuple[Hashable, Hashable]]] = {
            graph.ident: [(exact(node), loose(node)) for node in graph.nodes] for graph in graphs
        }
        self.told = {
            graph.ident: any(graph.nodes[position].text for position in graph.operations) for graph in graphs
        }
        self.rank = {graph.ident: number for number, graph in enumerate(graphs)}
        self.forwards = {
            stem: graph
            for graph in graphs
            if graph.phase == "forward" and (stem := _stem(graph.ident, "forward"))
        }

    def forward_of(self, ident: str) -> Graph | None:
        """The graph that saved what a backward graph reads."""
        return self.forwards.get(_stem(ident, "backward"))

    def counts(self, ident: str, level: int) -> Counter[Hashable]:
        keys, nodes = self.keys[ident], self.graphs[ident].nodes
        told = self.told[ident]
        return Counter(
            keys[position][level] for position in self.free[ident] if nodes[position].text or not told
        )

    def taken(self, ident: str, positions: Iterable[int]) -> None:
        self.free[ident] -= set(positions)


class _Work:
    def __init__(self, a: Sequence[Graph], b: Sequence[Graph]) -> None:
        self.a, self.b = _Side(a), _Side(b)
        self.result = Pairing(Classes(), [])
        self._scores: dict[tuple[str, str], tuple[bool, float, int]] = {}
        """Of pairs that are good enough: backward graphs last, how bad they are, then how far from each other
        in order."""
        self._waiting: list[tuple[tuple[bool, float, int], tuple[str, str]]] = []
        self._begun = False
        self._counts: dict[tuple[int, str, int], Counter[Hashable]] = {}
        self._done: set[tuple[str, str]] = set()

    def same_first(self, with_lines: bool) -> None:
        """Graphs that are equal but for names, in order: most of two runs of one program. Of those without
        any source line that is too little to know that the programs are one."""
        prints: dict[Hashable, list[str]] = defaultdict(list)
        for ident, graph in self.b.graphs.items():
            if len(self.b.free[ident]) == len(graph.operations):
                prints[_print(graph)].append(ident)
        for ident, graph in self.a.graphs.items():
            whole = len(self.a.free[ident]) == len(graph.operations)
            partners = prints.get(_print(graph))
            if partners and whole and any(node.text for node in graph.nodes) == with_lines:
                self._align(ident, partners.pop(0))

    def step(self) -> bool:
        """Align the best pair that is left; False where none is good enough."""
        if not self._begun:
            self._begun = True
            for pair in self._candidates():
                self._score(*pair)
        while self._waiting:
            rank, pair = heappop(self._waiting)
            if self._scores.get(pair) == rank:
                break
        else:
            return False
        del self._scores[pair]
        self._done.add(pair)
        if self._align(*pair):
            for key in [key for key in self._counts if key[:2] in ((0, pair[0]), (1, pair[1]))]:
                del self._counts[key]
            for other in [other for other in self._scores if other[0] == pair[0] or other[1] == pair[1]]:
                del self._scores[other]
                self._score(*other)
        return True

    def _candidates(self) -> Iterator[tuple[str, str]]:
        """Graphs that share a line, the nearest in order: of a thousand recompiles those around it."""
        by_text: dict[Hashable, set[str]] = defaultdict(set)
        for ident, graph in self.b.graphs.items():
            for position in self.b.free[ident]:
                by_text[graph.nodes[position].text].add(ident)
        for ident, graph in self.a.graphs.items():
            texts = {graph.nodes[position].text for position in self.a.free[ident]}
            if self.a.told[ident]:
                texts -= {""}
            others = {name for text in texts for name in by_text.get(text, ())}
            place = self.a.rank[ident]
            near = sorted(others, key=lambda name: (abs(self.b.rank[name] - place), self.b.rank[name]))
            for other in near[:_MOST_CANDIDATES]:
                yield ident, other

    def _count(self, side: int, ident: str, level: int) -> Counter[Hashable]:
        key = (side, ident, level)
        if key not in self._counts:
            self._counts[key] = (self.b if side else self.a).counts(ident, level)
        return self._counts[key]

    def _score(self, ident: str, other: str) -> None:
        """Nothing where too little agrees."""
        if (ident, other) in self._done or _class(self.a.graphs[ident]) != _class(self.b.graphs[other]):
            return
        strict = (self._count(0, ident, 0) & self._count(1, other, 0)).total()
        rough = (self._count(0, ident, 1) & self._count(1, other, 1)).total()
        sizes = len(self.a.free[ident]), len(self.b.free[other])
        smaller = min(sizes)
        if self.a.told[ident] != self.b.told[other]:
            return
        if not self.a.told[ident]:
            if smaller < LEAST_OPERATIONS or (
                strict < LEAST_WITHOUT_LINES * max(sizes) and rough < LEAST_MODULES * max(sizes)
            ):
                return
        elif (
            not smaller
            or rough < LEAST_SHARE * smaller
            or (strict < LEAST_EXACT * smaller and rough < LEAST_LOOSE * smaller)
        ):
            return
        value = (strict + rough) / 2
        distance = abs(self.a.rank[ident] - self.b.rank[other])
        rank = (_class(self.a.graphs[ident]), -value * value / sum(sizes), distance)
        self._scores[ident, other] = rank
        heappush(self._waiting, (rank, (ident, other)))

    def _align(self, ident: str, other: str) -> bool:
        """Whether anything was."""
        ours, theirs = self.a.graphs[ident], self.b.graphs[other]
        self._tell_saved(ours, theirs)
        alignment = Alignment(ours, theirs, self.a.free[ident], self.b.free[other])
        if not alignment.of_a:
            return False
        classes = self.result.classes
        for x, y in sorted(alignment.of_a.items()):
            one, two = ours.nodes[x], theirs.nodes[y]
            number = self._class_of(ident, other, [one.name], [two.name])
            if exact(one)[1:3] == exact(two)[1:3]:  # type: ignore[index]
                classes.exact.add(number)
            if one.text and one.text == two.text:
                classes.lines.add(number)
            if one.module and one.module == two.module:
                classes.modules.add(number)
        free_a, free_b = alignment.free_a, alignment.free_b
        for xs, ys in _stretches(ours, theirs, free_a, free_b):
            number = self._class_of(
                ident, other, [ours.nodes[x].name for x in xs], [theirs.nodes[y].name for y in ys]
            )
            classes.lines.add(number)
            classes.whole.add(number)
            free_a, free_b = free_a - set(xs), free_b - set(ys)
        self.a.free[ident], self.b.free[other] = free_a, free_b
        self.result.pairs.append((ident, other, len(alignment.of_a)))
        return True

    def _tell_saved(self, ours: Graph, theirs: Graph) -> None:
        """Say of what two backward graphs read which of the forward graphs' values it is: these have the same
        names (torch/_functorch/partitioners.py), and were matched before."""
        forwards = self.a.forward_of(ours.ident), self.b.forward_of(theirs.ident)
        for side, graph, forward, classes in (
            ("a", ours, forwards[0], self.result.classes.a),
            ("b", theirs, forwards[1], self.result.classes.b),
        ):
            for node in graph.nodes:
                node.given = ()
            if forwards[0] is None or forwards[1] is None or forward is None:
                continue
            for position, node in enumerate(graph.nodes):
                if node.is_input and (value := _saved(node.name, side, forward, classes)):
                    for user in graph.users[position]:
                        reader = graph.nodes[user]
                        reader.given = tuple(sorted((*reader.given, value)))

    def _class_of(self, ident: str, other: str, ours: Sequence[str], theirs: Sequence[str]) -> int:
        classes = self.result.classes
        number = classes.count
        classes.count += 1
        classes.a.update(((ident, name), number) for name in ours)
        classes.b.update(((other, name), number) for name in theirs)
        return number

    def all_alike(self) -> bool:
        """Whether both runs have the same graphs, whatever torch says of their lines."""
        ours, theirs = (
            Counter(_print(graph) for graph in side.graphs.values() if graph.operations)
            for side in (self.a, self.b)
        )
        return bool(ours) and ours == theirs

    def related(self) -> bool:
        """Whether the two runs have more in common than lines that any program might have."""
        total = min(sum(len(graph.operations) for graph in side.graphs.values()) for side in (self.a, self.b))
        matched = sum(count for *_, count in self.result.pairs)
        return matched > 0 and matched >= LEAST_OF_RUN * total


def _stem(ident: str, phase: str) -> str:
    """`model__0_backward_3.1` -> `model__0`: what a forward graph and its backward have in common."""
    before, found, _ = ident.partition(f"_{phase}_")
    return before if found else ""


def _saved(name: str, side: str, forward: Graph, classes: Mapping[tuple[str, str], int]) -> str:
    """A word for a value of the forward graph: the same on both sides where that node was matched. An input,
    as a weight is, goes by the first that reads it."""
    position = forward.position.get(name, forward.views.get(name))
    if position is None:
        return ""
    node, tap = forward.nodes[position], forward.taps.get(name, "")
    if not node.is_input:
        number = classes.get((forward.ident, node.name))
        return f"{side} {name}" if number is None else f"{number}{tap}"
    numbers = (classes.get((forward.ident, forward.nodes[user].name)) for user in forward.users[position])
    first = min((number for number in numbers if number is not None), default=None)
    return "" if first is None else f"read by {first}{tap}"


def _class(graph: Graph) -> bool:
    return graph.phase == "backward"


def _print(graph: Graph) -> Hashable:
    return (
        graph.phase,
        tuple((exact(node), node.inputs) for node in graph.nodes if not node.is_input),
    )


def _stretches(
    a: Graph, b: Graph, free_a: set[int], free_b: set[int]
) -> Iterable[tuple[list[int], list[int]]]:
    """Stretches of one line that both sides compute, in different operators: those of unmatched nodes of a
    line, one by one where both have as many, else all of them together."""
    ours, theirs = _runs(a, free_a), _runs(b, free_b)
    for text in ours:
        left, right = ours[text], theirs.get(text, [])
        if len(left) == len(right):
            yield from zip(left, right, strict=True)
        elif right:
            yield [x for run in left for x in run], [y for run in right for y in run]


def _runs(graph: Graph, free: set[int]) -> dict[str, list[list[int]]]:
    runs: dict[str, list[list[int]]] = {}
    last = ""
    for position in graph.operations:
        node = graph.nodes[position]
        if position in free and node.text and not node.minor:
            if node.text != last or node.text not in runs:
                runs.setdefault(node.text, []).append([])
            runs[node.text][-1].append(position)
        last = node.text or last
    return runs
