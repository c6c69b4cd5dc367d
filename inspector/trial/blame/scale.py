"""Whether two sides differ in a metric, and whose value another one is as good as. Executes nothing."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from inspector.analysis.steady import SAME
from inspector.frozen import dataclass
from inspector.model.blame import MetricName, Side

NOISY: frozenset[MetricName] = frozenset({"time", "compile"})
"""Metrics that two runs of one thing don't agree on; the others are counted, or repeat exactly."""
ROUNDS: tuple[float, ...] = (3.0, 1.5, 1 + SAME)
"""Of a noisy metric: the ratio at which so many runs of each side are enough, none overlapping; after the
last there is no difference."""
_EXACT = {"kernels": 0.0, "memory": 0.01, "error": 1.0, "exit": 0.0}
"""The part of the smaller value by which sides differ at least."""
_NO_ERROR = 1e-12


@dataclass(frozen=True, slots=True)
class Scale:
    """Where the values of both sides lie; `a` is None where `limit` says what is good."""

    metric: MetricName
    a: float | None
    b: float
    limit: float | None = None

    def near(self, value: float | None) -> Side | None:
        """Whose side a value is on; None for the middle between noisy ones, and for no value."""
        if value is None:
            return None
        if self.metric == "exit":
            goal = 0.0 if self.a is None else self.a
            return "a" if value == goal else "b" if value == self.b else None
        if self.a is None:
            assert self.limit is not None
            slack = SAME / 2 * self.limit if self.metric in NOISY else 0.0
            return "a" if value <= self.limit - slack else "b" if value > self.limit + slack else None
        share = (_log(value) - _log(self.a)) / (_log(self.b) - _log(self.a))
        if self.metric in NOISY:
            return "a" if share <= 1 / 3 else "b" if share >= 2 / 3 else None
        return "a" if share < 0.5 else "b"


def _log(value: float) -> float:
    return math.log(min(max(value, _NO_ERROR), 1e300))


def differ(metric: MetricName, a: Sequence[float], b: Sequence[float]) -> bool | None:
    """Whether the sides differ, by as many runs of each; None where more runs have to tell."""
    one, two = statistics.median(a), statistics.median(b)
    if metric not in NOISY:
        least = _EXACT[metric] * min(abs(one), abs(two))
        return abs(one - two) > max(least, 1e-6 if metric == "error" else 0.0)
    low, high = (a, b) if one < two else (b, a)
    apart = max(low) < min(high)
    number = min(len(a), len(b))
    if (
        apart
        and number <= len(ROUNDS)
        and statistics.median(high) > ROUNDS[number - 1] * statistics.median(low)
    ):
        return True
    return None if number < len(ROUNDS) else False
