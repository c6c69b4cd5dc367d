"""Which part of a tensor is meant: along each dimension all places, a range of them, or some that data picks.

A dimension that views have merged keeps the factors that it was merged of, so that "the last token of every
sentence" stays that after ``view(batch * tokens, width)``. What can't be said so is widened: a part never
leaves out what is meant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Picked(NamedTuple):
    """`places` that the values of node `by` name; other ones for each place of the other dimensions
    where `each`."""

    by: str
    places: int
    each: bool


Take = range | Picked | None
"""None: all."""


class Factor(NamedTuple):
    """Places along a dimension, or along one of those that it was merged of."""

    size: int
    take: Take = None

    @property
    def taken(self) -> int:
        if isinstance(self.take, Picked):
            return min(self.size, self.take.places)
        return self.size if self.take is None else len(self.take)


Dimension = tuple[Factor, ...]
Part = tuple[Dimension, ...]
"""Of a tensor, by dimension."""


def whole(shape: Sequence[int]) -> Part:
    return tuple((Factor(size),) for size in shape)


def size_of(dimension: Dimension) -> int:
    """All places along it, as many as are meant or more."""
    return math.prod(factor.size for factor in dimension)


def share_of(dimension: Dimension) -> float:
    """Places that are meant by all along it, 0 to 1."""
    return math.prod(factor.taken / factor.size for factor in dimension if factor.size)


def fraction(part: Part) -> float:
    """Elements in the part by those in the tensor, 0 to 1."""
    return math.prod(map(share_of, part))


def narrowed(size: int, take: Take, within: Dimension | None = None) -> Dimension:
    """The part `within` of what `take` leaves of `size` places, as a part of all."""
    inner = within[0].take if within is not None and len(within) == 1 else None
    if isinstance(take, range) and isinstance(inner, range):
        take = take[inner.start : inner.stop : inner.step]
    if isinstance(take, range) and take == range(size):
        take = None
    return (Factor(size, take),)


def same_for_all(dimension: Dimension) -> Dimension:
    """All places where each place of the other dimensions has picks of its own, which are not known here."""
    return tuple(
        Factor(factor.size) if isinstance(factor.take, Picked) and factor.take.each else factor
        for factor in dimension
    )


def viewed(part: Part, shape: Sequence[int]) -> Part:
    """The same elements in the same order under another shape."""
    factors = [factor for dimension in part for factor in dimension if factor.size != 1]
    dimensions: list[Dimension] = []
    for size in shape:
        own: list[Factor] = []
        left = size
        while left > 1:
            if not factors:
                return whole(shape)
            factor = factors.pop(0)
            if left % factor.size == 0:
                own.append(factor)
                left //= factor.size
            elif factor.size % left == 0:
                outer, inner = _split(factor, left)
                own.append(outer)
                factors.insert(0, inner)
                left = 1
            else:
                return whole(shape)
        dimensions.append(tuple(own) or (Factor(size),))
    return tuple(dimensions) if not factors else whole(shape)


def _split(factor: Factor, outer: int) -> tuple[Factor, Factor]:
    inner = factor.size // outer
    take = factor.take
    if isinstance(take, range) and len(take):
        first, last = take[0] // inner, take[-1] // inner
        if first == last:
            start = first * inner
            return Factor(outer, range(first, first + 1)), Factor(
                inner, range(take.start - start, take[-1] + 1 - start, take.step)
            )
        return Factor(outer, range(first, last + 1)), Factor(inner)
    return Factor(outer), Factor(inner)


def union(one: Part, other: Part) -> Part:
    """A part with all of both; of tensors of one shape."""
    return tuple(_both(a, b) for a, b in zip(one, other, strict=False))


def _both(one: Dimension, other: Dimension) -> Dimension:
    if [factor.size for factor in one] != [factor.size for factor in other]:
        return (Factor(size_of(one)),)
    return tuple(Factor(a.size, _either(a.take, b.take)) for a, b in zip(one, other, strict=True))


def _either(one: Take, other: Take) -> Take:
    if one == other:
        return one
    if isinstance(one, range) and isinstance(other, range):
        if not one or not other:
            return one or other
        return range(min(one[0], other[0]), max(one[-1], other[-1]) + 1)
    return None
