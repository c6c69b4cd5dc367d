"""Below a kernel on screen: two stages beside each other, and one selection through them up to the model."""

from __future__ import annotations

from pathlib import Path

import pytest
from tui_support import GraphsApp, press, settle, text

from inspector.lowered import lowered_kernels
from inspector.present.below import FACTS, SOURCE, documents, origin_text, selected
from inspector.readers.run import Run
from inspector.tui.screens.below import BelowScreen
from inspector.tui.screens.graph import GraphScreen

KERNEL = "triton_poi_fused__to_copy_convolution_gelu_2"


def test_rows_of_all_stages_are_found_by_the_line_of_the_source(staged: Path) -> None:
    run = Run.open(staged / "infer-default.run")
    (item,) = lowered_kernels(run, run.graphs, KERNEL)
    made = documents(item)
    assert list(made) == [FACTS, SOURCE, "ttir", "ttgir", "llir", "ptx"]
    source = made[SOURCE]
    row = next(row for row in range(source.count) if "libdevice.erf" in source.text(row))
    ref = source.ref_at(row)
    assert ref is not None and source.rows_of(selected(int(ref.key))) == ((row, row),)
    for name, word in (("ttir", "erf"), ("ttgir", "erf"), ("llir", "llvm.nvvm"), ("ptx", "fma.rn")):
        document = made[name]
        rows = [
            row for first, last in document.rows_of(selected(int(ref.key))) for row in range(first, last + 1)
        ]
        assert any(word in document.text(each) for each in rows), name
        assert all(document.ref_at(each) == ref for each in rows)
        # Neither `.loc` nor `loc(#loc7)`: that is what the selection is for.
        assert not any(document.text(each).endswith("loc)") or ".loc" in document.text(each) for each in rows)
    assert origin_text(item, int(ref.key)).startswith("models.py:14 · erf · output_code.py:")


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_the_selection_goes_through_both_halves(staged: Path, size: tuple[int, int]) -> None:
    app = GraphsApp(str(staged / "infer-default.run"))
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await press(pilot, "enter", "4")
        assert isinstance(app.screen, GraphScreen)
        app.screen.go_to_kernel(KERNEL)
        await settle(pilot)
        await press(pilot, "B")
        await settle(pilot)
        screen = app.screen
        assert isinstance(screen, BelowScreen)
        left, right = screen._views
        assert left.content.title == "Source" and right.content.title == "PTX"
        row = next(row for row in range(left.content.count) if "libdevice.erf" in left.content.text(row))
        left.move_to(row)
        await settle(pilot)
        assert right.marks and right.content.ref_at(right.cursor) == left.ref
        assert "erf · output_code.py:" in screen.bar.text
        await press(pilot, "tab", "less_than_sign")
        await settle(pilot)
        assert right.content.title == "LLIR" and right.content.ref_at(right.cursor) == left.ref
        await press(pilot, "tab", "less_than_sign")
        assert left.content.title == "Facts" and "occupancy" in text(app)
        await press(pilot, "escape")
        assert isinstance(app.screen, GraphScreen)
