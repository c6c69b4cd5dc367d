"""What makes every screen easy: sorting and filtering tables, the way back and forward, a search in all
graphs, words explained, and lines of files that are elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tui_support import lines, press, settle, text

from inspector.tui.app import InspectorApp
from inspector.tui.screens.find import FindScreen
from inspector.tui.screens.first import FirstScreen
from inspector.tui.screens.graph import GraphScreen
from inspector.tui.screens.run import RunScreen
from inspector.tui.screens.runs import RunsScreen
from inspector.tui.screens.source import SourceScreen
from inspector.tui.widgets.code_view import CodeView
from inspector.tui.widgets.table_view import TableView
from inspector.tui.widgets.toned_view import TonedView

SAMPLES = Path(__file__).parents[1] / "sample_runs"
GPU = SAMPLES / "stories" / "transformer_gpu" / "run.tar.xz"


def column(table: TableView, title: str) -> list[str]:
    """The texts of a column that are there, top first."""
    (place,) = (
        number for number, item in enumerate(table.content.columns) if item.title.rstrip(" ↓↑") == title
    )
    return [row.cells[place].text for row in table.content.rows if row.cells[place].text.strip("· ")]


async def click_title(pilot: Any, table: TableView, title: str) -> None:
    """As a hand does it: on the letters, where they stand on the screen."""
    head = lines(pilot.app)[table.region.y + table.HEADER_ROWS - 1]
    await pilot.click(offset=(head.index(title), table.region.y + table.HEADER_ROWS - 1))
    await settle(pilot)


def by_time(texts: list[str]) -> list[float]:
    units = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
    return [float(number.replace(",", "")) * units[unit] for number, unit in map(str.split, texts)]


async def test_a_click_on_a_title_sorts_each_table_and_a_third_one_ends_it() -> None:
    app = InspectorApp(str(SAMPLES / "stories"))
    async with app.run_test(size=(120, 35)) as pilot:
        await settle(pilot)
        assert isinstance(app.screen, RunsScreen)
        table = app.screen.query_one(TableView)
        before = column(table, "run")
        await click_title(pilot, table, "a call")
        times = by_time(column(table, "a call"))
        assert len(times) > 5 and times == sorted(times, reverse=True)
        await click_title(pilot, table, "a call")
        times = by_time(column(table, "a call"))
        assert times == sorted(times)
        await click_title(pilot, table, "a call")
        assert column(table, "run") == before

    app = InspectorApp(str(GPU))
    async with app.run_test(size=(120, 35)) as pilot:
        await settle(pilot)
        await press(pilot, "4")
        table = app.screen.query_one("#kernels", TableView)
        assert "time ↓" in text(app)
        await click_title(pilot, table, "GB/s")
        rates = [float(item.replace(",", "")) for item in column(table, "GB/s")]
        assert len(rates) > 5 and rates == sorted(rates, reverse=True)
        # One order has one mark.
        assert "GB/s ↓" in text(app) and "time ↓" not in text(app)
        await press(pilot, "escape", "tab")
        table = app.screen.query_one(TableView)
        assert isinstance(app.screen, RunScreen)
        await click_title(pilot, table, "graph")
        assert "graph ↓" in text(app)


async def test_rows_with_what_was_searched_for_alone_and_all_again() -> None:
    app = InspectorApp(str(SAMPLES / "stories"))
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        table = app.screen.query_one(TableView)
        everything = table.content.count
        await press(pilot, "slash", *"transformer", "enter")
        await press(pilot, "&")
        assert column(table, "run") == ["transformer_gpu/run_reduce_overhead", "transformer_gpu"]
        assert "only “transformer”" in text(app)
        await press(pilot, "&")
        assert table.content.count == everything > 10


async def test_a_search_without_a_match_leaves_the_view_where_it_was() -> None:
    app = InspectorApp(str(SAMPLES / "transformer" / "run.tar.xz"))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await press(pilot, "3", "ctrl+d", "ctrl+d")
        view = app.screen.focused
        assert isinstance(view, CodeView | TableView)
        place, top = view.cursor, view.scroll_offset.y
        await press(pilot, "slash", *"qqq")
        assert "no match" in text(app)
        await press(pilot, "enter")
        assert (view.cursor, view.scroll_offset.y) == (place, top)


async def test_back_and_forward_go_to_the_same_places() -> None:
    app = InspectorApp(str(GPU))
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await press(pilot, "tab", "enter", "4")
        there = app.screen
        assert isinstance(there, GraphScreen)
        await press(pilot, "escape", "escape")
        assert isinstance(app.screen, FirstScreen)
        await press(pilot, "L")
        assert isinstance(app.screen, RunScreen)
        await press(pilot, "alt+right")
        assert isinstance(app.screen, GraphScreen) and app.screen.graph.ident == there.graph.ident
        await press(pilot, "L")
        assert isinstance(app.screen, GraphScreen), "there is no place behind the last one"


@pytest.mark.parametrize("width", [80, 120])
async def test_a_search_in_all_graphs_names_the_graph_of_each_line(width: int) -> None:
    app = InspectorApp(str(SAMPLES / "transformer" / "run.tar.xz"))
    async with app.run_test(size=(width, 30)) as pilot:
        await settle(pilot)
        await press(pilot, "*", *"gelu", "enter")
        assert isinstance(app.screen, FindScreen)
        shown = lines(app)
        for graph in ("model__0_forward_1.0", "model__0_backward_3.1"):
            rows = [row for row in shown if graph in row]
            assert rows and all("output_code.py:" in row and "gelu" in row for row in rows), rows
        await press(pilot, "enter")
        assert isinstance(app.screen, GraphScreen)
        view = app.screen.focused
        assert isinstance(view, CodeView) and "gelu" in view.content.text(view.cursor)


async def test_words_of_the_line_under_the_cursor_are_explained() -> None:
    app = InspectorApp(str(GPU))
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await press(pilot, *_down_to(app, "launching kernels (wrapper)"), "?")
        shown = text(app)
        assert "Words on this line" in shown
        assert "wrapper  The generated Python that allocates memory" in shown


async def test_of_a_file_that_is_elsewhere_the_lines_are_shown_that_torch_quotes(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = InspectorApp(str(corpus / "h200-torch2.11" / "llama_infer"))
    async with app.run_test(size=(200, 55)) as pilot:
        await settle(pilot)
        # The call in the user's program, where torch blames a function of a library.
        assert "workload.py" in text(app) and "(4, 384)" in text(app)
        await press(pilot, *_down_to(app, "modeling_llama.py:175"))
        shown = text(app)
        assert "modeling_llama.py is not on this machine: lines that torch quotes" in shown
        assert "175  down_proj = self.down_proj(" in shown
        await press(pilot, "enter")
        assert isinstance(app.screen, SourceScreen)
        view = app.screen.query_one(CodeView)
        assert view.content.text(view.cursor).strip().startswith("175  down_proj")


async def test_a_row_without_a_line_says_so_beside_it() -> None:
    app = InspectorApp(str(SAMPLES / "stories" / "matmuls" / "run.tar.xz"))
    async with app.run_test(size=(160, 50)) as pilot:
        await settle(pilot)
        assert "matmuls.py" in text(app)
        await press(pilot, *_down_to(app, "module 1: linear"))
        assert "No line of the program is known for this row." in text(app)


def _down_to(app: InspectorApp, words: str) -> list[str]:
    """The keys that lead the cursor of the first screen to the row that has these words."""
    view = app.screen.query_one("#answer", TonedView)
    row = next(number for number in range(view.content.count) if words in view.content.text(number))
    return ["j"] * (row - view.cursor)
