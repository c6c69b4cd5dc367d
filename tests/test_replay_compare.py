"""Verdicts, values and the float64 reference, in this process: no child, no compilation."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from inspector.hardware.load import Neighbours, busy_seconds  # noqa: E402
from inspector.model.replay import Timing  # noqa: E402
from inspector.replay.worker.attention import attention  # noqa: E402
from inspector.replay.worker.code.fx import FxProgram, GraphError, load_program  # noqa: E402
from inspector.replay.worker.code.generated import required_device, uses_tf32  # noqa: E402
from inspector.replay.worker.compare import compare, tolerances  # noqa: E402
from inspector.replay.worker.inputs.arguments import Fill, Inputs, RecordedReader, TensorSpec, make_specs  # noqa: E402
from inspector.replay.worker.inputs.forward import match_saved, run_forward  # noqa: E402
from inspector.replay.worker.inputs.roles import choose_values, find_roles  # noqa: E402
from inspector.replay.worker.kernels.draws import Draws  # noqa: E402
from inspector.replay.worker.reference.evaluate import (  # noqa: E402
    evaluate,
    float_free,
    record,
    undefined_reason,
)
from inspector.replay.worker.reference.noise import Noise  # noqa: E402
from inspector.replay.worker.timing.rounds import rounds_that_fit, timing_of  # noqa: E402


@pytest.fixture(autouse=True)
def _seeded() -> Any:
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def truth(values: Any) -> Any:
    return torch.tensor(values, dtype=torch.float64)


def tensors(values: Iterable[object]) -> list[Any]:
    return [value for value in values if isinstance(value, torch.Tensor)]


# -- verdicts ---------------------------------------------------------------------------------------


def test_within_tolerance_is_a_match_even_where_eager_is_not() -> None:
    reference = truth([1.0, 2.0])
    close = (reference * (1 + 1e-6)).float()
    far = (reference * 1.01).float()
    result = compare(close, far, reference)
    assert result.verdict == "match"
    # Without a disturbed reference torch.testing's, in proportion to the output's root mean square.
    assert (result.rtol, result.atol) == (1.3e-6, pytest.approx(1e-5 * math.sqrt(2.5)))
    assert result.outside_compiled == 0 and result.outside_eager == 2
    assert result.error_eager == pytest.approx(0.02, rel=1e-3)


def test_what_few_disturbed_references_hardly_moved_accuses_nobody() -> None:
    """Of two samples both happen to be small now and then: a residue where terms cancel is no fault then."""
    reference = torch.linspace(1, 2, 100, dtype=torch.float64)
    reference[50] = 0.0
    compiled = reference.float()
    compiled[50] = 4.7e-8
    unlucky = reference.clone()
    unlucky[50] = 1e-11

    def twice(seed: int) -> Any:
        if seed > 2:
            raise RuntimeError("no time for another")
        return unlucky

    sure = torch.ones(100, dtype=torch.bool)
    options: Any = {"noisy": twice, "certain": sure}
    assert compare(compiled, reference.float(), reference, **options).verdict == "mismatch"
    unlucky[50] = 1e-9
    assert compare(compiled, reference.float(), reference, **options).verdict != "mismatch"


def test_what_rounding_may_turn_round_may_be_infinite_either_way() -> None:
    """The cosine of 1e18 is any number: times the largest half it overflows or not, of either sign."""
    reference = torch.full((70,), 6e4, dtype=torch.float64)
    compiled = reference.half()
    compiled[3] = -math.inf

    def noisy(seed: int) -> Any:
        return reference * (1 - 1.5 * (torch.arange(70) == 3))

    sure = torch.ones(70, dtype=torch.bool)
    assert compare(compiled, reference.half(), reference, noisy=noisy, certain=sure).verdict == "match"
    compiled[4] = -math.inf
    assert compare(compiled, reference.half(), reference, noisy=noisy, certain=sure).verdict == "mismatch"
    # An infinity of either sign is as uncertain as one that may be finite.
    for other in (-math.inf, 1.0):
        reference[3], compiled = math.inf, reference.half()
        compiled[3] = -math.inf
        unsure = reference.clone()
        unsure[3] = other
        options: Any = {"noisy": lambda seed, unsure=unsure: unsure, "certain": sure}
        assert compare(compiled, reference.half(), reference, **options).verdict == "match"


def test_products_in_tf32_have_the_tolerance_of_its_mantissa() -> None:
    reference = truth([1.0, 2.0])
    rounded = (reference * (1 + 4e-4)).float()
    assert compare(rounded, reference.float(), reference).verdict == "mismatch"
    result = compare(rounded, reference.float(), reference, tf32=True)
    assert result.verdict == "match" and result.rtol == 1e-3
    cancelled = truth([1.0, 1e-6])
    off = (cancelled + truth([0.0, 4e-4])).float()
    assert compare(off, cancelled.float(), cancelled, tf32=True).verdict == "match"
    wrong = (reference * 1.5).float()
    assert compare(wrong, reference.float(), reference, tf32=True).verdict == "mismatch"
    half = reference.to(torch.bfloat16)
    assert compare(half, half, reference, tf32=True).rtol == 1.6e-2


@pytest.mark.parametrize(
    ("dtype", "rtol", "beyond"),
    [
        (torch.float16, 1e-3, "eager_closer"),
        (torch.bfloat16, 1.6e-2, "eager_closer"),
        # Rounding does not bring a float64 that far from a float64.
        (torch.float64, 1e-7, "mismatch"),
    ],
)
def test_tolerances_are_those_of_torch_testing(dtype: Any, rtol: float, beyond: str) -> None:
    reference = truth([100.0])
    assert tolerances(dtype)[0] == rtol
    inside = compare((reference * (1 + rtol / 2)).to(dtype), reference.to(dtype), reference)
    outside = compare((reference * (1 + rtol * 2.5)).to(dtype), reference.to(dtype), reference)
    assert (inside.verdict, outside.verdict) == ("match", beyond)


def test_both_off_the_errors_say_who_is_nearer() -> None:
    reference = torch.linspace(1, 2, 100, dtype=torch.float64)
    near = (reference + 4e-5).float()
    far = (reference + 9e-5).float()
    assert compare(near, far, reference).verdict == "compiled_closer"
    assert compare(far, near, reference).verdict == "eager_closer"
    same = compare(far, far.clone(), reference)
    assert same.verdict == "compiled_closer" and "outside the tolerance at 100" in same.reason


def test_one_wrong_element_among_many_is_a_mismatch() -> None:
    reference = torch.linspace(-1, 1, 100_000, dtype=torch.float64)
    compiled = reference.float()
    compiled[777] += 0.05
    result = compare(compiled, reference.float(), reference)
    assert result.verdict == "mismatch"
    assert result.outside_compiled == 1 and "1 of 100,000" in result.reason


def test_wrong_everywhere_in_half_precision_is_a_mismatch_beside_a_rough_eager() -> None:
    generator = torch.Generator().manual_seed(0)
    reference = torch.randn(4096, generator=generator, dtype=torch.float64)
    # Eager lost two bits: its worst element, near zero, is hundreds of tolerances off.
    eager = (reference + 0.01 * torch.randn(4096, generator=generator, dtype=torch.float64)).bfloat16()
    result = compare((-reference).bfloat16(), eager, reference)
    assert result.verdict == "mismatch"
    assert compare(eager, reference.bfloat16(), reference).verdict != "match"


def test_an_element_apart_from_the_others_is_wrong_where_one_of_many_alike_is_not() -> None:
    reference = torch.linspace(1, 2, 1000, dtype=torch.float64)
    noisy = disturbed(reference, 1e-4)
    apart = reference.half()
    apart[500] *= 1.01
    assert compare(apart, reference.half(), reference, noisy=noisy).verdict == "mismatch"
    rough = (reference * (1 + 0.9e-3 * torch.randn(1000, generator=torch.Generator().manual_seed(0)))).half()
    rough[500] = apart[500]
    assert compare(rough, reference.half(), reference, noisy=noisy).verdict == "eager_closer"


def disturbed(reference: Any, by: float) -> Any:
    """A reference from a seed, each element off by as much as `by` of it."""

    def reference_of(seed: int) -> Any:
        drawn = torch.rand(
            reference.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
        )
        return reference * (1 + by * (2 * drawn - 1))

    return reference_of


def test_tolerances_follow_the_scale_of_each_row_and_the_share_counts() -> None:
    generator = torch.Generator().manual_seed(3)
    reference = torch.randn(64, 256, generator=generator, dtype=torch.float64) * 1e-7
    reference[0] *= 1e7
    noisy = disturbed(reference, 1e-7)
    eager = reference.float()
    assert compare(eager, eager, reference, noisy=noisy).verdict == "match"
    small = eager.clone()
    small[7] *= 1 + 1e-4
    assert compare(small, eager, reference, noisy=noisy).verdict == "mismatch"
    # 8 units in the last place everywhere are as far as functions may be off, 80 are not.
    wrong = (reference * (1 + 1e-5)).float()
    assert compare(wrong, eager, reference, noisy=noisy).verdict == "mismatch"
    assert compare((reference * (1 + 1e-6)).float(), eager, reference, noisy=noisy).verdict == "match"


def test_what_rounding_may_do_is_allowed_and_not_more() -> None:
    reference = torch.zeros(100, dtype=torch.float64)
    residue = torch.full((100,), 3e-8)
    # x * y - x * y with a fused multiply-add: eager has an exact zero.
    assert compare(residue, reference.float(), reference, noisy=lambda _: reference).verdict == "mismatch"
    moved = [reference + 4e-8, reference - 5e-8]
    assert (
        compare(residue, reference.float(), reference, noisy=lambda seed: moved[seed % 2]).verdict == "match"
    )
    flags, other = torch.zeros(100, dtype=torch.int64), torch.zeros(100, dtype=torch.int64)
    other[3] = 1
    assert compare(other, flags, flags, noisy=lambda _: other.clone()).verdict == "match"
    assert compare(other, flags, flags, noisy=lambda _: flags).verdict == "mismatch"


def test_error_like_eagers_is_never_called_wrong() -> None:
    generator = torch.Generator().manual_seed(1)
    reference = torch.randn(4096, generator=generator, dtype=torch.float64)
    noise = torch.randn(2, 4096, generator=generator, dtype=torch.float64) * 1e-2
    compiled, eager = (reference + noise).float()
    assert compare(compiled, eager, reference).verdict in {"compiled_closer", "eager_closer"}


def test_not_a_number_where_the_others_are_finite() -> None:
    reference = truth([1.0, 2.0, 3.0])
    broken = torch.tensor([1.0, math.nan, 3.0])
    assert compare(broken, reference.float(), reference).verdict == "mismatch"
    # Eager has it as well: then neither is nearer, and it is not the generated code's doing.
    assert compare(broken, broken.clone(), reference).verdict == "compiled_closer"
    # Compiled is right where eager overflowed.
    assert compare(reference.float(), broken, reference).verdict == "match"


def test_agreement_on_nan_and_infinity_is_agreement() -> None:
    reference = truth([math.nan, math.inf, -math.inf, 1.0])
    assert compare(reference.float(), reference.float(), reference).verdict == "match"
    flipped = torch.tensor([math.nan, -math.inf, -math.inf, 1.0])
    assert compare(flipped, reference.float(), reference).verdict == "mismatch"


def test_half_precision_overflow_is_judged_after_rounding() -> None:
    reference = truth([70000.0, 65519.0, 1.0])
    rounded = torch.tensor([math.inf, 65504.0, 1.0], dtype=torch.float16)
    assert compare(rounded, rounded, reference).verdict == "match"
    # 65519 rounds down to the largest half, but a last bit of error rounds it up.
    edge = torch.tensor([math.inf, math.inf, 1.0], dtype=torch.float16)
    assert compare(edge, rounded, reference).verdict == "match"
    early = torch.tensor([math.inf, math.inf, math.inf], dtype=torch.float16)
    assert compare(early, rounded, reference).verdict == "mismatch"


def test_half_of_an_exponential_is_infinite_early() -> None:
    """A vectorized sinh has infinity from 89 on, where the true one is 2.2e38."""
    reference = truth([89.2, 89.2, 50.0]).sinh()
    assert 2e38 < float(reference[0]) < 3.4e38

    def noisy(name: str) -> Any:
        return lambda seed: Noise(seed).function(reference, 1e-7, name)

    early = torch.tensor([math.inf, float(reference[1]), float(reference[2])])
    eager = reference.float()
    assert compare(early, eager, reference, noisy=noisy("sinh")).verdict == "match"
    assert compare(early, eager, reference, noisy=noisy("expm1")).verdict == "mismatch"
    early[2] = math.inf
    assert compare(early, eager, reference, noisy=noisy("sinh")).verdict == "mismatch"
    # In float64 there is room.
    narrow = lambda seed: Noise(seed).function(reference, 2e-16, "sinh")  # noqa: E731
    wide = torch.tensor([math.inf, *reference[1:].tolist()], dtype=torch.float64)
    assert compare(wide, reference, reference, noisy=narrow).verdict == "mismatch"


def test_where_nothing_is_finite_places_and_signs_are_compared() -> None:
    nothing = truth([math.nan, math.inf])
    result = compare(nothing.float(), nothing.float(), nothing)
    assert result.verdict == "match" and "finite at 0 of 2" in result.reason
    assert compare(-nothing.float(), nothing.float(), nothing).verdict == "mismatch"
    part = truth([math.nan, 1.0, math.nan])
    result = compare(part.float(), part.float(), part)
    assert result.verdict == "match" and "1 of 3" in result.reason


def test_complex_and_eight_bit_floats() -> None:
    reference = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128)
    good = reference.to(torch.complex64)
    assert compare(good, good, reference).verdict == "match"
    assert compare(good.conj(), good, reference).verdict == "mismatch"
    quantised = truth([1.0, 448.0]).to(torch.float32).to(torch.float8_e4m3fn)
    assert compare(quantised, quantised, truth([1.05, 440.0])).verdict == "match"
    assert tolerances(torch.float8_e4m3fn)[0] == 0.125


def test_integers_are_exact_unless_floats_decided_them() -> None:
    reference = torch.arange(10_000)
    flipped = reference.clone()
    flipped[3] += 1
    assert compare(reference, reference, reference).verdict == "match"
    assert compare(flipped, reference, reference, exact=True).verdict == "mismatch"
    # One in 10,000, decided by a comparison of floats: a tie that fell the other way.
    assert compare(flipped, reference, reference).verdict == "eager_closer"
    assert compare(flipped, flipped.clone(), reference).verdict == "compiled_closer"
    assert compare(reference + 1, reference, reference).verdict == "mismatch"
    mask = torch.tensor([True, False])
    assert compare(~mask, mask, mask).verdict == "mismatch"


def test_another_shape_dtype_or_kind_is_a_mismatch() -> None:
    reference = truth([1.0, 2.0])
    good = reference.float()
    assert "shape" in compare(good[:1], good, reference).reason
    assert "dtype" in compare(good.half(), good, reference).reason
    assert compare(3, good, reference).verdict == "mismatch"
    assert compare(3, 3, 3).verdict == "match"
    assert compare(4, 3, 3).verdict == "mismatch"
    assert compare(good[:0], good[:0], reference[:0]).verdict == "match"


def test_chunks_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(2)
    reference = torch.randn(1000, generator=generator, dtype=torch.float64)
    compiled = (reference * (1 + 1e-4)).float()
    whole = compare(compiled, reference.float(), reference)
    monkeypatch.setattr("inspector.replay.worker.compare._CHUNK", 64)
    pieces = compare(compiled, reference.float(), reference)
    assert pieces.verdict == whole.verdict
    # Each piece has a scale of its own.
    assert pieces.outside_compiled == pytest.approx(whole.outside_compiled, rel=0.02)
    assert pieces.error_compiled == whole.error_compiled


# -- values that matter to a kernel ------------------------------------------------------------------

CLAMP = """class <lambda>_loop_body:
    def body(self, ops):
        constant = ops.constant(0.75, torch.float32)
        minimum = ops.minimum(load, constant)
"""


def test_draws_hold_ties_with_the_kernels_constants_and_special_values() -> None:
    draws: Any = Draws([CLAMP], "cpu", seed=0)
    now = torch.randn(4000)
    drawn = {kind: draws.values(kind, now, 0) for kind in draws.kinds()}
    ties, special, wide = (drawn[kind] for kind in ("ties", "special", "wide"))
    assert {0.75, -0.5, 3.0} < set(drawn["numbers"].tolist())
    exact = torch.tensor(0.75)
    wanted = {0.75, float(torch.nextafter(exact, exact + 1)), float(torch.nextafter(exact, exact - 1))}
    assert wanted < set(ties.tolist()) and bool((torch.signbit(ties) & (ties == 0)).any())
    assert wide.abs().max() > 1e6 and wide.abs().min() < 1e-6
    assert special.isnan().any() and special.isinf().any() and special.isfinite().any()
    narrow = draws.values("ties", now.to(torch.float8_e4m3fn), 0).float()
    assert 0.75 in narrow.tolist() and len(set(narrow.tolist())) > 5
    # What is never negative stays so: a variance, say.
    assert bool((draws.values("wide", now.abs(), 0) >= 0).all())


ROWS = """
    var_ranges = {p0: 24, p1: 37}
    index0 = 37*p0 + p1
    index1 = p0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('arg0_1', get_index)
        reduction = ops.reduction(torch.float32, torch.float32, 'max', load)
        get_index_1 = self.get_index('index1')
        store_reduction = ops.store_reduction('buf0', get_index_1, reduction)
"""


@pytest.mark.parametrize("columns", [False, True])
def test_what_is_reduced_is_drawn_by_rows(columns: bool) -> None:
    body = ROWS.replace("37*p0 + p1", "p0 + 24*p1") if columns else ROWS
    draws: Any = Draws([body], "cpu", seed=0)
    assert "rows" in draws.kinds() and draws.kinds().count("rows") == 1
    rows = draws.values("rows", torch.randn(24 * 37), 0, "arg0_1")
    rows = rows.reshape(37, 24).t() if columns else rows.reshape(24, 37)
    alike = [bool((row == row[0]).all()) for row in rows]
    assert alike.count(True) >= 6 and bool((rows == -math.inf).all(1).any())
    assert bool((rows < 0).all(1).any()) and bool((rows > 0).all(1).any())
    # One of a row is NaN, some at the end, where vectorised code has its tail.
    assert bool((rows.isnan().sum(1) == 1).any()) and bool(rows[:, -1].isnan().any())
    mask = draws.values("rows", rows.reshape(-1) > 0, 1, "arg0_1")
    mask = mask.reshape(37, 24).t() if columns else mask.reshape(24, 37)
    assert bool(mask.all(1).any()) and not bool(mask.any(1).all())


FLOW = """
        load = ops.load('numbers', get_index)
        load_1 = ops.load('places', get_index_1)
        load_2 = ops.load('weights', get_index_2)
        floordiv = ops.floordiv(load, load_1)
        set_indirect0 = self.set_indirect0(masked_subblock1)
    def masked_subblock1(self, ops):
        load_3 = ops.load('rows', get_index_3)
        return load_3
"""


def test_only_what_an_index_is_made_of_stays_in_range_and_only_divisors_are_not_zero() -> None:
    seen = torch.tensor([3, -8, 5]).repeat(100)
    draws: Any = Draws([FLOW], "cpu", seed=0)
    for kind in draws.kinds():
        rows, places = (draws.values(kind, seen, 0, name) for name in ("rows", "places"))
        # What lies between indices that are in range is in range as well.
        allowed = set(range(-8, 6)) if kind == "numbers" else {3, -8, 5}
        assert set(rows.tolist()) <= allowed and bool((places != 0).all()) and bool((places != -1).all())
        # What no loop body names may be part of an index.
        assert set(draws.values(kind, seen, 0, "other").tolist()) <= allowed
    assert bool((draws.values("ties", seen, 0, "numbers") < 0).any())
    assert float(draws.values("wide", seen.double(), 0, "weights").abs().max()) > 100
    assert draws.undecided("special", [FLOW], torch.float32)
    assert not draws.undecided("special", [FLOW], torch.int64)
    assert not draws.undecided("special", ["'welford_combine'"], torch.float32)


# -- graphs and their inputs ------------------------------------------------------------------------


def program(tmp_path: Path, parameters: str, body: str, before: str = "", loads: str = "") -> FxProgram:
    lines = "\n".join(f"        {line}" for line in body.strip().splitlines())
    path = tmp_path / "fx_graph_runnable.py"
    path.write_text(
        "import os\nos.environ['INSPECTOR_TEST_LEAK'] = '1'\nimport torch\nfrom torch import device\n"
        f"import a_module_that_is_not_there\n{before}\n"
        "class Repro(torch.nn.Module):\n    def __init__(self) -> None:\n        super().__init__()\n"
        f"    def forward(self, {parameters}):\n{lines}\n{loads}\n"
        "mod = Repro()\nif __name__ == '__main__':\n    raise SystemExit(3)\n"
    )
    return FxProgram(path, "test")


def floats(*size: int, dtype: Any = torch.float32) -> TensorSpec:
    stride = tuple(math.prod(size[axis + 1 :]) for axis in range(len(size)))
    return TensorSpec(size, stride, dtype, "cpu", storage=floats.counter())  # type: ignore[attr-defined]


floats.counter = iter(range(10_000)).__next__  # type: ignore[attr-defined]


def test_a_script_runs_without_its_side_effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INSPECTOR_TEST_LEAK", raising=False)
    graph = program(
        tmp_path, "a, b", "mm = torch.ops.aten.mm.default(a, b);  a = b = None\nreturn (mm, None)"
    )
    assert "INSPECTOR_TEST_LEAK" not in os.environ
    assert graph.placeholders == ("a", "b") and graph.outputs == ("mm", None)
    assert [node.op for node in graph.nodes] == ["aten.mm"]
    assert graph.problems and "a_module_that_is_not_there" in graph.problems[0]
    left, right = torch.randn(2, 3), torch.randn(3, 2)
    assert torch.equal(graph.run([left, right])[0], left @ right)


def test_every_call_is_observed_and_may_be_replaced(tmp_path: Path) -> None:
    graph = program(
        tmp_path,
        "a",
        "var_mean = torch.ops.aten.var_mean.correction(a, [0], correction = 0)\n"
        "getitem = var_mean[1];  var_mean = None\nneg = torch.ops.aten.neg.default(getitem)\nreturn (neg,)",
    )
    seen = []

    def hook(name: str, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        seen.append((name, str(function)))
        return function(*args, **kwargs)

    value = torch.randn(4)
    torch.testing.assert_close(graph.observe([value], hook)[0], -value.mean())
    assert seen == [("var_mean", "aten.var_mean.correction"), ("neg", "aten.neg.default")]
    assert graph.ancestors(["neg"]) == {"neg", "getitem", "var_mean", "a"}


def test_the_printed_graph_serves_where_the_script_is_missing(corpus: Path) -> None:
    path = next(corpus.glob("cpu-torch2.13/softmax/**/fx_graph_transformed.py"))
    graph = load_program(None, path)
    assert graph.label == "decomposed FX graph after Inductor's passes"
    left, right = torch.randn(100, 100), torch.randn(100, 100)
    torch.testing.assert_close(graph.run([left, right])[0], torch.softmax(left @ right, 1))
    with pytest.raises(GraphError, match="no fx_graph_runnable"):
        load_program(None, None)


def test_indices_are_in_range_and_not_all_zero(tmp_path: Path) -> None:
    graph = program(
        tmp_path,
        "weight, tokens, table, picks",
        "view = torch.ops.aten.view.default(tokens, [12])\n"
        "embedding = torch.ops.aten.embedding.default(weight, view)\n"
        "add = torch.ops.aten.add.Tensor(picks, 2)\n"
        "index = torch.ops.aten.index.Tensor(table, [None, add])\n"
        "return (embedding, index)",
    )
    specs = [floats(7, 4), floats(3, 4, dtype=torch.int64), floats(2, 5), floats(60, dtype=torch.int64)]
    inputs = Inputs(specs, seed=0)
    notes = choose_values(graph, inputs)
    _, tokens, _, picks = tensors(inputs.fresh())
    assert int(tokens.min()) >= 0 and int(tokens.max()) < 7 and tokens.unique().numel() > 3
    # Up to 4 would be in range of the table's 5 columns, were 2 not added first.
    assert int(picks.min()) >= 0 and int(picks.max()) + 2 < 5
    assert picks.unique().numel() > 1
    assert any("tokens in [0, 7)" in note for note in notes)
    graph.run(inputs.fresh())


def test_values_that_fit_what_the_graph_does_with_them(tmp_path: Path) -> None:
    graph = program(
        tmp_path,
        "x, running_var, weight, divisor, rsqrt_3",
        "convert = torch.ops.prims.convert_element_type.default(running_var, torch.float32)\n"
        "add = torch.ops.aten.add.Tensor(convert, 1e-05)\nsqrt = torch.ops.aten.sqrt.default(add)\n"
        "mul = torch.ops.aten.mul.Tensor(x, x)\nadd_1 = torch.ops.aten.add.Tensor(mul, 1e-05)\n"
        "rsqrt = torch.ops.aten.rsqrt.default(add_1)\n"
        "permute = torch.ops.aten.permute.default(weight, [1, 0])\n"
        "mm = torch.ops.aten.mm.default(rsqrt, permute)\n"
        "div = torch.ops.aten.div.Tensor(mm, divisor)\nreturn (div, sqrt, rsqrt_3)",
    )
    specs = [floats(8, 400), floats(9, dtype=torch.float16), floats(5, 400), floats(5), floats(5)]
    assert find_roles(graph, specs).positive == {"running_var", "divisor", "rsqrt_3"}
    inputs = Inputs(specs, seed=0)
    choose_values(graph, inputs)
    x, variance, weight, divisor, _ = tensors(inputs.fresh())
    assert float(x.min()) < 0 < 0.5 <= float(variance.min()) and float(divisor.min()) >= 0.5
    assert float(weight.std()) == pytest.approx(1 / 20, rel=0.1)
    assert float(x.std()) == pytest.approx(1, rel=0.1)


def test_inputs_shrink_where_the_graph_would_overflow(tmp_path: Path) -> None:
    graph = program(
        tmp_path,
        "x",
        "mul = torch.ops.aten.mul.Tensor(x, x)\nmul_1 = torch.ops.aten.mul.Tensor(mul, 1000.0)\n"
        "exp = torch.ops.aten.exp.default(mul_1)\n"
        "sub = torch.ops.aten.sub.Tensor(exp, exp)\nreturn (sub,)",
    )
    inputs = Inputs([floats(64, dtype=torch.float16)], seed=0)
    notes = choose_values(graph, inputs)
    assert any("times 0.1" in note for note in notes)
    assert torch.isfinite(graph.run(inputs.fresh())[0]).float().mean() > 0.5


def test_inputs_share_memory_keep_strides_and_come_fresh() -> None:
    reader = RecordedReader()
    storage = reader.storage(None, 4 * 64)
    reader.tensor(storage, (4, 4), (8, 1), storage_offset=4, is_leaf=True)
    reader.tensor(storage, (4, 4), (8, 1), is_leaf=True)
    reader.symint(16)
    reader.tensor(reader.storage(None, 64), (3,), dtype=torch.bool)
    meta = [
        torch.empty_strided((4, 4), (8, 1), device="meta"),
        torch.empty_strided((4, 4), (8, 1), device="meta"),
        16,
        torch.empty(3, dtype=torch.bool, device="meta"),
    ]
    specs, shared = make_specs(meta, {}, reader)
    assert isinstance(specs[0], TensorSpec) and shared and specs[0].offset == 4 and specs[2] == 16
    inputs = Inputs(specs, seed=3)
    inputs.fill([Fill()] * 4)
    first, second, _ = tensors(inputs.fresh())
    assert inputs.fresh()[2] == 16 and first.stride() == (8, 1)
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    assert not torch.equal(first, second)
    again = inputs.fresh()
    assert torch.equal(again[0], first)
    tensors(again)[0].zero_()
    assert inputs.changed(again) == [0] and inputs.changed(inputs.fresh()) == []
    inputs.restore(again, [0])
    assert inputs.changed(again) == []
    # An offset that a kernel compiled for 16-byte alignment could not read gets memory of its own.
    reader.entries[0] = TensorSpec((4, 4), (8, 1), torch.float32, "cpu", storage, offset=3)
    assert make_specs(meta, {}, reader)[1] is False


def test_a_backward_graph_gets_what_its_forward_saved(corpus: Path) -> None:
    folder = next(corpus.glob("cpu-torch2.13/mlp/**/model__0_backward_3.1"))
    forward = next(folder.parent.glob("model__0_forward_*")) / "fx_graph_runnable.py"
    outputs = run_forward(forward, seed=0)
    graph = load_program(folder / "fx_graph_runnable.py", None)
    reader = graph.recorded_inputs(RecordedReader)
    assert reader is not None
    given = match_saved(graph, reader.entries, outputs)
    assert [name for i, name in enumerate(graph.placeholders) if i not in given] == ["tangents_1"]
    inputs = Inputs(reader.entries, seed=0)
    inputs.given = given
    choose_values(graph, inputs)
    position = next(i for i in given if graph.placeholders[i] == "rsqrt")
    assert torch.equal(inputs.fresh()[position], outputs["rsqrt"])


# -- the reference ----------------------------------------------------------------------------------


def run_reference(graph: FxProgram, specs: list[Any]) -> tuple[list[Any], Any, Any, Inputs]:
    inputs = Inputs(specs, seed=0)
    choose_values(graph, inputs)
    eager, _, recording = record(graph, inputs)
    return eager, evaluate(graph, inputs, recording), recording, inputs


def test_half_precision_casts_are_promoted(tmp_path: Path) -> None:
    graph = program(
        tmp_path,
        "x",
        "half = torch.ops.prims.convert_element_type.default(x, torch.float16)\n"
        "full = torch.ops.aten.full.default([], 3.0, dtype = torch.float16, device = device(type='cpu'))\n"
        "div = torch.ops.aten.div.Tensor(half, full)\n"
        "count = torch.ops.prims.convert_element_type.default(div, torch.int64)\nreturn (div, count)",
    )
    eager, reference, _, inputs = run_reference(graph, [floats(50)])
    (x,) = tensors(inputs.fresh())
    assert eager[0].dtype == torch.float16 and reference.outputs[0].dtype == torch.float64
    torch.testing.assert_close(reference.outputs[0], x.double() / 3, rtol=1e-15, atol=0)
    assert reference.outputs[1].dtype == torch.int64 and reference.own_dtype == []
    assert torch.get_default_dtype() == torch.float32


def test_reinterpreted_bits_are_evaluated_in_their_own_dtype(tmp_path: Path) -> None:
    graph = program(
        tmp_path,
        "x",
        "neg = torch.ops.aten.neg.default(x)\n"
        "view = torch.ops.aten.view.dtype(neg, torch.int32)\nreturn (view,)",
    )
    eager, reference, _, _ = run_reference(graph, [floats(10)])
    assert torch.equal(reference.outputs[0], eager[0]) and reference.own_dtype == ["view"]


def test_quantisation_is_part_of_the_program(tmp_path: Path) -> None:
    graph = program(
        tmp_path,
        "x",
        "q = torch.ops.prims.convert_element_type.default(x, torch.float8_e4m3fn)\n"
        "wide = torch.ops.prims.convert_element_type.default(q, torch.float32)\nreturn (wide,)",
    )
    eager, reference, _, _ = run_reference(graph, [floats(100)])
    assert torch.equal(reference.outputs[0], eager[0].double())


def test_writes_to_inputs_are_compared_and_leave_the_masters_alone(tmp_path: Path) -> None:
    graph = program(
        tmp_path,
        "x",
        "add = torch.ops.aten.add.Tensor(x, 1)\ncopy_ = torch.ops.aten.copy_.default(x, add)\nreturn ()",
    )
    assert graph.written_placeholders() == {"x": "copy_"}
    _, reference, _, inputs = run_reference(graph, [floats(5)])
    torch.testing.assert_close(reference.arguments[0], tensors(inputs.fresh())[0].double() + 1)


def test_random_numbers_taint_what_depends_on_them(tmp_path: Path) -> None:
    graph = program(
        tmp_path,
        "x",
        "rand = torch.ops.aten.rand.default([5])\nmul = torch.ops.aten.mul.Tensor(rand, x)\n"
        "zeros_like = torch.ops.aten.zeros_like.default(rand)\n"
        "add = torch.ops.aten.add.Tensor(zeros_like, x)\nreturn (mul, add)",
    )
    _, _, recording, _ = run_reference(graph, [floats(5)])
    assert "random" in (undefined_reason(graph, recording, "mul") or "")
    assert undefined_reason(graph, recording, "add") is None


def test_attention_is_its_definition_in_float64(tmp_path: Path) -> None:
    query, key, value = (torch.randn(2, heads, 6, 8, dtype=torch.float64) for heads in (4, 2, 2))
    expected = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, is_causal=True, enable_gqa=True
    )
    torch.testing.assert_close(attention(query, key, value, None, True, None)[0], expected)
    graph = program(
        tmp_path,
        "q, k, v",
        "sdpa = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default(q, k, v, 0.0, True)\n"
        "getitem = sdpa[0]\ngetitem_1 = sdpa[1]\n"
        "permute = torch.ops.aten.permute.default(getitem, [0, 2, 1, 3])\n"
        "view = torch.ops.aten.view.default(permute, [2, 6, 32])\nreturn (view, getitem_1)",
    )
    specs = [replace(floats(2, 4, 6, 8), stride=(192, 8, 32, 1)) for _ in range(3)]
    eager, reference, recording, _ = run_reference(graph, specs)
    assert undefined_reason(graph, recording, "view") is None
    for ours, theirs in zip(eager, reference.outputs, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-5)
        assert not torch.equal(ours.double(), theirs)


def test_scaled_product_of_eight_bit_floats(tmp_path: Path) -> None:
    graph = program(
        tmp_path,
        "a, b, scale",
        "q = torch.ops.prims.convert_element_type.default(a, torch.float8_e4m3fn)\n"
        "r = torch.ops.prims.convert_element_type.default(b, torch.float8_e4m3fn)\n"
        "permute = torch.ops.aten.permute.default(r, [1, 0])\n"
        "mm = torch.ops.aten._scaled_mm.default(q, permute, scale, scale, None, None, torch.bfloat16)\n"
        "return (mm,)",
    )
    inputs = Inputs([floats(16, 32), floats(16, 32), floats()], seed=0)
    inputs.fill([Fill(), Fill(), Fill(positive=True)])
    _, _, recording = record(graph, inputs)
    (product,) = evaluate(graph, inputs, recording).outputs
    a, b, scale = tensors(inputs.promoted())
    a, b = (tensor.to(torch.float8_e4m3fn).to(torch.float32).double() for tensor in (a, b))
    torch.testing.assert_close(product, a @ b.t() * scale * scale)


def test_whether_rounding_can_explain_an_integer(tmp_path: Path) -> None:
    graph = program(
        tmp_path,
        "x, n",
        "argmax = torch.ops.aten.argmax.default(x)\nadd = torch.ops.aten.add.Tensor(n, 1)\n"
        "return (argmax, add)",
    )
    _, _, recording, _ = run_reference(graph, [floats(5), floats(5, dtype=torch.int64)])
    assert not float_free(graph, recording, "argmax", {"x"})
    assert float_free(graph, recording, "add", {"x"})


# -- small rules ------------------------------------------------------------------------------------


def test_devices_are_read_off_the_code() -> None:
    assert required_device("empty_strided_cpu((2,), (1,), torch.float32)") == ("cpu", 0)
    assert required_device("empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cuda") == ("cpu", 0)
    assert required_device("x = rand_strided((2,), (1,), device='cuda:3', dtype=torch.int8)") == ("cuda", 3)
    assert required_device("buf0 = empty_strided_cuda((2,), (1,), torch.float32)") == ("cuda", 0)
    template = "t = async_compile.triton('triton_tem_fused_mm_0', '''ALLOW_TF32 : tl.constexpr = True''')"
    assert uses_tf32(template) and not uses_tf32(template.replace("True", "False"))
    assert not uses_tf32(template.replace("fused_mm", "fused_convolution"))


def test_medians_quartiles_and_the_time_budget() -> None:
    assert timing_of([5.0, 1.0, 2.0, 3.0, 4.0]) == Timing(3.0, 2.0, 5)
    assert timing_of([7.0]) == Timing(7.0, 0.0, 1)
    assert rounds_that_fit(30, 0.01, 20.0) == 30
    assert rounds_that_fit(30, 2.0, 20.0) == 10
    assert rounds_that_fit(30, 100.0, 20.0) == 5


def test_other_programs_cpu_time_is_what_is_neither_idle_nor_ours() -> None:
    # user 100, nice 10, system 40, idle 5000, iowait 70, irq 1, softirq 2, steal 7, guest 60.
    assert busy_seconds("cpu  100 10 40 5000 70 1 2 7 60 0\ncpu0 1 2 3", 100) == 1.6
    neighbours = Neighbours()
    spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        deadline = time.monotonic() + 1.5
        while time.monotonic() < deadline:
            pass
    finally:
        spinning.kill()
        spinning.wait()
    others = neighbours.cpus()
    if others is None:
        pytest.skip("this system has no /proc/stat")
    assert 0.2 < others <= (os.cpu_count() or 1)


@pytest.mark.parametrize(
    ("compiled", "verdict"), [(-1e-40, "mismatch"), (5e-41, "mismatch"), (0.0, "match"), (1e-40, "match")]
)
def test_denormal_numbers_are_kept_or_flushed_but_no_others(compiled: float, verdict: str) -> None:
    """Of a processor that computed them op by op: what is not zero was not flushed."""
    reference = torch.full((64,), 1e-40, dtype=torch.float64)
    given = reference.to(torch.float32)
    values = given.clone()
    values[7] = compiled
    assert compare(values, given, reference, noisy=lambda _: reference).verdict == verdict
