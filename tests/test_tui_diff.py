"""Two runs side by side on a screen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from tui_support import press, settle, text

from inspector.cli import cli
from inspector.comparison import Side, compare_sides
from inspector.present.diff_sides import Compared, both_sides, changes_table, detail_page
from inspector.present.rows import DifferenceRow
from inspector.readers.run import Run
from inspector.tui.app import InspectorApp
from inspector.tui.screens.diff import DiffScreen


@pytest.fixture(scope="module")
def pair(corpus: Path) -> tuple[Path, Path]:
    """One program on two machines: a kernel split in two, another merged."""
    return corpus / "cpu-torch2.13" / "breaks", corpus / "h200-torch2.11" / "breaks"


@pytest.fixture(scope="module")
def compared(pair: tuple[Path, Path]) -> Compared:
    a, b = (Side(Run.open(path)) for path in pair)
    return Compared(a, b, compare_sides(a, b))


def test_the_table_has_changes_only_or_all(compared: Compared) -> None:
    changes, everything = (changes_table(compared.diff, all_of_it) for all_of_it in (False, True))
    differing = [match for match in compared.diff.kernels if match.relation != "same"]
    graphs = [match for match in compared.diff.graphs if match.relation != "same"]
    assert changes.count == 1 + len(graphs) + len(differing)
    assert everything.count == 1 + len(compared.diff.graphs) + len(compared.diff.kernels)
    assert changes.count < everything.count


@pytest.mark.parametrize("width", [78, 140])
def test_no_row_of_both_sides_is_wider_than_the_view(compared: Compared, width: int) -> None:
    for number in range(len(compared.diff.kernels)):
        page = detail_page(compared, DifferenceRow("kernel", number), 0, width)
        assert page.width <= max(width, 80), page.title
    for shown in range(4):
        page = detail_page(compared, DifferenceRow("graph", 0), shown, width)
        assert page.count > 2


def test_lines_that_differ_in_names_only_stand_beside_each_other() -> None:
    rows = [line.text for line in both_sides("tmp0 = in_ptr0\ny = 1", "tmp7 = in_ptr3\ny = 2", 120)]
    assert rows[0] == "1 different line beside names"
    assert "tmp0 = in_ptr0" in rows[1]
    assert "tmp7 = in_ptr3" in rows[1]
    narrow = [line.text for line in both_sides("y = 1", "y = 2", 80)]
    assert narrow[1:] == ["- y = 1", "+ y = 2"]


def test_a_run_alone_shows_what_the_passes_changed(corpus: Path) -> None:
    """On the GPU a pass replaced amax and sum of a softmax by one operator."""
    run = corpus / "h200-torch2.11" / "softmax"
    shown = CliRunner().invoke(cli, ["diff", str(run)]).stdout
    assert "- " in shown
    assert re.search(r"^-.*aten\.amax", shown, re.M)
    assert re.search(r"^\+.*prepare_softmax_online", shown, re.M)
    assert CliRunner().invoke(cli, ["diff", str(run), "--json"]).exit_code != 0


async def test_n_goes_from_change_to_change(pair: tuple[Path, Path], compared: Compared) -> None:
    app = InspectorApp(str(pair[0]), against=str(pair[1]))
    async with app.run_test(size=(150, 45)) as pilot:
        await settle(pilot)
        assert isinstance(app.screen, DiffScreen)
        assert "kernel launches" in text(app)
        assert "Everything that differs" in text(app)
        await press(pilot, "n")
        assert "FX graph" in text(app)
        await press(pilot, "enter")
        assert "IR before fusion" in text(app)
        await press(pilot, "E")
        assert "extern_kernels.addmm" in text(app) or "Graphs and kernels" in text(app)
        await press(pilot, "G")
        before = app.screen.query_one("#diff-list").cursor  # type: ignore[attr-defined]
        await press(pilot, "N")
        after = app.screen.query_one("#diff-list")
        assert after.cursor < before  # type: ignore[attr-defined]
        row = after.key  # type: ignore[attr-defined]
        matches = compared.diff.graphs if row.kind == "graph" else compared.diff.kernels
        assert matches[row.number].relation != "same"
