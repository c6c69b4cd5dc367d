"""Below a kernel on screen: stages beside each other, and one selection through them up to the model."""

from __future__ import annotations

from pathlib import Path

import pytest
from tui_support import GraphsApp, press, settle, text

from inspector.lowered import lowered_kernels
from inspector.present.below import (
    FACTS,
    SOURCE,
    StageDocument,
    documents,
    origin_text,
    selected,
    toggled,
)
from inspector.present.folds import Repeat, repeats, shape
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


def test_a_block_repeats_where_it_differs_in_registers_and_offsets_alone() -> None:
    text = "abcabcabcabcxyyyyyyyyxabab"
    assert repeats(text) == (Repeat(0, 3, 4), Repeat(13, 1, 8))
    assert [text[row] for row in Repeat(0, 3, 4).hidden] == list("abcabcabc")
    assert repeats("") == repeats("a") == repeats("abcd") == ()
    same = (
        ("/*0d10*/  @!P0 LDG.E R8, desc[UR4][R2.64+0x100] ;", "/*0d20*/  @!P1 LDG.E R9, desc[UR4][R22.64] ;"),
        ("st.shared.b32 [ %r12 + 0 ], %r9;", "st.shared.b32 [ %r13 + 4 ], %r10;"),
        ("%4 = arith.mulf %tmp3_9, %cst_1 : f32", "%12 = arith.mulf %tmp3, %cst_2 : f32"),
        ("    b9:\tvmulps -0x180(%rbx),%zmm2,%zmm0", "   1b9:\tvmulps 0x40(%rbx),%zmm3,%zmm10"),
    )
    other = (
        ("FMUL R2, R4, 0.40625 ;", "FMUL R2, R4, 2.5 ;"),
        ("mul.f32 %r1, %r2, 0f3FAA0000;", "mul.f32 %r1, %r2, 0f3F000000;"),
        ("LDG.E R8, [R2] ;", "LDG.E.64 R8, [R2] ;"),
        ("vmulps %zmm1,%zmm2,%zmm0", "vaddps %zmm1,%zmm2,%zmm0"),
    )
    for first, second in (*same, *other):
        alike = shape(first).replace("desc[·][·.64+·]", "desc[·][·.64]") == shape(second)
        assert alike == ((first, second) in same), (first, second)


def test_what_repeats_in_real_stages_is_folded_and_every_line_stays_within_reach(staged: Path) -> None:
    run = Run.open(staged / "infer-default.run")
    folded = 0
    for item in lowered_kernels(run, run.graphs):
        for name, shown in documents(item).items():
            if not isinstance(shown, StageDocument) or not shown.blocks:
                continue
            first, row = min(shown.blocks.values()), min(shown.blocks)
            opened = shown
            for block in sorted(set(shown.blocks.values())):
                at = next(row for row, own in opened.blocks.items() if own == block)
                opened, cursor = toggled(item, name, opened, at)
                assert opened.blocks[cursor] == block and opened.whole_rows[cursor] in opened.whole_rows
            # All that the stage has, in its order; what was hidden is of the lines that its first is of.
            assert opened.whole_rows == tuple(range(opened.count)) and opened.count > shown.count
            assert {opened.ref_at(each) for each in range(opened.count)} == {
                shown.ref_at(each) for each in range(shown.count)
            }
            again, cursor = toggled(item, name, toggled(item, name, shown, row)[0], row + 1)
            assert (again.lines, again.notes, again.blocks[cursor]) == (shown.lines, shown.notes, first)
            folded += opened.count - shown.count
    assert folded > 100


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_the_selection_goes_through_all_parts(staged: Path, size: tuple[int, int]) -> None:
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
        left, right, third = screen._views
        wide = size[0] >= 150
        assert left.content.title == "Source" and right.content.title == "PTX"
        assert third.display == wide and third.content.title == "LLIR"
        back = ("tab", "tab") if wide else ("tab",)
        row = next(row for row in range(left.content.count) if "libdevice.erf" in left.content.text(row))
        left.move_to(row)
        await settle(pilot)
        assert right.marks and right.content.ref_at(right.cursor) == left.ref
        assert not wide or (third.marks and third.content.ref_at(third.cursor) == left.ref)
        assert "erf · output_code.py:" in screen.bar.text
        folded = right.content
        assert isinstance(folded, StageDocument) and folded.blocks
        await press(pilot, "tab")
        right.move_to(next(row for row in folded.blocks if "Enter opens" in folded.text(row)))
        await press(pilot, "enter")
        opened = right.content
        assert opened.count > folded.count and "Enter opens" not in opened.text(right.cursor)
        await press(pilot, "enter")
        assert right.content.lines == folded.lines and right.cursor in folded.blocks
        await press(pilot, *back)
        assert left.has_focus
        left.move_to(row - 1)
        left.move_to(row)
        await press(pilot, "tab", "less_than_sign")
        await settle(pilot)
        assert right.content.title == "LLIR" and right.content.ref_at(right.cursor) == left.ref
        await press(pilot, *back, "less_than_sign")
        assert left.content.title == "Facts" and "occupancy" in text(app)
        await press(pilot, "escape")
        assert isinstance(app.screen, GraphScreen)
