"""Which kernel launches of two runs compute the same, by the FX nodes that they compute.

A node that several kernels are said to compute counts for the first of them: torch names everything upstream
of a value as its origins, and what is computed again is not what a kernel is for. Where more than half of
what one launch computes lies in one launch of the other side, the two belong together: each other's half is
one to one, two launches in one have merged, one in two has split. A launch that nothing ties to the other
side stays alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field
from typing import Literal

from inspector.frozen import dataclass
from inspector.model.code import Alias, Kernel, KernelCall, OutputCode
from inspector.model.diff import Basis, LaunchId, Relation

from .code import plain_lines
from .graphs import Classes
from .nodes import LIBRARY, Graph, family

MAJORITY = 0.5
"""Of a launch's operations so much must lie in the other's, and a little more."""
LEAST_BY_CODE = 3
"""Launches of runs without any FX graph that must run the same code."""
LEAST_KNOWN = 0.25
"""Of a launch's operations at least so much must be matched at all."""

_LIBRARY_KINDS = ("extern", "fallback", "template")
_MINOR = 0.02
_MOVING = 0.25
_AGAIN = 0.1


@dataclass(slots=True)
class Unit:
    """One launch. `shares`: class -> the part of its operators that this launch computes; `total` is that of
    all its operators, matched or not; `minor` is the same of views, and of a library call's node for what
    only prepares its arguments. `code` is the kernel's text with names out of the way."""

    ident: LaunchId
    call: KernelCall
    kernel: Kernel | None
    code: str
    total: float
    shares: dict[int, float] = field(default_factory=dict)
    minor: dict[int, float] = field(default_factory=dict)
    size: str = ""
    phase: str = ""
    operators: tuple[str, ...] = ()
    before: frozenset[int] = frozenset()
    after: frozenset[int] = frozenset()
    file: str = ""

    @property
    def known(self) -> float:
        return sum(self.shares.values())


@dataclass(frozen=True, slots=True)
class Group:
    """Launches of both sides that belong together, by position in their sides' units."""

    a: tuple[int, ...]
    b: tuple[int, ...]
    basis: tuple[Basis, ...]
    share: float

    @property
    def relation(self) -> Relation:
        if not self.b:
            return "only_a"
        if not self.a:
            return "only_b"
        if len(self.a) < len(self.b):
            return "split"
        return "merged" if len(self.a) > len(self.b) else "changed"


@dataclass(frozen=True, slots=True)
class Launched:
    """A launch as it was read: with names of its FX nodes, its kernel and that one's plain code."""

    ident: LaunchId
    call: KernelCall
    kernel: Kernel | None
    code: str
    fx: tuple[str, ...]
    size: str
    before: frozenset[int] = frozenset()
    after: frozenset[int] = frozenset()


def units_of(
    graph: Graph, launches: Sequence[Launched], classes: Mapping[tuple[str, str], int], file: str = ""
) -> list[Unit]:
    """The launches of one graph with what they compute of each class."""
    library = {
        name
        for launch in launches
        if launch.call.kind in _LIBRARY_KINDS
        for name in own_nodes(graph, launch.call, launch.fx)
    }
    first: set[str] = set()
    ready = _ready(graph, launches)
    sizes = Counter(classes[key] for node in graph.nodes if (key := (graph.ident, node.name)) in classes)
    kept: list[list[tuple[str, float]]] = []
    for launch in launches:
        own = own_nodes(graph, launch.call, launch.fx) if launch.call.kind in _LIBRARY_KINDS else ()
        outside = launch.call.kind in ("extern", "fallback")
        weights = []
        for name in dict.fromkeys(launch.fx):
            position = graph.position.get(name)
            if position is None:
                continue
            node = graph.nodes[position]
            if node.is_input or ready[position] > launch.call.index:
                continue
            if name not in own and (name in library or outside):
                weights.append((name, 0.0))
                continue
            weight = _MOVING if node.minor else 1.0
            weights.append((name, weight if name not in first else weight * _AGAIN))
            first.add(name)
        kept.append(weights)
    units = []
    for launch, weights in zip(launches, kept, strict=True):
        unit = Unit(
            launch.ident,
            launch.call,
            launch.kernel,
            launch.code,
            0.0,
            size=launch.size,
            phase=graph.phase,
            before=launch.before,
            after=launch.after,
            file=file,
        )
        operators = []
        for name, weight in weights:
            number = classes.get((graph.ident, name))
            if not weight:
                if number is not None:
                    unit.minor[number] = _MINOR
                continue
            if weight > _MOVING:
                operators.append(graph.nodes[graph.position[name]].op)
            part = weight / sizes[number] if number is not None else weight
            unit.total += part
            if number is not None:
                unit.shares[number] = unit.shares.get(number, 0.0) + part
        for name in launch.fx:
            if name in graph.views:
                number = classes.get((graph.ident, graph.nodes[graph.views[name]].name))
                if number is not None and number not in unit.shares:
                    unit.minor.setdefault(number, _MINOR)
        unit.operators = tuple(sorted(set(operators)))
        units.append(unit)
    return units


def _ready(graph: Graph, launches: Sequence[Launched]) -> list[int]:
    """For each node the number of the last library call whose result it needs, -1 for none: no earlier launch
    computes it, even where torch names it there, as it does of all pieces of a concatenation."""
    called: dict[int, int] = {}
    for launch in launches:
        if launch.call.kind in ("extern", "fallback"):
            for name in own_nodes(graph, launch.call, launch.fx):
                called.setdefault(graph.position[name], launch.call.index)
    ready = [-1] * len(graph.nodes)
    for position, node in enumerate(graph.nodes):
        ready[position] = max((ready[source] for source in node.inputs), default=-1)
        ready[position] = max(ready[position], called.get(position, -1))
    return ready


def own_nodes(graph: Graph, call: KernelCall, fx: Sequence[str]) -> tuple[str, ...]:
    """The library nodes that a library call or template is; of several operators the one that it is called
    after."""
    nodes = [graph.nodes[graph.position[name]] for name in fx if name in graph.position]
    called = family(call.kernel)
    exact = tuple(node.name for node in nodes if node.op == called and not node.is_input)
    if exact and call.kind != "template":
        return exact
    if call.kind == "template":
        return tuple(node.name for node in nodes if node.op in LIBRARY)
    return tuple(node.name for node in nodes if not node.is_input)


def neighbours(code: OutputCode) -> dict[int, tuple[set[int], set[int]]]:
    """Number of each launch -> those of the launches before and after it that share a value with it."""
    near: dict[int, tuple[set[int], set[int]]] = {call.index: (set(), set()) for call in code.calls}
    writer: dict[str, int] = {}
    for step in code.steps:
        if isinstance(step, Alias) and step.source in writer and step.kind != "symbol":
            writer[step.name] = writer[step.source]
        elif isinstance(step, KernelCall):
            for name in step.buffers:
                if name in writer and writer[name] != step.index:
                    near[step.index][0].add(writer[name])
                    near[writer[name]][1].add(step.index)
            writer.update(dict.fromkeys(step.outputs, step.index))
    return near


def _files(units: Sequence[Unit], group_of: Mapping[int, int]) -> dict[str, list[list[int]]]:
    """Generated file, names out of the way -> the launches of each graph that has it, where one of them is in
    no group."""
    graphs: dict[str, list[int]] = defaultdict(list)
    for position, unit in enumerate(units):
        graphs[unit.ident.graph].append(position)
    files: dict[str, list[list[int]]] = defaultdict(list)
    for positions in graphs.values():
        if any(position not in group_of for position in positions):
            files["\n".join(filter(None, plain_lines(units[positions[0]].file)))].append(positions)
    return files


class Matcher:
    """Groups the launches of two runs."""

    def __init__(self, a: Sequence[Unit], b: Sequence[Unit], classes: Classes) -> None:
        self.a, self.b, self.classes = a, b, classes
        self._group_of_a: dict[int, int] = {}
        self._group_of_b: dict[int, int] = {}
        self._groups: list[tuple[list[int], list[int]]] = []
        self._same_code: set[int] = set()

    def groups(self) -> list[Group]:
        """Every launch of both sides in exactly one group, in the order of A's, then what only B has."""
        for strict in (True, False):
            for x, y in self._links(strict):
                self._join(x, y, strict)
        self._movers()
        self._by_file()
        while self._between():
            pass
        self._by_code()
        while self._between():
            pass
        made = [self._made(sorted(xs), sorted(ys)) for xs, ys in self._groups]
        made += [Group((x,), (), (), 0.0) for x in range(len(self.a)) if x not in self._group_of_a]
        made.sort(key=lambda group: group.a)
        made += [Group((), (y,), (), 0.0) for y in range(len(self.b)) if y not in self._group_of_b]
        return made

    def _overlaps(self, minor: bool) -> dict[tuple[int, int], float]:
        """Pairs of launches -> what both compute."""
        holders: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for y, unit in enumerate(self.b):
            for number, share in (unit.minor if minor else unit.shares).items():
                holders[number].append((y, share))
        overlaps: dict[tuple[int, int], float] = defaultdict(float)
        for x, unit in enumerate(self.a):
            for number, share in (unit.minor if minor else unit.shares).items():
                for y, other in holders.get(number, ()):
                    overlaps[x, y] += min(share, other)
        return overlaps

    def _links(self, mutual: bool) -> list[tuple[int, int]]:
        """Pairs of which one lies mostly in the other, best first; `mutual`: each mostly in the other."""
        links = []
        for (x, y), overlap in self._overlaps(minor=False).items():
            ours, theirs = self.a[x], self.b[y]
            inside = overlap > MAJORITY * ours.known and ours.known >= LEAST_KNOWN * ours.total
            around = overlap > MAJORITY * theirs.known and theirs.known >= LEAST_KNOWN * theirs.total
            if (inside and around) if mutual else (inside or around):
                union = ours.known + theirs.known - overlap
                same = ours.code == theirs.code and bool(ours.code)
                links.append((-overlap / union, not same, -overlap, x, y))
        return [(x, y) for *_, x, y in sorted(links)]

    def _join(self, x: int, y: int, mutual: bool) -> None:
        """Put both in one group, unless that would tie several of one side to several of the other."""
        ours, theirs = self._group_of_a.get(x), self._group_of_b.get(y)
        if ours is None and theirs is None:
            self._group_of_a[x] = self._group_of_b[y] = len(self._groups)
            self._groups.append(([x], [y]))
        elif mutual:
            return
        elif ours is None and theirs is not None and len(self._groups[theirs][1]) == 1:
            self._group_of_a[x] = theirs
            self._groups[theirs][0].append(x)
        elif theirs is None and ours is not None and len(self._groups[ours][0]) == 1:
            self._group_of_b[y] = ours
            self._groups[ours][1].append(y)

    def _movers(self) -> None:
        """Launches without an operator of their own: they copy what a matched node reads or makes."""
        links = []
        for (x, y), overlap in self._overlaps(minor=True).items():
            ours, theirs = self.a[x], self.b[y]
            if x in self._group_of_a or y in self._group_of_b or ours.total or theirs.total:
                continue
            links.append((ours.size != theirs.size, -overlap, ours.code != theirs.code, x, y))
        for different, *_, x, y in sorted(links):
            if not different:
                self._join(x, y, mutual=True)

    def _between(self) -> int:
        """Launches of which nothing is known but the matched launches that they stand between; how many."""
        left, right = self._places(self.a, self._group_of_a), self._places(self.b, self._group_of_b)
        pairs = [
            pair
            for key, ours in left.items()
            if len(ours) == len(right.get(key, ()))
            for pair in zip(ours, right[key], strict=True)
        ]
        for x, y in pairs:
            self._join(x, y, mutual=True)
        return len(pairs)

    @staticmethod
    def _places(units: Sequence[Unit], group_of: Mapping[int, int]) -> dict[Hashable, list[int]]:
        at = {(unit.ident.graph, unit.ident.call): position for position, unit in enumerate(units)}
        places: dict[Hashable, list[int]] = defaultdict(list)
        for position, unit in enumerate(units):
            if position in group_of or unit.known:
                continue
            sides = [
                frozenset(
                    group_of[other] for call in near if (other := at[unit.ident.graph, call]) in group_of
                )
                for near in (unit.before, unit.after)
            ]
            if any(sides):
                generated = unit.ident.kind in ("triton", "cpp")
                kind = "generated" if generated else family(unit.ident.kernel)
                places[kind, sides[0], sides[1]].append(position)
        return places

    def _by_file(self) -> None:
        """What is left of graphs whose generated files are equal but for names, launch by launch."""
        ours, theirs = _files(self.a, self._group_of_a), _files(self.b, self._group_of_b)
        for text, graphs in ours.items():
            for left, right in zip(graphs, theirs.get(text, ()), strict=False):
                # Of a piece that several graphs have not each may have all launches.
                for x, y in zip(left, right, strict=True) if len(left) == len(right) else ():
                    if x not in self._group_of_a and y not in self._group_of_b:
                        self._join_by_code(x, y)

    def _by_code(self) -> None:
        """Of launches whose nodes are not known those that run the same code, where as many on both sides do
        in graphs of one phase. Where no launch has nodes, that must be so of many: a short kernel is like
        another."""
        left, right = self._coded(self.a, self._group_of_a), self._coded(self.b, self._group_of_b)
        pairs = [
            pair
            for key, ours in left.items()
            if len(ours) == len(right.get(key, ()))
            for pair in zip(ours, right[key], strict=True)
        ]
        smaller = min(sum(map(len, side.values())) for side in (left, right))
        if self._groups or len(pairs) >= max(LEAST_BY_CODE, MAJORITY * smaller):
            for x, y in pairs:
                self._join_by_code(x, y)

    @staticmethod
    def _coded(units: Sequence[Unit], group_of: Mapping[int, int]) -> dict[Hashable, list[int]]:
        coded: dict[Hashable, list[int]] = defaultdict(list)
        for position, unit in enumerate(units):
            if position not in group_of and unit.code and not unit.total:
                coded[unit.phase, unit.code, unit.size].append(position)
        return coded

    def _join_by_code(self, x: int, y: int) -> None:
        self._join(x, y, mutual=True)
        self._same_code.add(x)

    def _made(self, xs: list[int], ys: list[int]) -> Group:
        ours = set().union(*({*self.a[x].shares, *self.a[x].minor} for x in xs))
        theirs = set().union(*({*self.b[y].shares, *self.b[y].minor} for y in ys))
        both = ours & theirs
        basis: list[Basis] = []
        classes = self.classes
        if both & classes.lines:
            basis.append("source line")
        if both & classes.modules:
            basis.append("module")
        if both - classes.whole:
            basis.append("operators")
        if both and both <= classes.exact:
            basis.append("shapes")
        if both - classes.lines:
            basis.append("dataflow")
        if any(self.a[x].call.kind in ("extern", "fallback") for x in xs) and both:
            targets = {self.a[x].call.kernel for x in xs}
            if targets & {self.b[y].call.kernel for y in ys}:
                basis.append("library call")
        if not both:
            basis.append("code" if self._same_code.issuperset(xs) else "dataflow")
        smaller = min(sum(self.a[x].total for x in xs), sum(self.b[y].total for y in ys))
        common = sum(
            min(
                sum(self.a[x].shares.get(number, 0.0) for x in xs),
                sum(self.b[y].shares.get(number, 0.0) for y in ys),
            )
            for number in both
        )
        return Group(tuple(xs), tuple(ys), tuple(basis), min(1.0, common / smaller) if smaller else 1.0)


Side = Literal["a", "b"]
