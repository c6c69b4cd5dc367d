"""A partition that only grows coarser: which nodes belong together after each join.

networkx has the components of a finished graph; here they are asked for after every round, and importing it
(0.1 s and more) takes longer than all joins of a graph.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, TypeVar

_T = TypeVar("_T", bound=Hashable)


class Partition(Generic[_T]):
    """`count` is the number of parts."""

    def __init__(self, members: Iterable[_T]) -> None:
        self._part: dict[_T, list[_T]] = {member: [member] for member in members}
        self._order = {member: position for position, member in enumerate(self._part)}
        self.count = len(self._part)

    def join(self, members: Sequence[_T]) -> None:
        """One part of all parts that these are in; what was no member to begin with is passed over."""
        known = [member for member in members if member in self._part]
        for member in known[1:]:
            one, two = self._part[known[0]], self._part[member]
            if one is not two:
                if len(one) < len(two):
                    one, two = two, one
                one.extend(two)
                for other in two:
                    self._part[other] = one
                self.count -= 1

    def groups(self) -> tuple[tuple[_T, ...], ...]:
        """Parts of several members; these, and the parts by their first, in the order of the beginning."""
        groups = {id(part): part for part in self._part.values() if len(part) > 1}
        ordered = [tuple(sorted(part, key=self._order.__getitem__)) for part in groups.values()]
        return tuple(sorted(ordered, key=lambda group: self._order[group[0]]))
