"""Lines that one graph has many times over."""

from __future__ import annotations

from build import fx_graph, fx_node

from inspector.analysis.repeats import MANY, repeated
from inspector.model.fx import FxGraph


def traced(*lines: int) -> FxGraph:
    """A graph with an operator of each of these lines."""
    return fx_graph(*(fx_node(f"x_{number}", "mul", line=line) for number, line in enumerate(lines)))


def test_a_loop_that_is_unrolled() -> None:
    found = repeated(traced(3, *[7, 8, 8] * 12, 20))
    assert found is not None
    assert [line.line for line in found.lines] == [7, 8]
    assert (found.times, found.operators, found.of) == (12, 36, 38)


def test_what_a_helper_does_comes_several_times_in_each_round() -> None:
    found = repeated(traced(*[7, 30, 8, 30, 9, 9, 9] * 10))
    assert found is not None and found.times == 10 and len(found.lines) == 4
    mostly = repeated(traced(*[7, 30, 31, 30, 31, 30, 31] * 10))
    assert mostly is not None and (mostly.times, len(mostly.lines), mostly.operators) == (30, 2, 60)


def test_a_few_rounds_or_a_small_part_are_none() -> None:
    assert repeated(traced(*[7, 8] * (MANY - 1))) is None
    assert repeated(traced(*[7, 8] * MANY)) is not None
    assert repeated(traced(*range(100, 120), *[7, 8] * MANY)) is None
    assert repeated(traced()) is None
