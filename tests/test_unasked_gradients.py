"""Gradients that a backward graph gives and nobody asks for."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import build
import pytest
from capturing import captured, own_folder, script  # noqa: F401

from inspector.analysis.unasked import half_unasked, unasked_nodes
from inspector.capture.recorder import calls as recorder_calls
from inspector.explain.gather import gather
from inspector.explain.rules import unasked_gradients
from inspector.model.fx import FxNode, TensorMeta
from inspector.readers.run import Run


def node(name: str, target: str, inputs: str, *shape: int | str, users: str = "") -> FxNode:
    meta = TensorMeta("float32", shape) if shape else None
    return build.replace(build.fx_node(name, target, inputs), meta=meta, users=tuple(users.split()))


def test_what_leads_to_nothing_but_gradients_of_weights() -> None:
    """A linear layer behind another one: of the second the input's gradient is needed, of the first too."""
    graph = build.fx_graph(
        build.fx_node("tangents_1", ""),
        node("mm", "torch.ops.aten.mm.default", "tangents_1", 32, 64),
        node("mm_1", "torch.ops.aten.mm.default", "tangents_1", 64, 10),
        node("sum_1", "torch.ops.aten.sum.dim_IntList", "tangents_1", 10),
        node("mm_2", "torch.ops.aten.mm.default", "mm", "s77", 3),
        node("copy_", "torch.ops.aten.copy_.default", "sum_1"),
        outputs=("mm_1", "sum_1", None, "mm_2"),
    )
    names = ("l_self_modules_fc_parameters_weight_", "l_self_modules_fc_parameters_bias_", "s77", "l_x_")
    traced = build.fx_graph(*(build.fx_node(name, "") for name in names))
    assert unasked_nodes(graph, traced, [(32, 3)]) == {"mm_1"}
    # The input may stand between this graph and what was asked for.
    assert unasked_nodes(graph, traced, [(5, 5)]) == {"mm_1"}
    assert not unasked_nodes(graph, traced, [(32, 3), (64, 10)])
    # Nobody asked, or which output is whose is not known, or nothing but weights is differentiated.
    fewer = build.fx_graph(*(build.fx_node(name, "") for name in names[:3]))
    alone = build.replace(graph, outputs=("mm_1", "sum_1", None, None))
    for others in ((graph, traced, []), (graph, fewer, [(32, 3)]), (graph, None, [(32, 3)]),
                   (None, traced, [(32, 3)]), (alone, traced, [(32, 3)])):  # fmt: skip
        assert not unasked_nodes(*others)


def test_a_convolutions_backward_gives_two_gradients() -> None:
    whole = node("c", "torch.ops.aten.convolution_backward.default", "g", users="of_input of_weight")
    results = (build.fx_node(name, "getitem", "c") for name in ("of_input", "of_weight"))
    nodes = {
        item.name: build.replace(item, arguments=("c", str(number))) for number, item in enumerate(results)
    }
    nodes["c"] = whole
    assert half_unasked(nodes, "c", frozenset({"of_weight"}))
    assert not half_unasked(nodes, "c", frozenset()) and not half_unasked(nodes, "c", frozenset(nodes))
    assert not half_unasked(nodes, "of_weight", frozenset({"of_weight"}))


def test_which_gradients_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tensor:
        is_nested = False
        shape = (8, 3)

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=Tensor))
    given: tuple[Any, ...] = ((), (), False, False)
    assert recorder_calls.asked_of((*given, (Tensor(),), True), {"accumulate_grad": False}) == ((8, 3),)
    for inputs in ((), (Tensor(), "an edge")):
        assert recorder_calls.asked_of((*given, inputs), {}) is None
    assert recorder_calls.asked_of((), {}) is None


ATTRIBUTION = """
    import torch
    torch.manual_seed(0)
    torch.set_num_threads(1)
    def net():
        return torch.nn.Sequential(torch.nn.Conv1d(3, 32, 7), torch.nn.GELU(), torch.nn.Conv1d(32, 32, 5))
    asked, trained = torch.compile(net()), torch.compile(net())
    for number in range(12):
        x = torch.randn(16, 3, 400, requires_grad=True)
        torch.autograd.grad(asked(x).square().mean(), x)
        trained(x[:8]).square().mean().backward()
"""


@pytest.mark.slow
def test_gradients_of_weights_beside_those_of_an_input() -> None:
    assert captured(script(ATTRIBUTION)).exit_code == 0
    case = gather(Run.open("run"))
    asked, trained = (graph for graph in case.graphs if "backward" in graph.name)
    assert asked.asked == ((16, 3, 400),) and trained.asked == ()
    (told,) = unasked_gradients.find(case)
    assert "of 16x3x400" in told.title and "requires_grad_(False)" in told.advice
    assert len(told.claims) >= 2 and told.cost_ms
    assert {claim.graph for claim in told.claims} == {asked.name}
