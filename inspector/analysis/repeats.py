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
    """`lines` come `times` times and more, as what a helper does comes several times in each round, in the
    order in which they come first, with `operators` of the `of` that the graph has."""

    lines: tuple[SourceLocation, ...]
    times: int
    operators: int
    of: int


def repeated(graph: FxGraph) -> Repeated | None:
    """None unless such lines have most of the graph's operators. `graph` is in the program's order, as Dynamo
    traced it: a line comes once more where operators of other lines stand before it."""
    operators = graph.operations
    lines = [node.source for node in operators if node.source is not None]
    rounds = Counter(line for before, line in zip([None, *lines], lines, strict=False) if line != before)
    counts = Counter(lines)
    own = [line for line in counts if rounds[line] >= MANY]
    inside = sum(counts[line] for line in own)
    if not own or inside <= MOST * len(operators):
        return None
    return Repeated(tuple(own), min(rounds[line] for line in own), inside, len(operators))
