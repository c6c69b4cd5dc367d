"""Values for many launches at once, and which of those launches are judged; nothing is compiled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from inspector.replay.worker.kernels.draws import Draws  # noqa: E402
from inspector.replay.worker.kernels.glanced import glanced  # noqa: E402
from inspector.replay.worker.kernels.rows import rows_of  # noqa: E402
from inspector.replay.worker.kernels.ways import Solve, Ways  # noqa: E402

ROWS = """
    var_ranges = {p0: ROWS, p1: 30}
    index0 = INDEX
    index1 = p0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        reduction = ops.reduction(torch.float32, torch.float32, 'KIND', load)
        get_index_1 = self.get_index('index1')
        store_reduction = ops.store_reduction('buf0', get_index_1, reduction)
"""
SUM = ROWS.replace("ROWS", "4").replace("INDEX", "30*p0 + p1").replace("KIND", "sum")


def glance(kernel: Callable[[Any], tuple[Any, ...]], values: Any, results: Any, *names: str) -> Any:
    """Of launches on `values` those that differ; the kernel gives what its outputs hold."""
    memory = torch.zeros(values.shape[1])
    outputs = {name: torch.zeros(values.shape[1]) for name in names}

    def run() -> bool:
        for output, made in zip(outputs.values(), kernel(memory), strict=True):
            if made is None:
                return False
            output.copy_(made)
        return True

    return glanced(run, memory, values, [(memory, memory.clone())], outputs, results)


def test_only_launches_that_differ_are_judged_the_farthest_first() -> None:
    values = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 2.0], [math.nan, math.inf]])
    every = torch.ones(2, dtype=torch.bool)
    twice = {"a": (2 * values, every), "b": (values, every)}
    assert glance(lambda x: (2 * x, x), values, twice, "a", "b") == []
    wrong = glance(
        lambda x: (torch.where(x == 2, 4.01, torch.where(x == 3, 9.0, 2 * x)), x), values, twice, "a", "b"
    )
    assert wrong == [(1, {"a"}), (0, {"a"}), (2, {"a"})]
    # Rounding is no difference, nor is what the loops do not write.
    assert glance(lambda x: (2 * x * (1 + 1e-7), x), values, twice, "a", "b") == []
    first = {"a": (2 * values, torch.tensor([True, False]))}
    assert glance(lambda x: (torch.where(x == 4, 9.0, 2 * x),), values, first, "a") == []
    assert [
        number for number, _ in glance(lambda x: (x.nan_to_num(0.0),), values, {"a": (values, every)}, "a")
    ] == [3]


def test_outputs_that_no_value_moves_are_not_judged_again_and_unknown_ones_are() -> None:
    values = torch.tensor([[1.0], [2.0]])
    results = {"a": (values, torch.ones(1, dtype=torch.bool)), "added": None}
    wrong = glance(lambda x: (3 * x, x, x), values, results, "a", "added", "constant")
    assert wrong == [(0, {"a", "added"}), (1, {"a", "added"})]


def test_where_nothing_is_known_of_the_outputs_any_launch_may_be_judged() -> None:
    values = torch.tensor([[1.0], [2.0]])
    assert glance(lambda x: (x,), values, {"a": None}, "a") == [(0, None), (1, None)]
    every = torch.ones(1, dtype=torch.bool)
    assert glance(lambda x: (None if x == 2 else x,), values, {"a": (values, every)}, "a") == [(1, None)]


@pytest.mark.parametrize(
    ("index", "row"),
    [
        ("30*p0 + p1", (1, 30)),
        ("p0 + s0*p1", (7, 30)),
        # Backwards, and from the middle on.
        ("30*p0 - p1 + 29", (1, 30)),
        ("30*p0 + ModularIndexing(p1 + 13, 1, 30)", (1, 30)),
    ],
)
def test_rows_are_known_of_symbolic_sizes_and_of_what_is_flipped_or_rolled(index: str, row: Any) -> None:
    body = ROWS.replace("ROWS", "s0").replace("INDEX", index).replace("KIND", "max")
    assert dict(rows_of(body, {"s0": 7})) == {"x": row}
    assert dict(rows_of(body)) == {}


@pytest.mark.parametrize("name", ["x", "y"])
def test_a_special_value_stands_alone_or_in_each_row_of_one_input(name: str) -> None:
    ways = Ways([SUM, SUM.replace("'x'", "'y'")], "cpu", 3)
    flat = {each: torch.randn(120) for each in "xy"}
    ways.again(dict.fromkeys(flat, 120))
    around, drawn = ways.drawn(Solve(name, "special", 0), flat, 60)
    other = around["y" if name == "x" else "x"]
    assert drawn is not None and other is not None and bool(other.isfinite().all())
    rows = drawn.reshape(60, 4, 30)
    odd = (~rows.isfinite()).sum(2)
    whole = (drawn == drawn[:, :1]).all(1) | drawn.isinf().all(1)
    apart = odd[~whole]
    assert set(apart.sum(1).tolist()) == {1, 4} and int(apart.max()) == 1
    for special in (math.inf, -math.inf):
        assert bool((drawn[~whole] == special).any())
    assert bool(drawn[~whole].isnan().any())
    assert {0.0, 1.0, 2.0, math.inf, -math.inf} <= set(drawn[whole][:, 0].tolist())


def test_a_variance_has_nan_alone() -> None:
    """Of an infinite mean the square is infinite or NaN, as it comes."""
    body = SUM.replace("'sum'", "'welford_reduce'")
    ways = Ways([body], "cpu", 3)
    ways.again({"x": 120})
    _, drawn = ways.drawn(Solve("x", "special", 0), {"x": torch.randn(120)}, 60)
    assert drawn is not None and bool(drawn.isnan().any()) and not bool(drawn.isinf().any())


def test_an_integers_remainder_leaves_special_values_to_the_floats() -> None:
    whole = "load = ops.load('i', index)\nconstant = ops.constant(10, torch.int64)\n"
    whole += "remainder = ops.remainder(load, constant)\nload_1 = ops.load('x', index)"
    part = whole.replace("torch.int64", "torch.float32")
    for text, undecided in ((whole, False), (part, True)):
        draws = Draws([text], "cpu", 0)
        assert draws.undecided("special", [text], torch.float32) is undecided
        # A float's accused two kernels that are right, in C++ and on a GPU.
        assert draws.undecided("solved", [text], torch.float32) is undecided
    floor = part.replace("ops.remainder", "ops.floordiv")
    assert Draws([floor], "cpu", 0).undecided("solved", [floor], torch.float32)
    assert Ways([part], "cpu", 0).most(torch.float32) < Ways([whole], "cpu", 0).most(torch.float32)


def test_a_value_with_the_name_of_an_operator_is_no_address() -> None:
    """What chooses between two places by a comparison may be any number: `where` is the operator here."""
    body = (
        "load = ops.load('x', index)\nload_1 = ops.load('y', index)\ngt = ops.gt(load, load_1)\n"
        "where = ops.where(gt, load, load_1)\nconstant = ops.constant(0, torch.int64)\n"
        "where_1 = ops.where(gt, constant, constant)\nset_indirect0 = self.set_indirect0(where_1)\n"
    )
    special = Draws([body], "cpu", 0).values("special", torch.rand(64), 0, "x")
    assert special is not None and not bool(special.isfinite().all())
    kept = Draws([body.replace("set_indirect0(where_1)", "set_indirect0(where)")], "cpu", 0)
    indices = kept.values("special", torch.rand(64), 0, "x")
    assert indices is not None and bool(indices.isfinite().all())
