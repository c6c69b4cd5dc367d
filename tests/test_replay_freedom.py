"""What a compiler, a library or a tie leaves open accuses nobody; in this process, nothing is compiled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from inspector.model.schedule import Layout  # noqa: E402
from inspector.replay.protocol import PlannedCall  # noqa: E402
from inspector.replay.worker.code.fx import FxProgram  # noqa: E402
from inspector.replay.worker.compare import compare  # noqa: E402
from inspector.replay.worker.inputs.arguments import Fill, Inputs, TensorSpec  # noqa: E402
from inspector.replay.worker.inputs.roles import IndexOutOfRange, check_indices  # noqa: E402
from inspector.replay.worker.kernels.draws import Draws  # noqa: E402
from inspector.replay.worker.kernels.expected import _agree  # noqa: E402
from inspector.replay.worker.kernels.judging import Judge  # noqa: E402
from inspector.replay.worker.kernels.tensors import _UNWRITTEN, _bits, show_unwritten  # noqa: E402
from inspector.replay.worker.reference import noise as noises  # noqa: E402
from inspector.replay.worker.reference.body import LoopBody, UnknownIr  # noqa: E402
from inspector.replay.worker.reference.buffers import Meanings  # noqa: E402
from inspector.replay.worker.reference.evaluate import Recording, WideEvaluator  # noqa: E402
from inspector.replay.worker.reference.layouts import Layouts  # noqa: E402
from inspector.replay.worker.reference.loops import Evaluation  # noqa: E402
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
    # Nothing that is finite is near to infinity.
    assert not any(numbers(Noise(1).equal(never, again, torch.full_like(again, math.inf), 1e-6)))


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


def test_a_threshold_keeps_the_tolerance_of_what_goes_into_it() -> None:
    """Behind a relu most is zero, and what is just below zero may come out just above it."""
    torch.manual_seed(0)
    before = torch.randn(4, 4096, dtype=torch.float64) - 0.5
    reference = before.relu()
    compiled = reference.float()
    place = int((before.reshape(-1) < 0).nonzero()[0])
    compiled.reshape(-1)[place] = 1e-4

    def noisy(seed: int) -> object:
        torch.manual_seed(seed)
        moved = before * (1 + 1e-3 * torch.rand_like(before))
        return torch.where(before.abs() < 1e-2, before, moved).relu()

    assert compare(compiled, reference.float(), reference, noisy=noisy).verdict == "match"
    compiled.reshape(-1)[place] = 0.5
    assert compare(compiled, reference.float(), reference, noisy=noisy).verdict == "mismatch"


def test_attention_that_takes_any_memory_for_halves_is_not_given_float64() -> None:
    """Its numbers were as large as they come, and a buffer with them stood for every node of its size."""
    seen = []

    def attention(query: Any) -> Any:
        seen.append(query.dtype)
        return query

    recording = Recording(dtypes={"attention": [torch.float16]})
    evaluator = WideEvaluator(FxProgram.__new__(FxProgram), recording)
    op = "aten._scaled_dot_product_cudnn_attention_backward"
    result = evaluator._widened("attention", op, attention, torch.ones(2, dtype=torch.float64))
    assert seen == [torch.float16] and isinstance(result, torch.Tensor) and result.dtype == torch.float64
    meanings = Meanings()
    meanings.see_node("small", torch.arange(6.0))
    meanings.see_buffer("buf0", torch.arange(6.0, dtype=torch.float64) * 1e200)
    assert not meanings.of


def test_a_gpu_may_flush_what_is_denormal_and_keeps_any_of_the_values_with_one_index() -> None:
    tiny = torch.tensor([-8e-39, -1.0], dtype=torch.float64)
    floors = [numbers(torch.as_tensor(Noise(1, gpu).disturbed(tiny, 1e-7)).floor()) for gpu in (True, False)]
    assert floors[0][0] == 0.0 and floors[1][0] == -1.0
    whole, places, values = torch.zeros(3), torch.tensor([0, 2, 2]), torch.tensor([5.0, 7.0, 6.0])

    def put(seed: int, gpu: bool) -> tuple[object, ...]:
        plain: Any = lambda own, *args, **kwargs: own(*args, **kwargs)  # noqa: E731
        results = []
        for name, args in (("scatter", (whole, 0, places, values)), ("index_put", (whole, [places], values))):
            function = getattr(torch.ops.aten, name).default if name == "index_put" else torch.scatter
            noise = Noise(seed, gpu)
            result = disturbed_call(noise, f"aten.{name}", (torch.float32,), function, plain, args, {})
            results.append(numbers(result))
        return tuple(results)

    assert put(1, True) == ((5.0, 0.0, 6.0),) * 2 and put(2, True) == ((5.0, 0.0, 7.0),) * 2
    assert put(1, False)[0] == (5.0, 0.0, 6.0)


def test_a_constant_beside_float32_is_a_float32_in_the_reference_too() -> None:
    """Else nothing is equal to 0.1, and a tie with it has no certain answer."""
    tie = torch.tensor([0.1])
    evaluator = WideEvaluator(
        FxProgram.__new__(FxProgram), Recording({"le": [torch.float32]}, {"le": [torch.bool]})
    )
    result = evaluator._widened("le", "aten.le", torch.ops.aten.le.Scalar, tie.double(), 0.1)
    assert numbers(result) == (True,)
    body = LoopBody(
        """
    var_ranges = {p0: 1}
    index0 = p0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        constant = ops.constant(0.1, torch.float32)
        le = ops.le(load, constant)
        store = ops.store('y', get_index, le, None)
        return store
""",
        1,
    )
    memories = {"x": tie.double(), "y": torch.zeros(1, dtype=torch.bool)}
    Evaluation(body, lambda name, _: memories[name], Layouts({}, {}, {}, {}), "cpu", wide=True).run()
    assert numbers(memories["y"]) == (True,)


def test_a_kernel_that_the_device_ends_is_wrong_unless_its_inputs_were_made_up() -> None:
    judge: Any = Judge.__new__(Judge)
    rows: list[tuple[str, str]] = []
    judge.wrong, judge.result = "", lambda _call, *said: said
    judge.report = rows.append
    call = PlannedCall(0, "triton_poi", "triton", 7, ("buf0",), ("buf0",), (), (), 64)
    for made_up in ("", "made-up numbers"):
        judge.failed(call, RuntimeError("CUDA error: device-side assert triggered\nhints"), made_up)
    judge.failed(call, RuntimeError("CUDA error: invalid configuration"))
    assert [verdict for verdict, _ in rows] == ["mismatch", "unverifiable", "unverifiable"]
    assert "the device ended it where op by op runs through" in rows[0][1] and "made-up" in rows[1][1]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_what_was_not_written_is_wrong_where_nan_is_right(dtype: Any) -> None:
    value = torch.zeros(4, dtype=dtype)
    bits = _bits(value)
    assert bits is not None
    bits.fill_(_UNWRITTEN[bits.dtype])
    assert bool(value.isnan().all())
    value[0] = math.nan
    show_unwritten(value, torch.tensor([math.nan, math.nan, math.inf, 1.0], dtype=torch.float64))
    assert value.isnan().tolist() == [True, False, True, True]


def test_a_function_that_ends_at_one_is_one_there() -> None:
    """Else what 1 + erf cancels hides all that is added to it."""
    value = torch.tensor([-20.0, 0.5], dtype=torch.float64).erf()
    moved = torch.as_tensor(Noise(1).function(value, 1e-7, "erf"))
    assert float(moved[0]) == -1.0 and float(moved[1]) != float(value[1])


def test_sums_in_float64_round_where_they_are_no_short_numbers() -> None:
    """Float64 is its own reference: of a third the last bits say that it was rounded, of a count or of a half
    that it was not."""
    values = torch.tensor([3.0, 0.5, 2.0**40 + 1, 1 / 3, 0.1 + 0.2], dtype=torch.float64)
    moved = Noise(1).disturbed(values, 1e-12, torch.float64)
    assert (moved == values).tolist() == [True, True, True, False, False]
    # What float32 holds of them is exact there.
    moved = Noise(1).disturbed(values, 1e-12, torch.float32)
    assert (moved == values).tolist() == [True, True, False, False, False]
