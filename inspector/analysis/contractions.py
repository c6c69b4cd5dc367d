"""Products of three tensors and more, and the order in which they take the fewest multiplications.

``a @ b @ v`` multiplies two matrices first where two products with a vector would do, and a compiled einsum
of several operands goes from left to right, with opt_einsum installed, too (torch 2.13). Each axis of what
goes into a tree of products gets a label, which views split and merge and products sum over or keep; any
order over the same labels gives the same result, but for how it is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from inspector.frozen import dataclass
from inspector.model.fx import FxGraph, FxNode

from .dataflow import operator
from .unread import IMPOSSIBLE, SHOWN_ANEW, Values, order_of

MOST = 7
"""Tensors that orders are tried of: for each one more three times as many."""
_PRODUCTS = frozenset({"mm", "bmm"})
_AS_IT_IS = frozenset({"clone", "alias", "detach"})


@dataclass(frozen=True, slots=True)
class Contraction:
    """A tree of products that nothing else reads into: its nodes, what goes in, its multiplications as it is
    and at best, and the best order: pairs of shapes, the first to be multiplied first."""

    nodes: tuple[str, ...]
    leaves: tuple[str, ...]
    taken: int
    least: int
    order: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


def contractions(graph: FxGraph, hints: Mapping[str, int] | None = None) -> tuple[Contraction, ...]:
    """Those of three tensors and more, with their best order; none where a size is not known."""
    values = Values(graph, hints)
    inner: set[str] = set()
    found = []
    for node in reversed(graph.nodes):
        if operator(node.target) not in _PRODUCTS or node.name in inner:
            continue
        tree = _Tree(values)
        try:
            given = tree.grow(node, root=True)
            inner.update(tree.products)
            if 3 <= len(tree.leaves) <= MOST:
                found.append(tree.best(given))
        except (_NotKnownError, RecursionError, *IMPOSSIBLE):
            continue
    return tuple(reversed(found))


class _NotKnownError(Exception):
    """A size is a symbol, a view takes an axis apart in a way that labels can't say, or too many go in."""


_Axes = list[list[int]]
"""Of a value: for each dimension the labels that it is merged of."""


class _Tree:
    """Labels are numbers. One may turn out to be the same as another, or to be made of several."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.sizes: list[int] = []
        self.made_of: dict[int, tuple[int, ...]] = {}
        self.leaves: list[tuple[str, _Axes]] = []
        self.products: list[str] = []
        self.steps: list[tuple[_Axes, _Axes]] = []

    def grow(self, node: FxNode, *, root: bool = False) -> _Axes:
        """The labels of a value, with those of all that goes into it."""
        name = operator(node.target)
        shape = self.values.shape(node.name)
        if shape is None:
            raise _NotKnownError
        alone = root or len(node.users) == 1
        if alone and name in _PRODUCTS:
            return self._product(node, name)
        if alone and name == "mul" and self._two(node):
            return self._outer(node, shape)
        source = self.values.nodes.get(node.inputs[0]) if len(node.inputs) == 1 else None
        if alone and source is not None and self.values.shape(source.name) is not None:
            if name in _AS_IT_IS:
                return self.grow(source)
            if name in SHOWN_ANEW:
                return self._viewed(self.grow(source), shape)
            if name in ("permute", "transpose", "t") and (order := order_of(node, len(shape))) is not None:
                axes = self.grow(source)
                return [axes[number] for number in order]
        fresh = [[self._label(size)] if size != 1 else [] for size in shape]
        self.leaves.append((node.name, fresh))
        return fresh

    def _two(self, node: FxNode) -> bool:
        return len(node.inputs) == 2 and set(node.arguments) == set(node.inputs)

    def _factors(self, node: FxNode) -> tuple[_Axes, _Axes]:
        left, right = (self.values.nodes.get(text) for text in node.arguments[:2])
        if left is None or right is None or len(self.products) >= MOST - 1:
            raise _NotKnownError
        self.products.append(node.name)
        return self.grow(left), self.grow(right)

    def _product(self, node: FxNode, name: str) -> _Axes:
        left, right = self._factors(node)
        self._join(left[-1], right[-2])
        if name == "bmm":
            self._join(left[0], right[0])
        self.steps.append((left, right))
        return [*left[:-1], right[-1]]

    def _outer(self, node: FxNode, shape: Sequence[int]) -> _Axes:
        left, right = self._factors(node)
        axes: _Axes = []
        for number in range(-len(shape), 0):
            own = [side[number] if -number <= len(side) else [] for side in (left, right)]
            if own[0] and own[1]:
                self._join(own[0], own[1])
            axes.append(own[0] or own[1])
        self.steps.append((left, right))
        return axes

    # -- labels

    def _label(self, size: int) -> int:
        self.sizes.append(size)
        return len(self.sizes) - 1

    def _now(self, labels: Iterable[int]) -> list[int]:
        """What the labels have turned out to be."""
        found: list[int] = []
        for label in labels:
            parts = self.made_of.get(label)
            found += [label] if parts is None else self._now(parts)
        return found

    def _join(self, one: list[int], other: list[int]) -> None:
        """Both are the same axis."""
        left, right = self._now(one), self._now(other)
        while left and right:
            a, b = left.pop(0), right.pop(0)
            if a == b:
                continue
            if self.sizes[a] == self.sizes[b]:
                self.made_of[a] = (b,)
                left, right = self._now(left), self._now(right)
            elif self.sizes[a] > self.sizes[b]:
                left = [*self._split(a, self.sizes[b]), *left]
                right = [b, *right]
            else:
                right = [*self._split(b, self.sizes[a]), *right]
                left = [a, *left]
        if left or right:
            raise _NotKnownError

    def _split(self, label: int, outer: int) -> tuple[int, int]:
        if self.sizes[label] % outer:
            raise _NotKnownError
        parts = self._label(outer), self._label(self.sizes[label] // outer)
        self.made_of[label] = parts
        return parts

    def _viewed(self, axes: _Axes, shape: Sequence[int]) -> _Axes:
        labels = self._now(label for axis in axes for label in axis)
        result: _Axes = []
        for size in shape:
            own: list[int] = []
            left = size
            while left > 1:
                if not labels:
                    raise _NotKnownError
                label = labels.pop(0)
                if left % self.sizes[label] == 0:
                    own.append(label)
                    left //= self.sizes[label]
                else:
                    outer, inner = self._split(label, left)
                    own.append(outer)
                    labels = [inner, *self._now(labels)]
                    left = 1
            result.append(own)
        return result

    # -- orders

    def _set(self, axes: _Axes) -> frozenset[int]:
        return frozenset(self._now(label for axis in axes for label in axis))

    def _volume(self, labels: Iterable[int]) -> int:
        return math.prod(self.sizes[label] for label in labels)

    def best(self, given: _Axes) -> Contraction:
        """Over all orders, by what is multiplied: of each set of tensors the best that makes it of two."""
        leaves = [self._set(axes) for _, axes in self.leaves]
        result = self._set(given)
        everyone = frozenset(range(len(leaves)))

        def left_over(some: frozenset[int]) -> frozenset[int]:
            inside = frozenset[int]().union(*(leaves[number] for number in some))
            outside = result.union(*(leaves[number] for number in everyone - some))
            return inside & outside if len(some) > 1 else inside

        costs: dict[frozenset[int], tuple[int, tuple[tuple[frozenset[int], frozenset[int]], ...]]] = {
            frozenset([number]): (0, ()) for number in everyone
        }
        for count in range(2, len(leaves) + 1):
            for members in combinations(sorted(everyone), count):
                some = frozenset(members)
                ways = []
                for size in range(1, count // 2 + 1):
                    for part in combinations(members, size):
                        one, other = frozenset(part), some - frozenset(part)
                        cost = self._volume(left_over(one) | left_over(other))
                        before = costs[one][0] + costs[other][0]
                        steps = (*costs[one][1], *costs[other][1], (one, other))
                        ways.append((cost + before, steps))
                costs[some] = min(ways, key=lambda way: way[0])
        least, order = costs[everyone]
        taken = sum(self._volume(self._set(left) | self._set(right)) for left, right in self.steps)

        def shape(some: frozenset[int]) -> tuple[int, ...]:
            return tuple(self.sizes[label] for label in sorted(left_over(some)))

        return Contraction(
            nodes=tuple(self.products),
            leaves=tuple(name for name, _ in self.leaves),
            taken=taken,
            least=least,
            order=tuple((shape(one), shape(other)) for one, other in order),
        )
