"""Three missed fusions, from a program that is really compiled here to the row that explains it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tui_support import GraphsApp, press, settle, text

from inspector.analysis.fusion import analyse_fusion
from inspector.model.fusion import FusionReport
from inspector.readers.run import Run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def reports(fusion_cases: Path) -> dict[str, FusionReport]:
    """The one graph of each function."""
    names = ("transposed", "straight", "reduced", "cut")
    made = [analyse_fusion(graph.artifacts()) for graph in Run.open(fusion_cases).graphs[:4]]
    return dict(zip(names, made, strict=True))


def test_a_transposed_consumer_and_its_remedy(reports: dict[str, FusionReport]) -> None:
    before, after = reports["transposed"], reports["straight"]
    (missed,) = before.missed
    assert (missed.category, missed.verdict, missed.possible) == ("index_mismatch", "rejected", True)
    assert missed.bytes == 96 * 64 * 4
    assert [access.buffer for access in missed.buffers] == ["buf0"]
    assert [place.line for place in (*missed.first_sources, *missed.second_sources)] == [6, 7]
    assert "transpose" in missed.advice
    assert after.missed == ()
    assert before.bytes_fused is not None and after.bytes_fused is not None
    assert before.bytes_fused - after.bytes_fused == pytest.approx(missed.bytes, rel=0.1)


def test_a_reduction_and_a_pointwise_step_over_another_shape(reports: dict[str, FusionReport]) -> None:
    (missed,) = reports["reduced"].missed
    assert missed.category == "iteration_ranges"
    assert missed.bytes == 2 * 1024 * 4, "the sum is written, and read by every row but counted once"
    assert "[1024] reduce [8]" in missed.plain
    assert "[30, 1024]" in missed.plain
    assert [place.line for place in (*missed.first_sources, *missed.second_sources)] == [14, 15]


def test_a_chain_cut_by_a_library_call(reports: dict[str, FusionReport]) -> None:
    report = reports["cut"]
    assert [group.is_wall for group in report.groups] == [False, True, False]
    assert [missed.category for missed in report.missed] == ["extern_kernel", "extern_kernel"]
    for missed in report.missed:
        assert missed.bytes == 2 * 64 * 64 * 4
        assert not missed.possible
        assert "extern_kernels.mm" in missed.plain
        assert "max-autotune" in missed.advice
        assert missed.verdict == "never_tried" and not missed.by_torch
        assert missed.reason.startswith("unfusable node: "), "the recorder knows what kept them apart"


async def test_the_pane_tells_of_the_transposed_consumer(fusion_cases: Path) -> None:
    app = GraphsApp(str(fusion_cases))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await press(pilot, "f")
        await settle(pilot)
        assert "index mismatch" in text(app) and "try: Make the layouts agree" in text(app)
        await press(pilot, "p")
        assert "▸op1" in text(app), "the partner"
        await press(pilot, "less_than_sign")
        assert "of this graph" not in text(app), "the record has the rounds"
