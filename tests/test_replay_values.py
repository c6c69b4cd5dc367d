"""Which values launches are tried on, and what they should give there; nothing is compiled."""

from __future__ import annotations

import math
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch._inductor import config, cpu_vec_isa  # noqa: E402
from torch._inductor.cpu_vec_isa import VecAVX2, VecAVX512  # noqa: E402

from inspector.replay.worker.code.fx import FxProgram  # noqa: E402
from inspector.replay.worker.code.vectors import bits_written_for, build_for, vectors_for  # noqa: E402
from inspector.replay.worker.compare import compare  # noqa: E402
from inspector.replay.worker.inputs.arguments import Fill, Inputs, TensorSpec, random_values  # noqa: E402
from inspector.replay.worker.inputs.roles import READ_BY_HOST, on_the_host  # noqa: E402
from inspector.replay.worker.kernels.draws import Draws  # noqa: E402
from inspector.replay.worker.kernels.numbers import among, pool_of  # noqa: E402
from inspector.replay.worker.kernels.repro import _TOOLS, Draft, registrars  # noqa: E402
from inspector.replay.worker.kernels.varied import _constants  # noqa: E402
from inspector.replay.worker.reference.body import LoopBody  # noqa: E402
from inspector.replay.worker.reference.evaluate import evaluate, record  # noqa: E402
from inspector.replay.worker.reference.noise import Noise, any_order  # noqa: E402

SUM = """
    var_ranges = {p0: 24, p1: 37}
    index0 = 37*p0 + p1
    index1 = p0
    def body(self, ops):
        load = ops.load('x', get_index)
        constant = ops.constant(2.5, torch.float32)
        reduction = ops.reduction(torch.float32, torch.float32, 'KIND', load)
        store_reduction = ops.store_reduction('buf0', get_index_1, reduction)
"""


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_ties_have_neighbours_in_their_own_dtype(dtype: Any) -> None:
    now = torch.zeros(20_000, dtype=dtype) - 1
    first, second = (Draws([SUM], "cpu", 0).values("ties", now, 0, "x", turn) for turn in (0, 1))
    assert first is not None and second is not None and first.dtype == dtype
    eps = float(torch.finfo(dtype).eps)
    for value in (1.0, -2.5):
        near = set((first.double() / value).tolist())
        assert 1.0 in near and any(1 < ratio < 1 + 2 * eps for ratio in near)
    # The second time there are fewer, so that two inputs are equal more often.
    assert len(set(second.tolist())) < len(set(first.tolist())) / 2


def test_each_number_is_tried_and_stands_out_in_its_row() -> None:
    draws = Draws(["ops.load('x', index)"], "cpu", 0)
    scattered = draws.values("numbers", torch.zeros(400) - 1, 0, "x")
    assert scattered is not None and {0.5, 3.0, 10.0, -16.0} <= set(scattered.tolist())
    small = draws.values("numbers", torch.zeros(256, dtype=torch.int8), 0, "x")
    assert small is not None and small.unique().numel() == 256
    body = SUM.replace("load = ", "get_index = self.get_index('index0')\n        load = ", 1)
    body = body.replace("store_", "get_index_1 = self.get_index('index1')\n        store_", 1)
    rows = Draws([body], "cpu", 0).values("numbers", torch.zeros(24 * 37) - 1, 0, "x")
    assert rows is not None and (rows.reshape(24, 37) == 0).sum(1).min() >= 30


def test_the_second_time_other_rows_hold_what_is_special() -> None:
    body = SUM.replace("load = ", "get_index = self.get_index('index0')\n        load = ", 1)
    body = body.replace("store_", "get_index_1 = self.get_index('index1')\n        store_", 1)
    draws = Draws([body], "cpu", 0)
    assert (*draws.kinds(), *draws.again({"x": 34 * 37})).count("rows") == 2
    now = torch.randn(34 * 37)
    seen = []
    for turn in (0, 1):
        rows = draws.values("rows", now, 0, "x", turn)
        assert rows is not None
        odd = (rows.reshape(34, 37).isnan().sum(1) == 1).nonzero().flatten().tolist()
        seen.append({(33 - row) // 10 for row in odd})
    assert seen == [{1, 3}, {0, 2}]


def test_sums_get_numbers_of_one_sign_the_second_time_and_products_no_wide_ones() -> None:
    now = torch.randn(5000)
    draws = Draws([SUM.replace("KIND", "prod")], "cpu", 0)
    first, second = (draws.values("wide", now, 0, "x", turn) for turn in (0, 1))
    assert first is not None and second is not None
    assert float(first.abs().max()) < 100 < 3e4 < float(second.max()) and bool((second > 0).all())
    # Which products pass through what is too small or large depends on their order.
    assert draws.undecided("wide", ["'prod'"], torch.float32, 1)
    assert not draws.undecided("wide", ["'prod'"], torch.float32, 0)


def test_what_float32_computes_is_wrong_in_float64() -> None:
    reference = torch.rand(400, dtype=torch.float64) + 1
    rough = reference.float().double()
    assert compare(rough, reference, reference).verdict == "match"
    assert compare(rough, reference, reference, noisy=lambda _: reference * (1 + 1e-15)).verdict == "mismatch"
    # Where a part of the graph is float32, disturbed rounding says so.
    noisy = [reference * (1 + torch.rand(400, dtype=torch.float64) * 2e-7) for _ in range(8)]
    assert compare(rough, reference, reference, noisy=lambda seed: noisy[seed - 1]).verdict == "match"


def test_single_elements_that_accuse_op_by_op_as_well_are_no_mismatch() -> None:
    """As a ResNet-18 in float16 had it behind its twelfth ReLU: 24 of 524,288 elements beside 32 others of op
    by op, where the reference is cut off at zero and few disturbed references move it."""
    reference = torch.relu(torch.randn(4096, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    zeros = (reference == 0).nonzero().flatten()
    compiled, eager = reference.half(), reference.half()
    compiled[zeros[:6]] = 0.024
    eager[zeros[100:108]] = 0.027
    disturbed = lambda seed: reference * (1 + 1e-4)  # noqa: E731
    found = compare(compiled, eager, reference, noisy=disturbed)
    assert found.verdict == "compiled_closer" and "at 6 of 4,096 elements (op by op at 8)" in found.reason
    # Where op by op agrees with the reference, or is off at few elements, they are wrong.
    assert compare(compiled, reference.half(), reference, noisy=disturbed).verdict == "mismatch"
    eager[zeros[102:108]] = 0.0
    assert compare(compiled, eager, reference, noisy=disturbed).verdict == "mismatch"


def _jumping(seed: int, reference: Any, count: int) -> Any:
    """The reference with so many elements far off, others from each seed, as an iteration ends that jumps."""
    chosen = torch.randperm(reference.numel(), generator=torch.Generator().manual_seed(seed))[:count]
    moved = reference.clone()
    moved[chosen] = moved[chosen] + 1
    return moved


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_what_each_disturbed_reference_moves_elsewhere_accuses_nobody(dtype: Any) -> None:
    reference = torch.arange(1, 8193, dtype=torch.float64)
    eager = reference.to(dtype)

    def judged(wrong: int, jumps: int) -> str:
        compiled = _jumping(99, reference, wrong).to(dtype)
        truth = reference if dtype.is_floating_point else reference.to(dtype)
        disturbed = lambda seed: _jumping(seed, reference * (1 + 1e-15), jumps).to(truth.dtype)  # noqa: E731
        return compare(compiled, eager, truth, noisy=disturbed).verdict

    assert judged(5, 8) == "eager_closer"
    # More than they move, or where they move nothing, is wrong.
    assert judged(60, 8) == judged(5, 0) == "mismatch"


def test_a_loop_that_names_a_narrow_dtype_rounds_to_it() -> None:
    text = "class Body:\n" + SUM
    assert LoopBody(text, 1).narrow and not LoopBody(text.replace("float32", "float64"), 1).narrow


def test_infinity_becomes_the_largest_number_of_the_captured_dtype(tmp_path: Path) -> None:
    path = tmp_path / "fx_graph_runnable.py"
    path.write_text(
        "class Repro(torch.nn.Module):\n    def forward(self, x):\n"
        "        log = torch.ops.aten.log.default(x)\n"
        "        full = torch.ops.aten.nan_to_num.default(log)\n"
        "        part = torch.ops.aten.nan_to_num.default(log, 1.0, None, -2.0)\n"
        "        return (full, part)\n"
    )
    program = FxProgram(path, "test")
    inputs = Inputs([TensorSpec((3,), (1,), torch.float32, "cpu", 0)], seed=0)
    inputs.given = {0: torch.tensor([0.0, math.inf, -1.0])}
    inputs.fill([Fill()])
    full, part = evaluate(program, inputs, record(program, inputs)[2]).outputs
    most = float(torch.finfo(torch.float32).max)
    assert isinstance(full, torch.Tensor) and full.tolist() == [-most, most, 0.0]
    assert isinstance(part, torch.Tensor) and part.tolist() == [-2.0, most, 1.0]


def test_the_state_of_a_dropout_that_the_host_reads_is_in_its_memory(tmp_path: Path) -> None:
    """Made on the GPU, as generated code has it, the backward of attention ended the process (SIGSEGV)."""
    path = tmp_path / "fx_graph_runnable.py"
    path.write_text(
        "class Repro(torch.nn.Module):\n    def forward(self, q, out, log_sum, getitem_2, getitem_3, grad):\n"
        "        back = torch.ops.aten._scaled_dot_product_efficient_attention_backward.default(\n"
        "            grad, q, q, q, None, out, log_sum, getitem_2, getitem_3, 0.1, [True] * 3 + [False])\n"
        "        return (back[0],)\n"
    )
    program = FxProgram(path, "test")
    on_gpu: list[object] = [
        TensorSpec((2,), (1,), torch.float32, "cuda:0", storage)
        for storage in range(len(program.placeholders))
    ]
    devices = [spec.device for spec in on_the_host(program, on_gpu) if isinstance(spec, TensorSpec)]
    assert devices == ["cuda:0"] * 3 + ["cpu"] * 2 + ["cuda:0"]
    for name, positions in READ_BY_HOST.items():
        schema = getattr(torch.ops.aten, name.removeprefix("aten.")).default._schema
        assert [schema.arguments[place].name for place in positions] == ["philox_seed", "philox_offset"]


def test_exp_minus_one_is_an_error_of_a_gpu_only() -> None:
    tiny = torch.full((1000,), 1e-4, dtype=torch.float64)
    moved = [Noise(1, libdevice).function(tiny, 1.2e-7, "expm1") for libdevice in (False, True)]
    errors = [float((value - tiny).abs().max()) for value in moved if isinstance(value, torch.Tensor)]
    assert errors[0] > 1e-7 > 1e-9 > errors[1]


# -- the program's own kernel -----------------------------------------------------------------------


def test_a_programs_own_kernel_is_tried_on_its_constants_where_values_are_no_addresses() -> None:
    text = "@triton.jit(x=3.5)\ndef choice(x_ptr, n):\n    result = tl.where(x > 0.25, x * 1.5e-3, y)\n"
    (body,) = _constants(text)
    draws = Draws([body], "cuda", 0, only_floats=True)
    assert draws.values("ties", torch.arange(9), 0) is None
    drawn = draws.values("ties", torch.randn(4000), 0)
    assert drawn is not None and 0.25 in drawn.tolist() and 3.5 not in drawn.tolist()
    assert not _constants("") and not _constants(text + "    place = x.to(tl.int32)\n")


def test_a_written_programs_reference_may_name_its_input_as_the_launch_does() -> None:
    given = torch.randn(3, 4)
    draft: Any = object.__new__(Draft)
    draft._values, draft._flat, draft._device = {"arg0_1": given}, {"arg0_1": given.reshape(-1)}, "cpu"
    inputs = "\n".join(draft._inputs())
    function = f"def reference():\n    arg0_1 = {draft._same(given)}\n    return arg0_1 * 2\n"
    space: dict[str, Any] = {"torch": torch}
    exec(f"{_TOOLS}\n{inputs}\n{function}", space)
    assert torch.equal(space["reference"](), given * 2)
    # What op by op gives as well is no fault of the kernel's.
    exact = given.double() + 1
    assert not space["compare"]("out", given, given, exact, 0, 0)
    assert space["compare"]("out", given, given + 2, exact, 0, 0)


def test_a_written_program_imports_what_registers_the_operators_that_it_calls() -> None:
    text = "a = torch.ops.prims.prepare_softmax_online.default(x, 1)\nb = torch.ops.aten.exp.default(a)\n"
    assert registrars(text) == ["torch._inductor.inductor_prims"]
    assert registrars(text + "torch.ops.networkx.f(x); torch.ops.nobodys_library.g(x)")[0] == "networkx"
    program = f"import torch, {registrars(text)[0]}\ntorch.ops.prims.prepare_softmax_online.default"
    subprocess.run([sys.executable, "-I", "-c", program], check=True)


def test_a_single_row_is_one_of_each_sort_in_turn() -> None:
    body = SUM.replace("p0: 24", "p0: 1").replace(
        "load = ", "get_index = self.get_index('index0')\n        load = ", 1
    )
    body = body.replace("store_", "get_index_1 = self.get_index('index1')\n        store_", 1)
    draws = Draws([body], "cuda", 0)
    times = (*draws.kinds(), *draws.again({"x": 37})).count("rows")
    rows = [draws.values("rows", torch.rand(37) + 1, 0, "x", time) for time in range(times)]
    seen = [row for row in rows if row is not None]
    # An identity of 0 shows where all is negative, and one that is finite where all is minus infinity.
    assert any(bool((row == -math.inf).all()) for row in seen) and any(
        bool((row < -0.05).all()) for row in seen
    )
    assert any(0 < float(row.abs().max()) < 1e-6 for row in seen)
    assert any({0.0, 1.0} <= set(row.tolist()) and len(set(row.tolist())) < 9 for row in seen)
    assert any(300 < float(row.abs().max()) < 1e5 for row in seen)


def test_what_a_value_is_sorted_between_is_drawn_as_well_and_sorted() -> None:
    body = "ops.bucketize(load, ('bounds', 9, 9, 1), 0, torch.int64, False)"
    draws = Draws([body], "cuda", 0)
    now = torch.linspace(-2, 2, 9)
    for kind, reaches in (("ties", 0.0), ("wide", -8.0)):
        drawn = draws.values(kind, now, 0, "bounds")  # type: ignore[arg-type]
        assert drawn is not None and bool((drawn.diff() >= 0).all()) and float(drawn[0]) < reaches
    assert draws.values("special", now, 0, "bounds") is None


def test_a_gpus_integers_may_overflow() -> None:
    for device, least in (("cuda", 2**29), ("cpu", 0)):
        drawn = Draws(["ops.mul(load, constant)"], device, 0).values("wide", torch.zeros(900).int(), 0)
        assert drawn is not None and least < int(drawn.max()) < (2**31 if least else 2**16)


def test_each_tie_is_among_the_last_elements_in_turn() -> None:
    """A tail of three elements is code of its own."""
    draws = Draws(["ops.load('x', get_index)\nops.round(load)"], "cpu", 0)
    times = (*draws.kinds(), *draws.again({"x": 99})).count("ties")
    last = [draws.values("ties", torch.randn(99), 0, "x", turn) for turn in range(1, times)]
    assert {-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0} <= {
        value for row in last if row is not None for value in row[-3:].tolist()
    }


def test_a_weight_beside_rows_is_infinite_where_they_are_not() -> None:
    draws = Draws([SUM], "cpu", 0)
    draws._rows = {"x": [(1, 48)]}
    weight = draws.values("special", torch.randn(48), 1, "w", 1)
    assert weight is not None and bool(weight.isinf().any()) and bool(weight.isfinite().any())


def test_quotients_of_large_numbers_are_tried_where_they_are_small() -> None:
    body = "ops.load('x', i)\nops.load('y', i)\nops.remainder(load, load_1)"
    draws = Draws([body], "cuda", 0)
    sides = [draws.values("wide", torch.randn(400), number, name, 1) for number, name in enumerate("xy")]
    assert all(side is not None and 100 < float(side.abs().min()) < 1000 for side in sides)
    turns = [draws.undecided("wide", [body], torch.float32, turn) for turn in (0, 1)]
    # What vectorised C++ has for a remainder is rounded.
    assert turns == [True, False] and Draws([body], "cpu", 0).undecided("wide", [body], torch.float32, 1)


def test_made_up_indices_hold_the_ends_and_the_last_from_behind() -> None:
    values = random_values(30, torch.int64, "cpu", Fill(low=-12, high=12), 3)
    assert {-1, -12, 11} <= set(values.tolist())
    assert {0, 11} <= set(random_values(30, torch.int64, "cpu", Fill(low=0, high=12), 4).tolist())


def test_rows_end_at_each_tie_the_second_time() -> None:
    body = SUM.replace("load = ", "get_index = self.get_index('index0')\n        load = ", 1)
    body = body.replace("store_", "get_index_1 = self.get_index('index1')\n        store_", 1)
    rows = Draws([body], "cpu", 0).values("ties", torch.randn(24 * 37), 0, "x", 1)
    assert rows is not None
    rows = rows.reshape(24, 37)
    assert {-1.0, 0.0, 1.0} <= set(rows.amax(1).tolist()) & set(rows.amin(1).tolist())


def test_small_inputs_hold_each_special_value_and_maxima_of_negative_numbers() -> None:
    draws = Draws(["ops.load('x', i)\nops.maximum(load, load_1)"], "cpu", 0)
    special = draws.values("special", torch.randn(40), 0, "x", 1)
    assert (
        special is not None and bool(special.isnan().any()) and {math.inf, -math.inf} <= set(special.tolist())
    )
    wide = draws.values("wide", torch.randn(640), 0, "x", 1)
    assert wide is not None and bool((wide.reshape(20, 32) < 0).all(1).any())
    scan = Draws(["self.scan\nops.load('x', i)"], "cpu", 0).values("special", torch.randn(66), 0, "x", 0)
    assert scan is not None and not bool(scan.isfinite().all())
    left, right = (
        draws.values("special", torch.randn(80), number, name, 1) for number, name in enumerate("xy")
    )
    assert left is not None and right is not None
    assert bool((left == -math.inf)[right == -math.inf].any())


LOAD = """async_compile.cpp_pybinding([], '''
auto tmp0 = at::vec::{}::loadu(in_ptr0 + static_cast<int64_t>(x0), {});
{}'''"""


@pytest.mark.parametrize(
    ("kind", "lanes", "rest", "bits"),
    [
        ("Vectorized<float>", "static_cast<int64_t>(16)", "", 512),
        ("Vectorized<float>", "16", "", 512),
        ("Vectorized<float>", "static_cast<int64_t>(8)", "", 256),
        ("Vectorized<float>", "static_cast<int64_t>(4)", "", 128),
        ("VectorizedN<int64_t,2>", "static_cast<int64_t>(16)", "", 512),
        ("Vectorized<bfloat16>", "static_cast<int64_t>(32)", "", 512),
        ("Vectorized<at::BFloat16>", "static_cast<int64_t>(16)", "at::vec::Vectorized<float>(1)", 512),
        ("Vectorized<uint8_t>", "static_cast<int64_t>(8)", "at::vec::Vectorized<float>(1)", 256),
        # Bytes alone go as many at a time as there are floats, or halves, which are two vectors.
        ("Vectorized<uint8_t>", "static_cast<int64_t>(16)", "", 512),
        ("Vectorized<int8_t>", "static_cast<int64_t>(32)", "at::vec::convert<float,2,int8_t,1>(tmp0)", 512),
        ("Vectorized<int8_t>", "static_cast<int64_t>(16)", "at::vec::VectorizedN<float,2>(1)", 256),
        # The rest of a row, as many as there are.
        ("Vectorized<float>", "static_cast<int64_t>(4L)", "", None),
    ],
)
def test_the_width_of_vectors_is_that_of_the_loops(
    kind: str, lanes: str, rest: str, bits: int | None
) -> None:
    assert bits_written_for(LOAD.format(kind, lanes, rest)) == bits


def test_cpp_is_built_for_the_vectors_it_was_written_for_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A wrong width is no wrong kernel: loops that step by 16 and load 8 leave half of the elements out."""
    wide, narrow, older = (
        LOAD.format("Vectorized<float>", f"static_cast<int64_t>({lanes})", "") for lanes in (16, 8, 4)
    )
    monkeypatch.setattr(config.cpp, "simdlen", None)
    monkeypatch.setattr(cpu_vec_isa, "valid_vec_isa_list", lambda: [VecAVX512(), VecAVX2()])
    monkeypatch.setattr(cpu_vec_isa, "pick_vec_isa", VecAVX512)
    assert build_for(wide) is None and config.cpp.simdlen is None
    assert "vectors of 128 bits" in str(build_for(older))
    assert build_for(narrow) is None and config.cpp.simdlen == 256
    monkeypatch.setattr(config.cpp, "simdlen", None)
    monkeypatch.setattr(cpu_vec_isa, "valid_vec_isa_list", lambda: [VecAVX2()])
    monkeypatch.setattr(cpu_vec_isa, "pick_vec_isa", VecAVX2)
    assert "vectors of 512 bits" in str(build_for(wide)) and "256 bits" in str(build_for(wide))
    assert build_for(narrow) is None and config.cpp.simdlen is None
    assert build_for("async_compile.cpp_pybinding([], '''a scalar loop''')") is None
    # What is only compiled needs no such machine, but a compiler of its architecture.
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert [type(vectors_for(text)) for text in (wide, narrow, older)] == [VecAVX512, VecAVX2, type(None)]
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    assert [type(vectors_for(text)) for text in (wide, narrow)] == [type(None), VecAVX2]


def test_in_two_turns_rows_hold_every_number_and_in_four_among_zeros_and_ones() -> None:
    generator = torch.Generator().manual_seed(0)
    pool = pool_of([], generator, exact=True)
    row = torch.arange(16).repeat_interleave(64)
    turns = [
        among(pool, row, turn % 2, generator, turns=2, beside=float(turn // 2), ends=False)
        for turn in range(4)
    ]
    missing = [
        {float(each) for each in pool} - {float(each) for turn in pair for each in turns[turn]}
        for pair in ((0, 1), (2, 3))
    ]
    assert missing == [set(), set()]
    backgrounds = [float(turn.mode().values) for turn in turns]
    assert sorted(backgrounds) == [0.0, 0.0, 1.0, 1.0] and backgrounds[:2] != backgrounds[2:]


def test_a_product_that_may_vanish_on_its_way_to_infinity_is_not_certain() -> None:
    """In one order of its factors it is infinite, in another zero times infinity."""
    rows = [
        [math.inf, *[1e-8] * 5, 1.0],
        [math.inf, *[1e-3] * 5, 1.0],
        [math.inf, 0.0, *[1.0] * 5],
        [0.0, *[1e9] * 5, 1.0],
        [1e-30, 1e-30, 1e30, 1e30, 1.0, 1.0, 1.0],
        [1e-8] * 7,
    ]
    table = torch.tensor(rows, dtype=torch.float64)
    assert any_order(table, (1,), torch.float32).flatten().tolist() == [True, False, False, True, True, False]
    assert not any_order(table, (1,), torch.float64).any()
