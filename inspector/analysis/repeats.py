"""Lines of a program that one graph has many times over: a loop that tracing unrolls, layers that are alike.

What is compiled grows with each round, and so does what compiling takes; torch's own name for the way out is
regional compilation.
"""

from __future__ import annotations

from collections import Counter

from inspector.frozen import dataclass
from inspector.model.fx import FxGraph
from inspector.model.source import SourceLocation

from .steady import MOST

MANY = 8
"""Rounds: of fewer, what is left of compiling is no small part."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """`lines` come `times` times and more, what a helper does several times in each round, in the order in
    which they come first, with `operators` of the `of` that the graph has."""

    lines: tuple[SourceLocation, ...]
    times: int
    operators: int
    of: int


def repeated(graph: FxGraph) -> Repeated | None:
    """The lines that come most often and together have most of the graph's operators; None where these come
    less than `MANY` times. `graph` is in the program's order, as Dynamo traced it: a line comes once more
    where operators of other lines stand before it."""
    operators = graph.operations
    lines = [node.source for node in operators if node.source is not None]
    rounds = Counter(line for before, line in zip([None, *lines], lines, strict=False) if line != before)
    counts = Counter(lines)
    inside = 0
    for line in sorted(counts, key=rounds.__getitem__, reverse=True):
        inside += counts[line]
        if rounds[line] < MANY:
            return None
        if inside > MOST * len(operators):
            often = rounds[line]
            own = tuple(line for line in counts if rounds[line] >= often)
            return Repeated(own, often, sum(counts[line] for line in own), len(operators))
    return None
