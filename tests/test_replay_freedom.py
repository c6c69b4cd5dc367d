"""What a compiler, a library or a tie leaves open accuses nobody; in this process, nothing is compiled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from inspector.model.schedule import Layout  # noqa: E402
from inspector.replay.worker.compare import compare  # noqa: E402
from inspector.replay.worker.inputs.arguments import Fill, Inputs, TensorSpec  # noqa: E402
from inspector.replay.worker.inputs.roles import IndexOutOfRange, check_indices  # noqa: E402
from inspector.replay.worker.kernels.draws import Draws  # noqa: E402
from inspector.replay.worker.kernels.expected import _agree  # noqa: E402
from inspector.replay.worker.reference import noise as noises  # noqa: E402
from inspector.replay.worker.reference.buffers import Meanings  # noqa: E402
from inspector.replay.worker.reference.layouts import Layouts  # noqa: E402
from inspector.replay.worker.reference.loops import Evaluation, LoopBody, UnknownIr  # noqa: E402
from inspector.replay.worker.reference.noise import Noise, disturbed_call  # noqa: E402

KEYS = [2, 1, 2, 0, 1, 2, 0, 0, 3]


def by_operator(seed: int) -> Any:
    function = torch.ops.aten.sort.default

    def call(own: Callable[..., object], *args: object, **kwargs: object) -> object:
        return own(*args, **kwargs)

    dtypes = (torch.int64, torch.int64)
    pair: Any = disturbed_call(Noise(seed), "aten.sort", dtypes, function, call, (torch.tensor(KEYS),), {})
    return pair[1]


def test_ties_may_fall_in_any_order_in_a_sort_that_is_not_stable() -> None:
    keys = torch.tensor(KEYS)
    exact = keys.sort(stable=True).indices
    backwards = 8 - keys.flip(0).sort(stable=True).indices
    assert compare(backwards, exact, exact, exact=True, noisy=by_operator).verdict == "match"
    assert compare(backwards, exact, exact, exact=True).verdict == "mismatch"
    # The one that is alone has one place.
    wrong = backwards.clone()
    wrong[8] = 0
    assert compare(wrong, exact, exact, exact=True, noisy=by_operator).verdict == "mismatch"


def test_a_stable_sort_has_one_order() -> None:
    function = torch.ops.aten.sort.stable
    given = (torch.tensor(KEYS),)
    plain: Any = lambda own, *args, **kwargs: own(*args, **kwargs)  # noqa: E731
    dtypes = (torch.int64, torch.int64)
    kept: Any = disturbed_call(Noise(1), "aten.sort", dtypes, function, plain, given, {"stable": True})
    assert kept[1].tolist() == torch.tensor(KEYS).sort(stable=True).indices.tolist()


@pytest.mark.parametrize("value", [0.0, 1.0, float("nan"), 2.5])
def test_a_constant_buffer_stands_for_no_node(value: float) -> None:
    """Where an operator has no reference all behind it is NaN, and one NaN is as good as another."""
    meanings = Meanings()
    for name in ("first", "second"):
        meanings.see_node(name, torch.full((4, 3), value))
    meanings.see_buffer("buf0", torch.full((4, 3), value))
    assert not meanings.of
    meanings.see_node("loss", torch.tensor(0.25))
    meanings.see_buffer("buf1", torch.tensor(0.25))
    assert [meaning.node for meaning in meanings.of["buf1"]] == ["loss"]


def test_counts_and_squares_of_a_part_are_no_numbers_of_their_own() -> None:
    body = """load = ops.load('buf1', get_index)
load_1 = ops.load('buf2', get_index_1)
load_2 = ops.load('buf3', get_index_2)
reduction = ops.reduction(torch.float32, torch.float32, 'welford_combine', (load, load_1, load_2))"""
    draws: Any = Draws([body], "cuda", seed=0)
    assert draws.kept == {"buf2", "buf3"}
    # An infinite mean has a square that is infinite or NaN, as parts are put together; NaN is NaN.
    for kind in ("special", "rows"):
        drawn = draws.values(kind, torch.randn(4000), 0, "buf1")
        assert not drawn.isinf().any() and (kind == "rows" or drawn.isnan().any())
    assert not Draws([body.replace("welford_combine", "sum")], "cuda", seed=0).kept


def test_an_expanded_input_takes_what_the_forward_saved() -> None:
    inputs = Inputs([TensorSpec((3, 4), (0, 1), torch.float32, "cpu", 0)], 0)
    inputs.given = {0: torch.arange(4.0).expand(3, 4)}
    inputs.fill([Fill()])
    (value,) = inputs.fresh()
    assert torch.equal(value, torch.arange(4.0).expand(3, 4))


def test_a_product_that_may_be_computed_in_tf32_is_disturbed_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = torch.randn(8, 8, dtype=torch.float64), torch.randn(8, 8, dtype=torch.float64)
    plain: Any = lambda own, *args, **kwargs: own(*args, **kwargs)  # noqa: E731

    def moved() -> float:
        result: Any = disturbed_call(
            Noise(3), "aten.mm", (torch.float32,), torch.ops.aten.mm.default, plain, (left, right), {}
        )
        return float((result - left @ right).abs().max())

    narrow = moved()
    monkeypatch.setattr(noises, "may_use_tf32", lambda *_: True)
    assert narrow < 1e-4 < moved() < 1e-1


def test_near_ties_fall_either_way_on_both_sides() -> None:
    """Eager itself is on the other side of the threshold at as many places."""
    truth = torch.zeros(8192, dtype=torch.bool)
    ours, theirs = truth.clone(), truth.clone()
    ours[:2], theirs[100:103] = True, True

    def still(_seed: int) -> object:
        return truth

    assert compare(ours, theirs, truth, noisy=still).verdict != "mismatch"
    assert compare(ours, truth, truth, noisy=still).verdict == "mismatch"


def test_an_index_that_a_mask_hides_may_lie_outside() -> None:
    """As those of an interpolation's gradient do at the edges."""
    base, mask = torch.zeros(4, 5), torch.tensor([True, False])
    index = [None, torch.tensor([4, 7])]
    check_indices("node", "aten._unsafe_masked_index", (base, mask, index, 0.0), {})
    with pytest.raises(IndexOutOfRange):
        check_indices("node", "aten._unsafe_masked_index", (base, ~mask, index, 0.0), {})
    # An embedding's gradient: the mask of the padding has the width behind, of one element.
    ids, padding = (
        torch.tensor([[3, 1, -1], [0, 9, 2]]),
        torch.tensor([[[1], [1], [1]], [[1], [0], [1]]]).bool(),
    )
    values = torch.zeros(2, 3, 5)
    put = "aten._unsafe_masked_index_put_accumulate"
    check_indices("node", put, (base, padding, [ids], values), {})
    with pytest.raises(IndexOutOfRange):
        check_indices("node", put, (base, ~padding, [ids], values), {})


def test_what_nearly_overflows_is_not_certain() -> None:
    """gelu's gradient of the largest number: infinity times 1.2e-7 in eager, times 0 where tanh is 1."""
    largest = torch.finfo(torch.float32).max
    values = [3.402826737839154e38, largest, -largest, 1e30, 1e39, math.inf]
    reference = torch.tensor(values, dtype=torch.float64)
    assert _agree(reference.float(), reference, rounded=True).tolist() == [
        False,
        True,
        True,
        True,
        True,
        True,
    ]


def numbers(value: object) -> tuple[bool, ...]:
    assert isinstance(value, torch.Tensor)
    return tuple(value.tolist())


def test_a_maximum_beside_what_it_is_of_may_be_equal_or_not() -> None:
    """amax's gradient compares what the forward graph stored in float32 with what it computes again,
    never equal in float64, so that its share is 0 / 0 there."""
    stored = torch.tensor([1.0, 2.0, 3.0]).double() * (1 + 1e-8)
    again, never = torch.tensor([1.0, 2.0, 4.0]).double(), torch.zeros(3, dtype=torch.bool)
    seen = {tuple(numbers(Noise(seed).equal(never, stored, again, 1e-6))) for seed in range(20)}
    assert numbers(Noise(1).equal(never, stored, again, 1e-6)) == (True, True, False)
    assert len(seen) == 4 and not any(row[2] for row in seen)
    assert all(numbers(Noise(1).equal(again == again, again, again, 1e-6))), "what is equal stays so"


def test_where_op_by_op_has_no_number_either_nobody_is_wrong() -> None:
    finite, nothing = torch.ones(200), torch.full((200,), float("nan"), dtype=torch.float64)
    verdict = compare(finite * 1.1, finite, nothing, noisy=lambda _: nothing).verdict
    assert verdict != "mismatch"
    assert compare(finite.double().mul(float("nan")).float(), finite, finite.double()).verdict == "mismatch"


def fixed(size: tuple[int, ...], stride: tuple[int, ...]) -> Layout:
    return Layout("FixedLayout", "", "cpu", "float32", size, stride)


def test_of_what_is_changed_in_place_the_layout_is_the_whole_s() -> None:
    """buf1.layout = MutationLayoutSHOULDREMOVE('cpu', torch.float32, size=[8], stride=[8, 1])"""
    texts = {"buf0": fixed((8, 8), (8, 1)), "buf1": fixed((8,), (8, 1))}
    layouts = Layouts(texts, {}, {"buf1": "buf0"}, {})
    assert layouts.of("buf1") == ((8, 8), (8, 1), torch.float32)


@pytest.mark.parametrize(
    ("index", "taken"),
    [([41, -1, -42], [41.0, 41.0, 0.0]), ([-3, -1, 6], None)],
)
def test_a_negative_index_into_a_flat_view_is_counted_from_its_end(
    index: list[int], taken: list[float] | None
) -> None:
    """`take` of 6 x 7 values. Where the last row alone would do as well, nothing is said."""
    layouts = Layouts({"arg0_1": fixed((6, 7), (7, 1))}, {}, {}, {})
    memories = {
        "arg0_1": torch.arange(42.0), "arg1_1": torch.tensor(index), "buf0": torch.zeros(3)
    }  # fmt: skip
    body = LoopBody(TAKE, 1)
    run = Evaluation(body, lambda name, _: memories[name], layouts, "cpu", wide=False)
    if taken is None:
        with pytest.raises(UnknownIr, match="negative index"):
            run.run()
        return
    run.run()
    assert memories["buf0"].tolist() == taken


TAKE = """
    var_ranges = {p0: 3}
    index0 = p0
    index1 = indirect0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('arg1_1', get_index)
        set_indirect0 = self.set_indirect0(load)
        get_index_1 = self.get_index('index1')
        load_1 = ops.load('arg0_1', get_index_1)
        get_index_2 = self.get_index('index0')
        store = ops.store('buf0', get_index_2, load_1, None)
        return store
"""


def test_however_often_wide_values_come_there_are_some() -> None:
    """Each kind that leaves something open is followed by a narrower one."""
    draws = Draws(["ops.exp(load)"], "cpu", 0)
    for turn in range(8):
        assert draws.values("wide", torch.ones(100), 0, "arg0_1", turn) is not None
