"""Block sizes, grids and memory bounds of interpreted kernels: what needs no Triton."""

from __future__ import annotations

from typing import Any

import pytest

from inspector.replay.worker.interpreter.grid import (
    GridError,
    KernelShape,
    choose_blocks,
    launch_grid,
    older_grid,
    older_grid_functions,
    program_order,
)

MASKED = "    xmask = xindex < xnumel\n    r0_mask = r0_index < r0_numel\n"


def shape(parameters: str, text: str = MASKED, **meta: Any) -> KernelShape:
    return KernelShape(tuple(parameters.split()), text, {"grid_type": "Grid1D", **meta})


def covered(kernel: KernelShape, values: dict[str, Any]) -> int:
    """Elements along x of the grid's blocks."""
    blocks = choose_blocks(kernel, values)
    return launch_grid(kernel, blocks, values)[0] * blocks["XBLOCK"]


@pytest.mark.parametrize("numel", [2, 3, 100, 4096, 10_000_000])
def test_a_masked_range_is_covered_by_two_programs_at_least(numel: int) -> None:
    kernel = shape("in_ptr0 out_ptr0 xnumel XBLOCK")
    blocks = choose_blocks(kernel, {"xnumel": numel})
    programs = launch_grid(kernel, blocks, {"xnumel": numel})[0]
    assert programs >= 2
    assert (programs - 1) * blocks["XBLOCK"] < numel <= programs * blocks["XBLOCK"]


@pytest.mark.parametrize("numel", [1, 96, 4096, 3 * 4096, 10_000_000])
def test_a_range_without_a_mask_is_covered_exactly(numel: int) -> None:
    kernel = shape("in_ptr0 out_ptr0 xnumel XBLOCK", "    xmask = tl.full([XBLOCK], True, tl.int1)[:]\n")
    assert covered(kernel, {"xnumel": numel}) == numel


def test_a_length_that_the_body_sets_counts() -> None:
    kernel = shape("in_ptr0 xnumel XBLOCK", "    xnumel = 50\n" + MASKED)
    assert launch_grid(kernel, {"XBLOCK": 16}, {"xnumel": 9999}) == (4, 1, 1)


@pytest.mark.parametrize("length", [16, 100, 2048, 50_000])
def test_a_reduction_loop_turns_more_than_once(length: int) -> None:
    kernel = shape("in_ptr0 xnumel r0_numel XBLOCK R0_BLOCK")
    blocks = choose_blocks(kernel, {"xnumel": 64, "r0_numel": length})
    assert -(-length // blocks["R0_BLOCK"]) >= 2
    assert blocks["XBLOCK"] * blocks["R0_BLOCK"] <= 1 << 20


def test_a_reduction_without_a_mask_is_divided_evenly() -> None:
    kernel = shape("xnumel r0_numel XBLOCK R0_BLOCK", "    r0_mask = tl.full([R0_BLOCK], True, tl.int1)\n")
    assert 98304 % choose_blocks(kernel, {"xnumel": 4, "r0_numel": 98304})["R0_BLOCK"] == 0


def test_a_persistent_reduction_leaves_room_for_its_own_block() -> None:
    text = MASKED + "    R0_BLOCK: tl.constexpr = 65536\n"
    blocks = choose_blocks(shape("xnumel r0_numel XBLOCK", text), {"xnumel": 4096, "r0_numel": 50000})
    assert blocks == {"XBLOCK": 2}
    computed = (
        MASKED + "    R0_BLOCK: tl.constexpr = triton_helpers.constexpr_next_power_of_2((50000) // 1)\n"
    )
    kernel = shape("xnumel r0_numel XBLOCK RSPLIT", computed, grid_type="CooperativeReductionGrid")
    blocks = choose_blocks(kernel, {"xnumel": 4096, "r0_numel": 50000})
    assert blocks == {"XBLOCK": 2, "RSPLIT": 1}
    assert launch_grid(kernel, blocks, {"xnumel": 4096, "r0_numel": 50000}) == (1, 2048, 1)


def test_grids_of_several_dimensions() -> None:
    kernel = shape("ynumel xnumel YBLOCK XBLOCK", grid_type="Grid2DWithYZOverflow")
    blocks, values = {"XBLOCK": 32, "YBLOCK": 1}, {"xnumel": 100, "ynumel": 200_000}
    assert launch_grid(kernel, blocks, values) == (4, 50_000, 4)
    flat = shape("ynumel xnumel YBLOCK XBLOCK", grid_type="Grid2D")
    assert launch_grid(flat, {"XBLOCK": 32, "YBLOCK": 8}, {"xnumel": 100, "ynumel": 20}) == (4, 3, 1)
    split = shape("xnumel RSPLIT_SIZE XBLOCK NUM_STAGES", grid_type="MixOrderReductionGrid", RSPLIT_SIZE=64)
    blocks = choose_blocks(split, {"xnumel": 4096})
    assert blocks["RSPLIT_SIZE"] == 64 and 64 % blocks["XBLOCK"] == 0
    assert launch_grid(split, blocks, {"xnumel": 4096}) == (64, 1, 1)


def test_grids_that_the_launch_or_the_run_gives() -> None:
    fixed = shape("a", grid_type="FixedGrid", fixed_grid=["_grid_0", "_grid_1", "_grid_2"])
    assert launch_grid(fixed, {}, {"_grid_0": 128, "_grid_1": 2, "_grid_2": 1}) == (128, 2, 1)
    candidates = [
        {"config": {"BLOCK": 16}, "python": ["-(n // -16)", "1", "1"]},
        {"config": {"BLOCK": 64}, "python": ["-(n // -64)", 1, 1]},
    ]
    user = shape("n BLOCK", grid_type="PrecomputedGrid", precomputed_grids=candidates)
    assert launch_grid(user, {"BLOCK": 64}, {"n": 100}) == (2, 1, 1)
    with pytest.raises(GridError, match="none of the precomputed grids"):
        launch_grid(user, {"BLOCK": 32}, {"n": 100})
    with pytest.raises(GridError, match="HexagonGrid, is not known"):
        launch_grid(shape("a", grid_type="HexagonGrid"), {}, {})


def test_combo_kernels() -> None:
    combo = {
        "num_kernels": 2,
        "min_blocks": 0,
        "default_config": {"XBLOCK": 1024},
        "no_x_dim_0": False,
        "xnumel_0": 5000,
        "no_x_dim_1": True,
        "xnumel_1": None,
    }
    values = {"xnumel_1": 7}
    sequential = shape("a", grid_type="SequentialComboKernelGrid", combo_grid_meta=combo)
    assert launch_grid(sequential, {}, values) == (5 + 7, 1, 1)
    robin = shape("a", grid_type="RoundRobinComboKernelGrid", combo_grid_meta=combo)
    assert launch_grid(robin, {}, values) == (2 * 7, 1, 1)


def test_grids_of_wrappers_before_2_7() -> None:
    functions = older_grid_functions()
    assert older_grid(functions["grid"](100), {"XBLOCK": 32}) == (4, 1, 1)
    assert older_grid(functions["grid"](20, 100), {"XBLOCK": 32, "YBLOCK": 8}) == (4, 3, 1)
    assert older_grid(functions["split_scan_grid"](3, 5000), {"RBLOCK": 1024}) == (5, 3, 1)
    assert older_grid((7,), {}) == (7, 1, 1)
    combo = functions["grid_combo_kernels"]((5000, -7), num_kernels=2, min_blocks=None, is_sequential=True)
    assert older_grid(combo, {}) == (12, 1, 1)


def test_first_last_and_middle_program_come_first_and_none_twice() -> None:
    order = list(program_order((3, 4, 2), seed=1, in_turn=False))
    assert order[:3] == [(0, 0, 0), (2, 3, 1), (0, 0, 1)]
    assert len(set(order)) == 24 == len(order)
    assert order == list(program_order((3, 4, 2), seed=1, in_turn=False))
    assert order != list(program_order((3, 4, 2), seed=2, in_turn=False))
    assert list(program_order((2, 2, 1), 0, in_turn=True)) == [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)]


def test_memory_outside_the_arguments_is_named_and_writes_are_marked() -> None:
    torch = pytest.importorskip("torch")
    np = pytest.importorskip("numpy")
    from inspector.replay.worker.interpreter.memory import Memory, OutOfBounds

    tensor = torch.zeros(4, 6)
    memory = Memory({"in_ptr0": tensor, "in_ptr1": tensor[1:]})
    start = np.uint64(tensor.data_ptr())
    addresses = start + np.arange(8, dtype=np.uint64) * np.uint64(4)
    mask = np.arange(8) % 2 == 0
    for region, active in memory.check(addresses, mask, 4, "writes"):
        region.mark(active)
    expected = torch.zeros(4, 6, dtype=torch.bool)
    expected.view(-1)[[0, 2, 4, 6]] = True
    assert torch.equal(memory.written(tensor), expected)
    assert torch.equal(memory.written(tensor.t()), expected.t())
    assert memory.written(torch.zeros(3)) is None
    beyond = start + np.arange(20, 26, dtype=np.uint64) * np.uint64(4)
    assert memory.check(beyond, np.arange(6) < 4, 4, "reads")
    with pytest.raises(OutOfBounds, match=r"reads 0 bytes past the end of in_ptr0 \(2 such elements"):
        memory.check(beyond, np.ones(6, dtype=bool), 4, "reads")
