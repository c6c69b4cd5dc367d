"""Lines that one graph has many times over."""

from __future__ import annotations

from inspector.analysis.repeats import MANY, repeated
from inspector.model.fx import FxGraph
from inspector.readers.fx_graph import parse_fx_graph


def traced(*lines: int) -> FxGraph:
    """A graph with an operator of each of these lines."""
    text = ["class GraphModule(torch.nn.Module):", '    def forward(self, x_0: "f32[4]"):']
    for number, line in enumerate(lines):
        text.append(f"        # File: /home/user/ode.py:{line} in f, code: x = x * k")
        text.append(f'        x_{number + 1}: "f32[4]" = x_{number} * 2')
    text.append(f"        return (x_{len(lines)},)")
    return parse_fx_graph("\n".join(text) + "\n", "fx")


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
