"""Which nodes of two FX graphs are the same.

Nodes are keyed by line, operator, dtype and shape, and by the same of what leads to them or follows from
them. Keys that stand equally often on both sides are matched, those that see furthest first: a whole ancestry
is as good as a name, and tells one of twelve equal layers from the next. Of steps that are alike the items
that they read tell more than where they stand, `x[2]` of an input or what the forward graph's own step saved,
so keys with these come first. From there matches spread along the flow of values, which carries them over
edited lines. Of what stands more often on one side as many are taken, in order, as agree best with the
matches around them. Keys without shapes then match what became another size or dtype.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher

from .nodes import COMMUTES, Graph, Node

_FAR = 1_000_000
_FEW = 400
"""Operations in a gap."""
_DEPTHS = (_FAR, 4, 2, 1, 0)
_MOST_PAIRS = 40_000
"""Of one key, to look for the best way of pairing in order."""
Key = Callable[[Node], Hashable]


def exact(node: Node) -> Hashable:
    """The same operator of the same line on values of the same dtype and shape."""
    if node.is_input:
        # Sizes are told by who reads it: a loop over one step more reads a longer input.
        return (node.op, node.dtype)
    return (node.op, node.dtype, node.shape, node.text, node.function, node.constants, node.operands)


def loose(node: Node) -> Hashable:
    """The same operator of the same line, on values of as many dimensions."""
    return (node.op, len(node.shape), node.text or node.module)


class Alignment:
    """Pairs of positions of operations in `a` and `b`, each in one pair at most."""

    def __init__(self, a: Graph, b: Graph, free_a: Iterable[int], free_b: Iterable[int]) -> None:
        self.a, self.b = a, b
        self.free_a, self.free_b = set(free_a), set(free_b)
        self.of_a: dict[int, int] = {}
        self.of_b: dict[int, int] = {}
        self._backward = "backward" in (a.phase, b.phase)
        self._strict = self._reading = True
        self._pass((_reading(_with_module(exact)), _reading(exact)), ordered=False)
        self._reading = False
        self._pass((_with_module(exact), exact), ordered=True)
        self._fill_gaps()
        self._strict = False
        self._pass((_reading(loose), loose), ordered=True)
        self._fill_gaps()

    def _pass(self, keys: Sequence[Key], ordered: bool) -> None:
        """The keys, from those that see furthest on; `ordered`: then also what stands unequally often."""
        directions = ("users", "inputs") if self._backward else ("inputs", "users")
        for depth in _DEPTHS:
            # What leads to a node and what follows from it speak first; then matches spread.
            fresh: list[tuple[int, int]] = []
            for key in keys:
                for direction in directions:
                    fresh += self._match(key, depth, direction, ordered and depth == 0)
            self._spread(fresh)

    def _match(self, key: Key, depth: int, direction: str, ordered: bool) -> list[tuple[int, int]]:
        """The pairs that a key gives."""
        if not self.free_a or not self.free_b:
            return []
        keys_a = _seen_from(self.a, key, depth, direction, not self._strict)
        keys_b = _seen_from(self.b, key, depth, direction, not self._strict)
        left: dict[int, list[int]] = defaultdict(list)
        right: dict[int, list[int]] = defaultdict(list)
        for graph, free, keys, places in (
            (self.a, self.free_a, keys_a, left),
            (self.b, self.free_b, keys_b, right),
        ):
            reads = _reads(graph, depth, direction) if self._reading else ()
            for position in sorted(free):
                if _tells(graph.nodes[position], depth) and (not self._reading or reads[position]):
                    places[keys[position]].append(position)
        fresh = []
        for value, ours in left.items():
            theirs = right.get(value, ())
            if len(ours) == len(theirs):
                for x, y in zip(ours, theirs, strict=True):
                    self._pair(x, y)
                    fresh.append((x, y))
        return fresh + (self._in_order(left, right) if ordered else [])

    def _in_order(self, left: dict[int, list[int]], right: dict[int, list[int]]) -> list[tuple[int, int]]:
        """What stands more often on one side: as many as agree best with the matches around them, in order;
        what is as good from the side where the program begins."""
        fresh = []
        for value in left:
            ours = [x for x in left[value] if x in self.free_a]
            theirs = [y for y in right.get(value, ()) if y in self.free_b]
            if not ours or not theirs:
                continue
            if self._backward:
                ours, theirs = ours[::-1], theirs[::-1]
            for x, y in self._best_in_order(ours, theirs):
                self._pair(x, y)
                fresh.append((x, y))
        return fresh

    def _best_in_order(self, ours: list[int], theirs: list[int]) -> Iterable[tuple[int, int]]:
        """Pairs that don't cross, of the largest sum of their agreement."""
        if len(ours) * len(theirs) > _MOST_PAIRS:
            return zip(ours, theirs, strict=False)
        weight = [[self._agreement(x, y) for y in theirs] for x in ours]
        best = [[0.0] * (len(theirs) + 1) for _ in range(len(ours) + 1)]
        for i in range(len(ours) - 1, -1, -1):
            for j in range(len(theirs) - 1, -1, -1):
                paired = weight[i][j] + best[i + 1][j + 1] if weight[i][j] > 0 else 0.0
                best[i][j] = max(paired, best[i + 1][j], best[i][j + 1])
        pairs = []
        i = j = 0
        while i < len(ours) and j < len(theirs):
            if weight[i][j] > 0 and best[i][j] == weight[i][j] + best[i + 1][j + 1]:
                pairs.append((ours[i], theirs[j]))
                i, j = i + 1, j + 1
            elif best[i][j] == best[i][j + 1]:
                j += 1
            else:
                i += 1
        return pairs

    def _agreement(self, x: int, y: int) -> float:
        """How well two nodes fit to their neighbours' matches: 1 where there are none, 0 where all are with
        others."""
        agree = against = 0
        for near_x, near_y in (
            (self.a.nodes[x].inputs, self.b.nodes[y].inputs),
            (self.a.users[x], self.b.users[y]),
        ):
            for one, other, of in ((near_x, near_y, self.of_a), (near_y, near_x, self.of_b)):
                for position in set(one):
                    if position in of:
                        agree += of[position] in other
                        against += of[position] not in other
        return max(0.5, 1 + agree - against / 2) if agree else float(not against)

    def _fill_gaps(self) -> None:
        """An edited line: of what stands between two matched nodes on both sides the longest common run of
        operators, where that is at least half of either."""
        fresh: list[tuple[int, int]] = []
        for ours, theirs in self._gaps():
            left = [_plain(self.a.nodes[x]) for x in ours]
            right = [_plain(self.b.nodes[y]) for y in theirs]
            # Of a few operators each stands often; only where there are many does that take cubic time.
            often = len(right) <= _FEW
            blocks = SequenceMatcher(None, left, right, autojunk=not often).get_matching_blocks()
            common = sum(block.size for block in blocks)
            if 2 * common < min(len(left), len(right)):
                continue
            for block in blocks:
                fresh += zip(
                    ours[block.a : block.a + block.size], theirs[block.b : block.b + block.size], strict=True
                )
        for x, y in fresh:
            self._pair(x, y)
        self._spread(fresh)

    def _gaps(self) -> Iterator[tuple[list[int], list[int]]]:
        """Unmatched operations between matched ones that follow each other on both sides."""
        order_a = [x for x in self.a.operations if x in self.free_a or x in self.of_a]
        order_b = [y for y in self.b.operations if y in self.free_b or y in self.of_b]
        place = {y: number for number, y in enumerate(order_b)}
        last = -1
        ours: list[int] = []
        for x in order_a:
            if x in self.of_a:
                here = place[self.of_a[x]]
                between = order_b[last + 1 : here]
                if ours and between and all(y in self.free_b for y in between):
                    yield ours, between
                last, ours = here, []
            else:
                ours.append(x)

    def _pair(self, x: int, y: int) -> None:
        self.of_a[x], self.of_b[y] = y, x
        self.free_a.discard(x)
        self.free_b.discard(y)

    def _spread(self, pairs: list[tuple[int, int]]) -> None:
        """From matched nodes to what they read and to who reads them."""
        waiting = list(pairs)
        while waiting:
            x, y = waiting.pop()
            near = [
                *self._inputs(x, y),
                *self._alike(self.a.users[x], self.b.users[y]),
            ]
            for i, j in near:
                if i in self.free_a and j in self.free_b:
                    self._pair(i, j)
                    waiting.append((i, j))

    def _inputs(self, x: int, y: int) -> list[tuple[int, int]]:
        ours, theirs = self.a.nodes[x], self.b.nodes[y]
        if len(ours.inputs) == len(theirs.inputs) and ours.op not in COMMUTES:
            pairs = zip(ours.inputs, theirs.inputs, strict=True)
            return [(i, j) for i, j in pairs if self._compatible(i, j)]
        return self._alike(ours.inputs, theirs.inputs)

    def _alike(self, ours: Sequence[int], theirs: Sequence[int]) -> list[tuple[int, int]]:
        """Those among neighbours that are the only one of their operator on both sides."""
        left = [i for i in dict.fromkeys(ours) if i in self.free_a]
        right = [j for j in dict.fromkeys(theirs) if j in self.free_b]
        if not left or not right:
            return []
        counts_a = Counter(self.a.nodes[i].op for i in left)
        counts_b = Counter(self.b.nodes[j].op for j in right)
        by_op = {self.b.nodes[j].op: j for j in right}
        pairs = []
        for i in left:
            op = self.a.nodes[i].op
            if op and counts_a[op] == counts_b[op] == 1:
                j = by_op[op]
                if self._compatible(i, j):
                    pairs.append((i, j))
        return pairs

    def _compatible(self, x: int, y: int) -> bool:
        """Neighbours of matched nodes are the same where they are one operator of one shape, or, once what is
        alike in shapes too has been matched, of one line."""
        ours, theirs = self.a.nodes[x], self.b.nodes[y]
        if ours.is_input or theirs.is_input or ours.op != theirs.op:
            return False
        if self._reading and (ours.taps, ours.given) != (theirs.taps, theirs.given):
            return False
        if not self._strict and ours.text and ours.text == theirs.text:
            return True
        return (
            ours.dtype == theirs.dtype
            and _shapes_fit(ours.shape, theirs.shape)
            and len(ours.operands) == len(theirs.operands)
            and all(map(_shapes_fit, ours.operands, theirs.operands))
        )


def _with_module(key: Key) -> Key:
    return lambda node: (key(node), node.module)


def _reading(key: Key) -> Key:
    return lambda node: (key(node), node.taps, node.given)


def _plain(node: Node) -> Hashable:
    return (node.op, node.dtype, len(node.shape))


def _tells(node: Node, depth: int) -> bool:
    """Whether a node can be told from others: without a line or a module only by the whole flow of values."""
    return not node.is_input and (bool(node.text or node.module) or depth == _FAR)


def _shapes_fit(ours: tuple[str, ...], theirs: tuple[str, ...]) -> bool:
    return len(ours) == len(theirs) and all(
        x == y or "?" in (x, y) for x, y in zip(ours, theirs, strict=True)
    )


def _seen_from(graph: Graph, key: Key, depth: int, direction: str, past_casts: bool) -> list[int]:
    """For each node a number for its key and those of what is up to `depth` steps before or after it."""
    own = [hash(key(node)) for node in graph.nodes]
    if depth == 0:
        return own
    passed = [past_casts and node.op == "cast" for node in graph.nodes]
    near = [node.inputs for node in graph.nodes] if direction == "inputs" else graph.users
    if depth >= _FAR:
        order = range(len(own)) if direction == "inputs" else range(len(own) - 1, -1, -1)
        seen = list(own)
        for position in order:
            seen[position] = _mix(
                own[position], near[position], seen, graph.nodes[position], direction, passed[position]
            )
        return seen
    seen = own
    for _ in range(depth):
        seen = [
            _mix(own[position], near[position], seen, graph.nodes[position], direction, passed[position])
            for position in range(len(own))
        ]
    return seen


def _reads(graph: Graph, depth: int, direction: str) -> list[bool]:
    """For each node whether it is known which items, or values of the forward graph, it or what is up to
    `depth` steps before or after it reads."""
    reads = [bool(node.taps or node.given) for node in graph.nodes]
    near = [node.inputs for node in graph.nodes] if direction == "inputs" else graph.users
    order = range(len(reads)) if direction == "inputs" else range(len(reads) - 1, -1, -1)
    for _ in range(1 if depth >= _FAR else depth):
        seen = reads if depth >= _FAR else list(reads)
        for position in order:
            reads[position] = seen[position] or any(seen[other] for other in near[position])
    return reads


def _mix(own: int, near: Sequence[int], seen: Sequence[int], node: Node, direction: str, passed: bool) -> int:
    """`passed` over is what only converts: another dtype puts such nodes in everywhere."""
    values = [seen[position] for position in near]
    if passed and len(values) == 1:
        return values[0]
    if direction == "users" or node.op in COMMUTES:
        values.sort()
    return hash((own, *values))
