"""Both sides in the browser: bars left and right of a line, what they are summed by, the way from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tui_support import GraphsApp, lines, press, settle, text

from inspector.explain import explain
from inspector.explain.block_words import label
from inspector.explain.profiles import load_profiles
from inspector.model.two_sides import Block, Sides
from inspector.present.two_sides import BYS, rows
from inspector.readers.run import Run
from inspector.tui.app import InspectorApp
from inspector.tui.screens.explain import ExplainScreen
from inspector.tui.screens.source import SourceScreen
from inspector.units import bars

NARROW, WIDE = (80, 24), (160, 50)
SIZES = pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])


def sides_of(convmixer: Path, eager: bool = True) -> Sides:
    run = Run.open(convmixer / "infer-default.run")
    traces = [convmixer / f"infer-{side}.trace.json" for side in ("default", "eager")]
    sides = explain(run, (), None, load_profiles(run, traces[0], traces[1] if eager else None)).sides
    assert sides is not None
    return sides


def test_bars_grow_away_from_the_axis() -> None:
    assert bars(0.5, 1.0, 4) == ("  ██", "████")
    assert bars(0.125, 0.4, 4) == ("   ▐", "█▌  ")
    assert bars(-1.0, 2.0, 3) == ("   ", "███")


@pytest.mark.parametrize("width", [77, 157])
@pytest.mark.parametrize("by", BYS)
def test_eager_is_left_of_one_axis_and_compiled_right_of_it(convmixer: Path, width: int, by: Any) -> None:
    written = list(rows(sides_of(convmixer), width, by))
    assert max(line.width for line, _ in written) <= width
    drawn = [(line.text, block) for line, block in written if "│" in line.text]
    assert len({text.index("│") for text, _ in drawn}) == 1
    first, block = drawn[0]
    assert isinstance(block, Block) and label(block) == "models.py:16 blocks.*.dw conv2d x4"
    if by == "kernel":
        assert "█" in first.partition("│")[2] and "█" not in first.partition("│")[0]
        return
    before, after = first.split("│")
    eager, compiled = (float(part.strip("▐█ ").split()[place]) for part, place in ((before, -2), (after, 0)))
    left, right = (part.count("█") + part.count("▐") / 2 for part in (before, after))
    assert left == pytest.approx(right * eager / compiled, abs=0.5) and right >= 5
    if by == "block":
        assert (eager, compiled) == (1.09, 5.23) and after.endswith(" +4.14 ms")


def test_a_side_that_was_not_profiled_has_no_numbers(convmixer: Path) -> None:
    written = [line.text for line, _ in rows(sides_of(convmixer, eager=False), 77)]
    assert written[0].split()[:2] == ["compiled", "only,"]
    left, _, right = written[1].partition("│")
    assert " ms " not in left and right.split()[-2:] == ["5.23", "ms"]


async def opened(pilot: Any) -> ExplainScreen:
    await settle(pilot)
    await press(pilot, "e")
    await settle(pilot)
    assert isinstance(pilot.app.screen, ExplainScreen)
    return pilot.app.screen


@SIZES
async def test_the_sums_go_round_with_the_cursor_on_them(
    profiled_convmixer: Path, size: tuple[int, int]
) -> None:
    app = GraphsApp(str(profiled_convmixer))
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot)
        assert screen.finding is not None and not isinstance(screen.target, Block)
        for by, name in (
            ("line", "models.py:16 "),
            ("module", "blocks.*.dw "),
            ("kernel", "conv2d_grouped_direct_kernel"),
            ("block", "models.py:16 blocks.*.dw conv2d x4"),
        ):
            await press(pilot, "S")
            assert isinstance(screen.target, Block) and label(screen.target).startswith("models.py:16")
            (row,) = (row for row in lines(app) if row.strip().startswith("▸") and "│" in row)
            assert name in row
            assert screen._view.content.text(screen._written.sides or 0).strip().startswith(name.strip())
            assert f"  by {by}" in text(app)
        await press(pilot, "right_square_bracket")
        assert screen.finding is not None


@SIZES
@pytest.mark.parametrize("here", [True, False], ids=["source", "quoted"])
async def test_enter_goes_to_a_blocks_line_or_to_what_torch_quotes_of_it(
    profiled_convmixer: Path, size: tuple[int, int], here: bool
) -> None:
    if not here:
        (profiled_convmixer.parent / "models.py").unlink()
    app = GraphsApp(str(profiled_convmixer))
    async with app.run_test(size=size) as pilot:
        await opened(pilot)
        await press(pilot, "S", "enter")
        await settle(pilot)
        if here:
            assert isinstance(app.screen, SourceScreen) and "▸16" in text(app).replace(" ", "")
        else:
            assert isinstance(app.screen, SourceScreen) and "models.py" in text(app)
            assert "▸16" in text(app).replace(" ", "") and "lines that torch quotes" in text(app)
        await press(pilot, "escape")
        assert isinstance(app.screen, ExplainScreen)


async def test_without_profiles_there_is_nothing_to_sum(convmixer: Path) -> None:
    app = GraphsApp(str(convmixer / "infer-default.run"))
    async with app.run_test(size=NARROW) as pilot:
        screen = await opened(pilot)
        assert screen.check_action("sum_sides", ()) is False
        await press(pilot, "S")
        assert screen._by == "block"


@SIZES
async def test_the_list_of_graphs_has_both_sides(profiled_convmixer: Path, size: tuple[int, int]) -> None:
    """All of it is one graph's: the devices' time of the profiled calls."""
    app = InspectorApp(str(profiled_convmixer))
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await press(pilot, "tab")
        shown = text(app)
        assert "eager → compiled" in shown and "op by op" not in shown
        assert any("model__0" in row and "eager 1.49 → 5.48 ms" in row for row in lines(app))
        assert "operators of one steady call, as profiled: eager 1.49 → 5.48 ms" in shown
