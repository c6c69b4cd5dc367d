"""What of a value is read, and what of it is other than zero, held against gradients and values."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._inductor.decomposition import select_decomp_table
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional

from inspector.analysis.unread import read_parts
from inspector.analysis.zeros import useful_parts
from inspector.model.fx import FxGraph
from inspector.readers.fx_graph import parse_fx_graph


def _graph(call: Callable[..., object], *given: Tensor) -> tuple[torch.fx.GraphModule, FxGraph]:
    made = make_fx(call, decomposition_table=select_decomp_table())(*given)
    made.graph.eliminate_dead_code()
    return made, parse_fx_graph(made.print_readable(print_output=False), "fx.py")


class _Probed(torch.fx.Interpreter):
    """Runs a graph and keeps, for each value, a tensor that gets its gradient."""

    probes: dict[str, Tensor]

    def run_node(self, n: torch.fx.Node) -> object:
        value = super().run_node(n)
        if isinstance(value, Tensor) and value.is_floating_point() and n.op != "output":
            probe = torch.zeros_like(value, requires_grad=True)
            self.probes[n.name] = probe
            return value + probe
        return value


def _read(made: torch.fx.GraphModule, *given: Tensor) -> dict[str, float]:
    """Of each value, the part that has a gradient."""
    run = _Probed(made)
    run.probes = {}
    out = run.run(*given)
    results = [item for item in (out if isinstance(out, tuple | list) else [out]) if item.requires_grad]
    sum((item * torch.rand_like(item)).sum() for item in results).backward()
    return {
        name: float((probe.grad != 0).double().mean())
        for name, probe in run.probes.items()
        if probe.grad is not None
    }


def _rand(*shape: int) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64)


ROWS = torch.tensor([0, 3, 1])
HEADS = torch.tensor([[2, 0, 1, 3, 2], [1, 1, 4, 0, 2]])
CASES: dict[str, tuple[Callable[..., object], tuple[Tensor, ...]]] = {
    "last token": (lambda x, w: (x @ w)[:, -1], (_rand(2, 5, 4), _rand(4, 7))),
    "all but the last": (lambda x, w: (x @ w)[:, :-1].exp(), (_rand(2, 5, 4), _rand(4, 7))),
    "every other": (lambda x, w: (x @ w)[:, ::2], (_rand(2, 6, 4), _rand(4, 7))),
    "a slice of a slice": (lambda x, w: (x @ w)[:, 1:][:, :2], (_rand(2, 6, 4), _rand(4, 7))),
    "two slices": (
        lambda x, w: (x @ w)[:, :2].sum() + (x @ w)[:, 3:4].exp(),
        (_rand(2, 6, 4), _rand(4, 7)),
    ),
    "columns": (lambda x, w: (x @ w)[..., :3], (_rand(2, 5, 4), _rand(4, 7))),
    "of two layers": (
        lambda x, v, w: (torch.tanh(x @ v) @ w)[:, 0],
        (_rand(2, 5, 4), _rand(4, 6), _rand(6, 7)),
    ),
    "diagonal": (lambda a, b: (a @ b.T).diagonal(), (_rand(6, 4), _rand(6, 4))),
    "trace of many": (
        lambda a, b: torch.einsum("bij,bkj->bik", a, b).diagonal(dim1=1, dim2=2).sum(-1),
        (_rand(3, 6, 4), _rand(3, 6, 4)),
    ),
    "rows by number": (lambda x, w: (x @ w)[ROWS], (_rand(6, 4), _rand(4, 7))),
    "rows by index_select": (
        lambda x, w: (x @ w).index_select(0, ROWS),
        (_rand(6, 4), _rand(4, 7)),
    ),
    "a table made and looked up": (
        lambda t, w: functional.embedding(ROWS, torch.tanh(t @ w)),
        (_rand(6, 4), _rand(4, 7)),
    ),
    "gathered": (
        lambda a, b: (a @ b.transpose(1, 2)).gather(2, HEADS[..., None]),
        (_rand(2, 5, 4), _rand(2, 5, 4)),
    ),
    "one place of each": (
        lambda x, w: (x @ w)[torch.arange(2), torch.tensor([3, 1])],
        (_rand(2, 5, 4), _rand(4, 7)),
    ),
    "one of the parts": (lambda x, w: (x @ w).chunk(3, dim=-1)[1], (_rand(2, 5, 4), _rand(4, 9))),
    "parts of different use": (
        lambda x, w: (x @ w).split([2, 3, 4], dim=-1)[2] * 2,
        (_rand(2, 5, 4), _rand(4, 9)),
    ),
    "unbound": (lambda x, w: (x @ w).unbind(1)[2], (_rand(2, 5, 4), _rand(4, 7))),
    "attention's last": (
        lambda q, k, v: (torch.softmax(q @ k.transpose(1, 2), -1) @ v)[:, -1:],
        (_rand(2, 5, 4), _rand(2, 5, 4), _rand(2, 5, 4)),
    ),
    "norm of one": (
        lambda x, w: functional.layer_norm(x @ w, [7])[:, 0],
        (_rand(2, 5, 4), _rand(4, 7)),
    ),
    "spread": (
        lambda x, w: ((x @ w).unsqueeze(1).expand(2, 3, 5, 7))[:, 0, 2],
        (_rand(2, 5, 4), _rand(4, 7)),
    ),
    "summed before": (lambda x, w: (x @ w).sum(1)[:, :2], (_rand(2, 5, 4), _rand(4, 7))),
    "images": (
        lambda x, w: functional.conv2d(x, w, padding=1)[:, :, ::2, ::2],
        (_rand(2, 3, 8, 8), _rand(4, 3, 3, 3)),
    ),
    "images picked": (
        lambda x, w: functional.relu(functional.conv2d(x, w, padding=1))[:1],
        (_rand(2, 3, 8, 8), _rand(4, 3, 3, 3)),
    ),
    "all of it": (lambda x, w: (x @ w).sum(-1), (_rand(2, 5, 4), _rand(4, 7))),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_read_is_never_said_to_be_less_and_products_are_exact(name: str) -> None:
    call, given = CASES[name]
    made, graph = _graph(call, *given)
    said = read_parts(graph)
    truth = _read(made, *(item.clone().requires_grad_() for item in given))
    products = {
        node.name
        for node in graph.nodes
        if any(word in node.target for word in (".mm.", ".bmm.", ".addmm.", ".convolution."))
    }
    assert products
    for value, read in truth.items():
        assert said.get(value, 1.0) >= read - 1e-9, value
        if value in products:
            assert said.get(value, 1.0) == pytest.approx(read), value


def _gradients(call: Callable[..., object]) -> Callable[..., object]:
    def run(*given: Tensor) -> object:
        leaves = [item.clone().requires_grad_() for item in given]
        made = call(*leaves)
        assert isinstance(made, Tensor)
        return torch.autograd.grad((made * made).sum(), leaves)

    return run


class _Multiplied(torch.fx.Interpreter):
    """Of each product, the part of its multiplications of which no factor is 0."""

    seen: dict[str, float]

    def run_node(self, n: torch.fx.Node) -> object:
        value = super().run_node(n)
        if n.op == "call_function" and getattr(n.target, "overloadpacket", None) in (
            torch.ops.aten.mm,
            torch.ops.aten.bmm,
        ):
            left, right = ((self.env[item] != 0).double() for item in n.args[:2])
            size = left.numel() * right.shape[-1]
            self.seen[n.name] = float((left @ right).sum() / size)
        return value


WIDENED = {
    "summed before", "spread", "two slices", "attention's last", "a table made and looked up", "images",
    "images picked",
}  # fmt: skip
"""Of whose gradients less is said than is so, or which have no product."""
EXACT = sorted(set(CASES) - WIDENED)


@pytest.mark.parametrize("name", EXACT)
def test_products_with_zeros_of_gradients(name: str) -> None:
    call, given = CASES[name]
    made, graph = _graph(_gradients(call), *given)
    said = useful_parts(graph)
    run = _Multiplied(made)
    run.seen = {}
    run.run(*given)
    assert run.seen
    for product, useful in run.seen.items():
        assert said.get(product, 1.0) >= useful - 1e-9
        assert said.get(product, 1.0) == pytest.approx(useful, rel=0.4), product
    assert name == "all of it" or any(useful < 1 for useful in said.values())


@pytest.mark.parametrize("name", sorted(set(CASES) - set(EXACT)))
def test_no_more_is_called_zero_than_is(name: str) -> None:
    call, given = CASES[name]
    made, graph = _graph(_gradients(call), *given)
    said = useful_parts(graph)
    run = _Multiplied(made)
    run.seen = {}
    run.run(*given)
    assert all(said.get(product, 1.0) >= useful - 1e-9 for product, useful in run.seen.items())


def test_a_size_that_nobody_knows_says_nothing() -> None:
    text = """
class GraphModule(torch.nn.Module):
    def forward(self, a: "f32[u0, 8]", b: "f32[8, 8]"):
        mm: "f32[u0, 8]" = torch.ops.aten.mm.default(a, b)
        slice_1: "f32[1, 8]" = torch.ops.aten.slice.Tensor(mm, 0, 0, 1)
        return (slice_1,)
"""
    graph = parse_fx_graph(text, "fx.py")
    assert read_parts(graph) == {} and useful_parts(graph) == {}
    assert read_parts(graph, {"u0": 4})["mm"] == 0.25
