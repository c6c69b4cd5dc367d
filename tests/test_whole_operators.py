"""ATen's own operator, run alone: on the values that the graph gives it, in the strides of eager."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from inspector.model.replay import Timing  # noqa: E402
from inspector.model.waste import OperatorInput, WholeOperator  # noqa: E402
from inspector.replay import protocol  # noqa: E402
from inspector.replay.worker.code.fx import FxProgram  # noqa: E402
from inspector.replay.worker.inputs.arguments import Fill, Inputs, TensorSpec  # noqa: E402
from inspector.replay.worker.kernels.whole_operators import time_operators  # noqa: E402

GRAPH = """
import torch
class Repro(torch.nn.Module):
    def forward(self, a):
        mul = torch.ops.aten.mul.Tensor(a, 3)
        return (mul,)
"""
SIZE, STRIDE = (1, 2, 4, 4), (32, 1, 8, 2)


def operator(expression: str, *inputs: OperatorInput) -> WholeOperator:
    return WholeOperator("pool", "avg_pool2d", expression, inputs, ("mul",), (0,), None)


@pytest.fixture
def ran(tmp_path: Path) -> Any:
    """Runs operators; the events that were reported, and what the timed calls gave."""
    path = tmp_path / "fx_graph_runnable.py"
    path.write_text(GRAPH)
    program = FxProgram(path, "graph")
    inputs = Inputs([TensorSpec(SIZE, (32, 16, 4, 1), torch.float32, "cpu", 0)], seed=0)
    inputs.fill([Fill()])
    events: list[object] = []
    results: list[object] = []

    def measure(call: int, action: Any) -> protocol.KernelTimed:
        results.append(action())
        return protocol.KernelTimed(call, Timing(2.0, 0.1, 9))

    reporter = SimpleNamespace(
        send=events.append, note=lambda text: events.append(text), stage=lambda text: None
    )

    def run(*operators: WholeOperator) -> tuple[list[object], list[object], object]:
        context: Any = SimpleNamespace(
            plan=SimpleNamespace(operators=operators),
            reporter=reporter,
            device="cpu",
            inputs=inputs,
            linked_program=program,
        )
        clock: Any = SimpleNamespace(measure=measure)
        time_operators(context, clock)
        return events, results, inputs.fresh()[0]

    return run


def test_an_operator_gets_the_graphs_values_in_its_own_strides(ran: Any) -> None:
    given = OperatorInput("x", "float32", SIZE, STRIDE, "cpu", "mul")
    as_it_lies = operator("torch.clone(x, memory_format = torch.preserve_format)", given)
    events, (result,), argument = ran(as_it_lies)
    assert result.stride() == STRIDE and torch.equal(result, argument * 3)
    (event,) = events
    assert event.operator.own_ms == 2.0 and not event.operator.made_up and event.operator.calls == (0,)


def test_what_is_not_known_is_made_up_and_what_cannot_run_is_said(ran: Any) -> None:
    unknown = OperatorInput("x", "float32", SIZE, STRIDE, "cpu")
    good, bad = operator("x.cumsum(1)", unknown), operator("torch.nowhere(x)", unknown)
    events, (result,), _ = ran(bad, good)
    assert result.shape == SIZE and events[1].operator.made_up == ("x",)
    assert "avg_pool2d (pool) cannot be run whole" in events[0]


@pytest.mark.parametrize(
    "text", ["torch.hub.load(x)", "__import__('os').getcwd()", "torch.rand(x.numel())", "x if x else x"]
)
def test_nothing_but_a_call_of_an_operator_is_run(ran: Any, text: str) -> None:
    events, results, _ = ran(operator(text, OperatorInput("x", "float32", SIZE, STRIDE, "cpu")))
    assert not results and "cannot be run whole" in events[0]
