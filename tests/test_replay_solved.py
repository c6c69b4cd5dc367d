"""Values at which what a loop body computes on the way reaches a number; nothing is compiled."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from inspector.model.replay import KIND_WORDS  # noqa: E402
from inspector.replay.worker.kernels.draws import Draws  # noqa: E402
from inspector.replay.worker.kernels.guarded import guarded  # noqa: E402
from inspector.replay.worker.kernels.numbers import literals  # noqa: E402
from inspector.replay.worker.kernels.solved import Solver  # noqa: E402
from inspector.replay.worker.reference.body import LoopBody, UnknownIr  # noqa: E402
from inspector.replay.worker.reference.layouts import Layouts  # noqa: E402
from inspector.replay.worker.reference.loops import Evaluation  # noqa: E402
from inspector.replay.worker.reference.noise import Noise  # noqa: E402
from inspector.replay.worker.reference.watched import Watch  # noqa: E402

POINTWISE = """
    var_ranges = {p0: 60}
    index0 = p0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        load_1 = ops.load('y', get_index)
        mul = ops.mul(load, load_1)
        exp = ops.exp(mul)
        constant = ops.constant(2.0, torch.float32)
        gt = ops.gt(exp, constant)
        where = ops.where(gt, exp, constant)
        store = ops.store('buf0', get_index, where)
"""
MEAN = """
    var_ranges = {p0: 4, p1: 30}
    index0 = 30*p0 + p1
    index1 = p0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        reduction = ops.reduction(torch.float32, torch.float32, 'sum', load)
        get_index_1 = self.get_index('index1')
        store_reduction = ops.store_reduction('buf0', get_index_1, reduction)
"""
CENTRED = """
    var_ranges = {p0: 4, p1: 30}
    index0 = 30*p0 + p1
    index1 = p0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        get_index_1 = self.get_index('index1')
        load_1 = ops.load('buf0', get_index_1)
        sub = ops.sub(load, load_1)
        store = ops.store('buf1', get_index, sub)
"""

INTEGERS = """
    var_ranges = {p0: 40}
    index0 = p0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        constant = ops.constant(7, torch.int64)
        mul = ops.mul(load, constant)
        constant_1 = ops.constant(3, torch.int64)
        sub = ops.sub(mul, constant_1)
        store = ops.store('buf0', get_index, sub)
"""
SCANS = """
    var_ranges = {p0: 6}
    index0 = p0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        scan = ops.scan((torch.float32,), (load,))
        getitem = scan[0]
        store = ops.store('buf0', get_index, getitem)
"""


class Loops:
    """Bodies one after the other, with their memories."""

    def __init__(self, *bodies: tuple[str, int], **memories: Any) -> None:
        head = "class op0_loop_body:\n"
        self.bodies = [
            LoopBody(head + textwrap.indent(textwrap.dedent(text).strip("\n"), "    "), outer)
            for text, outer in bodies
        ]
        self.memories = memories

    def run(self, memory: Any, watch: Any, **more: Any) -> None:
        memories = {**self.memories, "x": memory}
        for body in self.bodies:
            options = {"device": "cpu", "wide": False, "watched": watch, **more}
            Evaluation(body, lambda name, _: memories[name], Layouts({}, {}, {}, {}), **options).run()


def solver(loops: Loops, *targets: float) -> Any:
    generator = torch.Generator().manual_seed(0)
    return Solver("x", loops.run, torch.tensor(targets, dtype=torch.float64), generator)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_computed_on_the_way_reaches_its_targets(dtype: Any) -> None:
    y = torch.linspace(0.5, 2.0, 60, dtype=dtype)
    loops = Loops((POINTWISE, 1), y=y, buf0=torch.zeros(60, dtype=dtype))
    x = solver(loops, 0.75, 3.0).solve(torch.ones(60, dtype=dtype), torch.arange(60))
    product = x * y
    for value in (product, product.exp()):
        for target in (0.75, 3.0):
            assert bool(((value - target).abs() <= 4e-7 * target).sum() >= 3), target
    # A comparison falls either way next to its bound.
    apart = product.exp().double() - 2.0
    assert bool(((apart > 0) & (apart < 2e-2)).any()) and bool(((apart < 0) & (apart > -2e-2)).any())


def test_integers_are_solved_for_exactly_or_to_their_neighbours() -> None:
    loops = Loops((INTEGERS, 1), buf0=torch.zeros(40, dtype=torch.int64))
    x = solver(loops, 60.0, 700.0).solve(torch.arange(40), torch.arange(40))
    assert x is not None and x.dtype == torch.int64
    results = set((7 * x - 3).flatten().tolist())
    # 7 * 9 - 3 is one; 700 is none, and its neighbours are 697 and 704.
    assert 60 in results and results & {697, 704}


@pytest.mark.parametrize("kinds", [("cumsum",), ("cumprod",), ("cumsum", "cummax")])
def test_scans_are_told_apart_by_what_they_give(kinds: tuple[str, ...]) -> None:
    """The text of a loop body has no combining function; of several kinds one fits the number of values."""
    x = torch.tensor([2.0, -1.0, 3.0, 0.5, 4.0, 1.0])
    loops = Loops((SCANS, 0), buf0=torch.zeros(6))
    loops.run(x, None, scan_kinds=kinds)
    assert torch.equal(loops.memories["buf0"], getattr(torch, kinds[0])(x, 0))


def test_two_scans_that_both_fit_are_unknown() -> None:
    with pytest.raises(UnknownIr, match="cumsum or cumprod"):
        Loops((SCANS, 0), buf0=torch.zeros(6)).run(torch.ones(6), None, scan_kinds=("cumsum", "cumprod"))


def test_one_element_of_each_row_moves_what_is_reduced() -> None:
    base = torch.randn(120, generator=torch.Generator().manual_seed(1))
    loops = Loops((MEAN, 1), (CENTRED, 2), buf0=torch.zeros(4), buf1=torch.zeros(120))
    free = torch.tensor([3, 40, 65, 119])
    x = solver(loops, 7.5).solve(base, free)
    assert x is not None and len(x) > 1 and bool(((x != base).sum(1) == 4).all())
    rows = x.reshape(-1, 4, 30)
    sums = rows.sum(2, keepdim=True)
    # That of the row, any element less that, or the element itself.
    reached = torch.cat([sums, rows - sums, x[:, free][:, :, None]], 2)
    assert bool(((reached - 7.5).abs() < 1e-5).any(2).all())


def test_several_elements_of_a_row_are_found_where_reductions_are_held() -> None:
    base = torch.randn(120, generator=torch.Generator().manual_seed(2))
    loops = Loops((MEAN, 1), (CENTRED, 2), buf0=torch.zeros(4), buf1=torch.zeros(120))
    free = torch.arange(0, 120, 10)
    assert solver(loops, 2.5).solve(base, free) is not None
    x = solver(loops, 2.5).solve(base, free, pinned=True)
    assert x is not None and bool(((x != base).sum(1) > 8).all())


def test_neighbours_that_move_a_result_together_are_thinned_out() -> None:
    text = POINTWISE.replace("index0 = p0", "index0 = p0\n    index1 = p0 + 1").replace(
        "load_1 = ops.load('y', get_index)",
        "get_index_1 = self.get_index('index1')\n        load_1 = ops.load('x', get_index_1)",
    )
    loops = Loops((text, 1), buf0=torch.zeros(60))
    x = solver(loops, 3.0).solve(torch.full((61,), 1.5), torch.arange(61))
    assert x is not None and bool(((x[:, :-1] * x[:, 1:] - 3.0).abs() < 1e-6).any())


def test_a_result_is_computed_again_without_the_loop_body() -> None:
    x = torch.ones(60)
    loops = Loops((POINTWISE, 1), y=torch.full((60,), 2.0), buf0=torch.zeros(60))
    watch = Watch({"x": torch.arange(60)}, "x")
    loops.run(x, watch)
    site = next(site for site in watch.sites if site.operator == "exp")
    watch.again(torch.tensor([[0.25], [0.5]]).expand(2, 60).clone(), held=False)
    for copy, product in zip(watch.value(site, 2), (0.5, 1.0), strict=True):
        assert bool((copy == torch.tensor(product).exp()).all())


def test_a_reduction_is_computed_again_for_each_copy_and_passed_on() -> None:
    base = torch.ones(120)
    loops = Loops((MEAN, 1), (CENTRED, 2), buf0=torch.zeros(4), buf1=torch.zeros(120))
    watch = Watch({"x": torch.arange(120)}, "x", pinned=True)
    loops.run(base, watch)
    site = next(site for site in watch.sites if site.operator == "sub")
    memory = torch.stack([base, 2 * base, 3 * base])
    watch.again(memory, held=True)
    assert watch.value(site, 3)[:, 0].tolist() == [-29.0, -28.0, -27.0]
    watch.again(memory, held=False)
    assert watch.value(site, 3)[:, 0].tolist() == [-29.0, -58.0, -87.0]


def test_a_long_loop_nest_is_gone_through_in_part() -> None:
    body = LoopBody("class op0_loop_body:\n" + textwrap.indent(textwrap.dedent(MEAN).strip("\n"), "    "), 1)
    memories = {"x": torch.ones(120), "buf0": torch.zeros(4)}
    layouts = Layouts({}, {}, {}, {})
    Evaluation(body, lambda name, _: memories[name], layouts, device="cpu", wide=False, most=60).run()
    assert memories["buf0"].tolist() == [30.0, 30.0, 0.0, 0.0]


def test_numbers_of_the_code_that_the_loops_know_nothing_of_come_first() -> None:
    code = 'extern "C"  void kernel() { auto a = static_cast<float>(2.5); auto b = x > 17.25f ? 1.0 : 0.0; }'
    assert literals(code) == [2.5, 17.25, 1.0, 0.0]
    body = "load = ops.load('x', index)\nconstant = ops.constant(2.5, torch.float32)"
    draws = Draws([body], "cpu", 0, code=code)
    drawn = draws.values("numbers", torch.zeros(400) - 1, 0, "x")
    assert drawn is not None and 17.25 in set(drawn.tolist())


def test_what_a_launch_writes_outside_of_its_buffers_is_seen_and_harms_nothing() -> None:
    whole = torch.zeros(64)
    part, other = whole[16:32], torch.ones(8)

    def right(out: Any, value: Any, *, scale: float) -> str:
        out.copy_(value.repeat(2) * scale)
        return "done"

    assert guarded(right, (part, other), {"scale": 2.0}) == ("done", "")
    assert whole.tolist() == [0.0] * 16 + [2.0] * 16 + [0.0] * 32

    def wrong(out: Any, *_: Any) -> None:
        end = out.storage_offset() + 48
        torch.as_strided(out, (3,), (1,), end + 2).fill_(5.0)
        torch.as_strided(out, (1,), (1,), out.storage_offset() - 17).fill_(5.0)
        out.fill_(3.0)

    _, outside = guarded(wrong, (part, other), {})
    assert outside == (
        "it writes outside of its buffers: 4 bytes before a buffer of 256, up to 4 away; "
        "12 bytes behind a buffer of 256, up to 20 away"
    )
    assert whole.tolist() == [0.0] * 16 + [3.0] * 16 + [0.0] * 32 and other.tolist() == [1.0] * 8


def test_a_remainder_may_be_what_a_rounded_quotient_leaves() -> None:
    value = torch.tensor([14.0, 0.5], dtype=torch.float64)
    divisor = torch.tensor(-0.7).to(torch.float64)
    exact = torch.remainder(value, divisor)
    rounded = Noise(1).remainder(exact, value, divisor, torch.float32)
    assert abs(float(rounded[0] - exact[0])) > 0.6 and abs(float(rounded[1] - exact[1])) < 1e-6
    assert bool((Noise(1, libdevice=True).remainder(exact, value, divisor, torch.float32) == exact).all())
    # How the multiple is rounded is no matter of the quotient, and without a multiple nothing is rounded.
    value = torch.tensor([20.25, 0.5], dtype=torch.float64)
    found = [
        Noise(seed).remainder(value % 1.5, value, torch.tensor(1.5), torch.float32) for seed in (1, 3, 5)
    ]
    assert len({float(each[0]) for each in found}) == 3 and all(float(each[1]) == 0.5 for each in found)
    assert all(abs(float(each[0]) - 0.75) <= 20.25 * 2**-23 for each in found)


def test_the_schema_has_every_kind_of_values() -> None:
    schema = json.loads((Path(__file__).parents[1] / "docs/schema/replay.schema.json").read_text())
    found = [
        set(kinds["items"]["enum"])
        for kinds in every(schema, "kinds")
        if isinstance(kinds, dict) and "enum" in kinds.get("items", {})
    ]
    assert found and all(kinds == set(KIND_WORDS) for kinds in found)


def every(value: Any, name: str) -> Any:
    """What stands under a name, anywhere."""
    if isinstance(value, dict):
        yield from (part for key, part in value.items() if key == name)
        for part in value.values():
            yield from every(part, name)
    elif isinstance(value, list):
        for part in value:
            yield from every(part, name)
