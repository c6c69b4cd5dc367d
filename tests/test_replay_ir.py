"""Loop bodies as ir_post_fusion.txt prints them, evaluated in plain torch."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from inspector.model.schedule import Layout  # noqa: E402
from inspector.replay.worker.reference.body import LoopBody, UnknownIr  # noqa: E402
from inspector.replay.worker.reference.buffers import Meanings, fingerprint  # noqa: E402
from inspector.replay.worker.reference.layouts import Layouts  # noqa: E402
from inspector.replay.worker.reference.loops import Evaluation, overflows  # noqa: E402
from inspector.replay.worker.reference.noise import Noise  # noqa: E402

X = torch.arange(24, dtype=torch.float32).reshape(4, 6).sin()


def run(text: str, outer: int, memories: dict[str, Any], **options: Any) -> dict[str, Any]:
    """The memories after one run of the body ``text``, which is the inside of the class."""
    body = LoopBody(
        "class op0_loop_body:\n" + textwrap.indent(textwrap.dedent(text).strip("\n"), "    "), outer
    )
    settings = {"wide": True, "layouts": Layouts({}, {"s0": 4}, {}, {}), **options}
    Evaluation(body, lambda name, _: memories[name], device="cpu", **settings).run()
    return memories


SUM = """
    var_ranges = {p0: s0, p1: 6}
    index0 = 6*p0 + p1
    index1 = p0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        reduction = ops.reduction(torch.float32, torch.float32, 'KIND', load)
        get_index_1 = self.get_index('index1')
        store_reduction = ops.store_reduction('y', get_index_1, reduction)
        return store_reduction
"""

KINDS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(1),
    "prod": lambda x: x.prod(1),
    "max": lambda x: x.amax(1),
    "min": lambda x: x.amin(1),
    "argmax": lambda x: x.argmax(1),
    "any": lambda x: (x != 0).any(1),
}


@pytest.mark.parametrize("kind", KINDS)
def test_reductions_over_a_symbolic_size(kind: str) -> None:
    wide = X.double()
    found = run(SUM.replace("KIND", kind), 1, {"x": wide.reshape(-1), "y": torch.zeros(4).double()})
    torch.testing.assert_close(found["y"], KINDS[kind](wide).double())


def test_welford_gives_mean_and_squares() -> None:
    text = SUM.replace("KIND", "welford_reduce").replace(", reduction)", ", reduction[1])")
    wide = X.double()
    found = run(text, 1, {"x": wide.reshape(-1), "y": torch.zeros(4).double()})
    torch.testing.assert_close(found["y"], wide.var(1, correction=0) * 6)


GATHER = """
    var_ranges = {p0: 3, p1: 6}
    index0 = p0
    index1 = INDEX
    index2 = 6*p0 + p1
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('i', get_index)
        set_indirect0 = self.set_indirect0(load)
        get_index_1 = self.get_index('index1')
        load_1 = ops.load('x', get_index_1)
        get_index_2 = self.get_index('index2')
        store = ops.store('y', get_index_2, load_1, None)
        return store
"""


def gathered(index: str, rows: list[int]) -> Any:
    """`y` of GATHER for a 4x6 `x`, in its shape."""
    layout = Layouts({"x": Layout("FixedLayout", "", "cpu", "float32", (4, 6), (6, 1))}, {}, {}, {})
    memories = {"i": torch.tensor(rows), "x": X.reshape(-1), "y": torch.zeros(18)}
    run(GATHER.replace("INDEX", index), 2, memories, layouts=layout, wide=False)
    return memories["y"].reshape(3, 6)


def test_a_negative_index_counts_from_the_end_of_its_dimension() -> None:
    torch.testing.assert_close(gathered("6*indirect0 + p1", [-1, 2, -4]), X[[-1, 2, -4]])


def test_a_negative_index_into_a_view_of_unknown_size_is_not_guessed() -> None:
    # x.view(-1)[i] and x[0][i] print the same index.
    torch.testing.assert_close(gathered("indirect0", [1, 2, 3])[:, 0], X[0, [1, 2, 3]])
    with pytest.raises(UnknownIr, match="negative index"):
        gathered("indirect0", [1, -2, 3])


def test_a_conversion_that_c_leaves_undefined_is_not_judged() -> None:
    assert overflows(torch.tensor([1.0, 300.0]), torch.int8) and overflows(torch.tensor([-1.0]), torch.uint8)
    assert overflows(torch.tensor([math.nan]), torch.int64)
    assert not overflows(torch.tensor([127.9, -128.9]), torch.int8)
    assert not overflows(torch.tensor([1e9]), torch.bool) and not overflows(torch.tensor([1e9]), torch.half)
    with pytest.raises(UnknownIr, match="no defined result"):
        run(CONVERT, 1, {"x": torch.tensor([1.0, 2.0, 3.0, 3e9]), "y": torch.zeros(4, dtype=torch.int32)})


CONVERT = """
    var_ranges = {p0: 4}
    index0 = p0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        to_dtype = ops.to_dtype(load, torch.int32, src_dtype = torch.float32)
        get_index_1 = self.get_index('index0')
        store = ops.store('y', get_index_1, to_dtype, None)
        return store
"""


def test_a_masked_load_gathers_and_pads() -> None:
    text = """
    var_ranges = {p0: 4, p1: 8}
    index0 = 6*p0 + p1 - 1
    index1 = 8*p0 + p1
    index2 = p1
    def body(self, ops):
        get_index = self.get_index('index2')
        index_expr = ops.index_expr(get_index, torch.int64)
        constant = ops.constant(1, torch.int64)
        ge = ops.ge(index_expr, constant)
        constant_1 = ops.constant(7, torch.int64)
        lt = ops.lt(index_expr, constant_1)
        and_ = ops.and_(ge, lt)
        masked_subblock1 = self.masked_subblock1(and_, 0.5)
        get_index_1 = self.get_index('index1')
        store = ops.store('y', get_index_1, masked_subblock1, None)
        return store
    def masked_subblock1(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        return load
    """
    found = run(text, 2, {"x": X.double().reshape(-1), "y": torch.zeros(32).double()})
    expected = torch.nn.functional.pad(X.double(), (1, 1), value=0.5)
    torch.testing.assert_close(found["y"].reshape(4, 8), expected)


def test_an_indirect_index_and_an_atomic_store() -> None:
    text = """
    var_ranges = {p0: 6}
    index0 = p0
    index1 = indirect0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('i', get_index)
        set_indirect0 = self.set_indirect0(load)
        load_1 = ops.load('x', get_index)
        get_index_1 = self.get_index('index1')
        store = ops.store('y', get_index_1, load_1, 'atomic_add')
        return store
    """
    index = torch.tensor([0, 2, 2, 1, 0, 2])
    found = run(text, 1, {"i": index, "x": X[0].double(), "y": torch.ones(3).double()})
    torch.testing.assert_close(found["y"], torch.ones(3).double().index_add(0, index, X[0].double()))


def test_an_index_made_from_a_narrow_integer_does_not_wrap() -> None:
    text = """
    var_ranges = {p0: 6}
    index0 = p0
    index1 = 100*indirect0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('i', get_index)
        set_indirect0 = self.set_indirect0(load)
        get_index_1 = self.get_index('index1')
        load_1 = ops.load('x', get_index_1)
        store = ops.store('y', get_index, load_1, None)
        return store
    """
    index = torch.tensor([0, 1, 2, 3, 2, 1], dtype=torch.int8)
    source = torch.arange(301).double()
    found = run(text, 1, {"i": index, "x": source, "y": torch.zeros(6).double()})
    torch.testing.assert_close(found["y"], 100.0 * index.double())


def test_own_dtypes_round_and_wide_ones_do_not() -> None:
    text = """
    var_ranges = {p0: 24}
    index0 = p0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        to_dtype = ops.to_dtype(load, torch.bfloat16, src_dtype = torch.float32)
        store = ops.store('y', get_index, to_dtype, None)
        return store
    """
    own = run(text, 1, {"x": X.reshape(-1), "y": torch.zeros(24)}, wide=False)["y"]
    wide = run(text, 1, {"x": X.double().reshape(-1), "y": torch.zeros(24).double()})["y"]
    assert torch.equal(own, X.reshape(-1).bfloat16().float())
    assert torch.equal(wide, X.double().reshape(-1))


def test_what_is_not_known_is_said() -> None:
    with pytest.raises(UnknownIr, match="a reduction of kind novel"):
        run(SUM.replace("KIND", "novel"), 1, {"x": X.reshape(-1), "y": torch.zeros(4)})
    with pytest.raises(UnknownIr, match=r"ops\.no_such_operator"):
        run(SUM.replace("ops.load(", "ops.no_such_operator("), 1, {"x": X, "y": torch.zeros(4)})
    with pytest.raises(UnknownIr, match="var_ranges"):
        LoopBody("class op0_loop_body:\n    def body(self, ops):\n        return None", 1)


def test_a_buffer_means_the_nodes_that_hold_its_numbers_in_any_order_of_dimensions() -> None:
    meanings = Meanings()
    wide = X.double()
    for name, value in {"x": wide, "t": wide.t(), "flat": wide.reshape(-1), "other": wide.cos()}.items():
        meanings.see_node(name, value)
    meanings.see_buffer("buf", wide)
    found = {meaning.node: meaning for meaning in meanings.of["buf"]}
    assert set(found) == {"x", "t", "flat"}
    for name, value in {"x": wide, "t": wide.t(), "flat": wide.reshape(-1)}.items():
        assert torch.equal(found[name].as_node(wide), value)
        assert torch.equal(found[name].as_buffer(value, wide.shape), wide)
    changed = wide.clone()
    changed[2, 3] += 1e-3
    assert not fingerprint(changed).same_values(fingerprint(wide))


def test_what_is_added_in_any_order_is_rounded_in_any_order() -> None:
    """1, -1 and a small number leave it whole or not, whichever come first."""
    body = """
    var_ranges = {p0: 3}
    index0 = p0
    index1 = 0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        get_index_1 = self.get_index('index1')
        store = ops.store('y', get_index_1, load, 'atomic_add')
        return store
    """
    given = torch.tensor([1.0, 1e-7, -1.0], dtype=torch.float64)

    def total(**options: Any) -> float:
        return float(run(body, 1, {"x": given, "y": torch.zeros(1, dtype=torch.float64)}, **options)["y"])

    assert total() == pytest.approx(1e-7, rel=1e-6)
    moved = [abs(total(noise=Noise(seed)) - 1e-7) for seed in range(1, 9)]
    assert 3e-8 < max(moved) < 1e-6


HALF = """
    var_ranges = {p0: 24}
    index0 = p0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        constant = ops.constant(1.1111111111111112, torch.float16)
        mul = ops.mul(load, constant)
        get_index_1 = self.get_index('index0')
        store = ops.store('y', get_index_1, mul, None)
        return store
"""


def test_a_number_beside_halves_is_a_float32_in_the_reference() -> None:
    """819 / 8192 times 10 / 9 is a half; times the float32 next to 10 / 9, as kernels have it, it is none."""
    x = torch.full((24,), 819 / 8192, dtype=torch.float64)
    made = run(HALF, 1, {"x": x, "y": torch.zeros(24).double()})["y"]
    assert bool((made == x * torch.tensor(1.1111111111111112).double()).all()) and made[0] != 910 / 8192
