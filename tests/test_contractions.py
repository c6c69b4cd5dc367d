"""Trees of products, and the order of fewest multiplications."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._inductor.decomposition import select_decomp_table
from torch.fx.experimental.proxy_tensor import make_fx

from inspector.analysis.contractions import MOST, Contraction, contractions
from inspector.readers.fx_graph import parse_fx_graph


def _found(call: Callable[..., Tensor], *shapes: tuple[int, ...]) -> tuple[Contraction, ...]:
    given = [torch.rand(shape) for shape in shapes]
    made = make_fx(call, decomposition_table=select_decomp_table())(*given)
    made.graph.eliminate_dead_code()
    return contractions(parse_fx_graph(made.print_readable(print_output=False), "fx.py"))


def test_two_matrices_before_a_vector() -> None:
    (found,) = _found(lambda a, b, v: a @ b @ v, (30, 20), (20, 10), (10, 1))
    assert found.taken == 30 * 20 * 10 + 30 * 10
    assert found.least == 20 * 10 + 30 * 20
    assert found.order == (((20, 10), (10,)), ((30, 20), (20,)))


def test_a_good_order_is_the_best() -> None:
    (found,) = _found(lambda a, b, v: a @ (b @ v), (30, 20), (20, 10), (10, 1))
    assert found.taken == found.least


def test_a_matrix_times_its_own_transposed() -> None:
    (found,) = _found(lambda w, h: w.T @ w @ h, (500, 8), (8, 9))
    assert found.least == found.taken
    (other,) = _found(lambda w, h: w.T @ (w @ h), (500, 8), (8, 9))
    assert other.taken == 2 * 500 * 8 * 9
    assert other.least == 8 * 500 * 8 + 8 * 8 * 9


def test_an_einsum_goes_from_left_to_right() -> None:
    (found,) = _found(
        lambda a, b, g, c, d: torch.einsum("pi,qa,pqrs,rj,sb->iajb", a, b, g, c, d),
        (6, 2), (6, 4), (6, 6, 6, 6), (6, 2), (6, 4),
    )  # fmt: skip
    assert len(found.leaves) == 5
    # Both matrices with each other, all of that with the four-index tensor, then one after the other.
    assert found.taken == 6 * 2 * 6 * 4 + 2 * 4 * 6**4 + 2 * 4 * 6 * 6 * 2 + 2 * 4 * 2 * 6 * 4
    assert found.least == 6**4 * 2 + 6**3 * 2 * 2 + 2 * 6 * 2 * 6 * 4 + 2 * 2 * 6 * 4 * 4


def test_products_of_a_batch() -> None:
    (found,) = _found(lambda a, b, c: torch.bmm(torch.bmm(a, b), c), (5, 30, 20), (5, 20, 30), (5, 30, 1))
    assert found.taken == 5 * (30 * 20 * 30 + 30 * 30)
    assert found.least == 5 * (20 * 30 + 30 * 20)


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b, v: ((c := a @ b) @ v) + c.sum(),
        lambda a, b, v: (a @ b).relu() @ v,
        lambda a, b, v: a @ b,
    ],
)
def test_what_others_read_and_what_is_no_product_ends_a_tree(call: Callable[..., Tensor]) -> None:
    assert not _found(call, (30, 20), (20, 10), (10, 1))


def test_an_axis_that_views_merge() -> None:
    def call(x: Tensor, v: Tensor, w: Tensor) -> Tensor:
        """Of 4 by 5 rows one is asked for by a product with what selects it."""
        return v @ (x.view(20, 6) @ w).view(4, 5 * 7)

    (found,) = _found(call, (4, 5, 6), (1, 4), (6, 7))
    assert found.taken == 20 * 6 * 7 + 4 * 35
    assert found.least == 4 * 5 * 6 + 5 * 6 * 7


def test_a_chain_of_a_thousand_products_is_looked_at_in_pieces() -> None:
    """By the rest of a tree that is too large to try all orders of."""
    lines = ["class GraphModule(torch.nn.Module):"]
    lines.append('    def forward(self, a: "f32[4, 4]"):')
    name = "a"
    for number in range(1000):
        lines.append(f'        mm_{number}: "f32[4, 4]" = torch.ops.aten.mm.default({name}, a)')
        name = f"mm_{number}"
    lines.append(f"        return ({name},)")
    found = contractions(parse_fx_graph("\n".join(lines), "fx.py"))
    assert [len(item.leaves) for item in found] == [MOST]
