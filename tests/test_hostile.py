"""Foreign text can't reach the terminal raw: every command and every screen on a run that tries."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hostile import LINE, hostile_run, owned
from sharing import unpacked
from tui_support import press, settle

from inspector.cli import app
from inspector.present.rows import AboutRow, EventRow, FindingRow, GraphRow
from inspector.tui.app import InspectorApp
from inspector.tui.screens.run import RunScreen
from inspector.tui.widgets.table_view import TableView

SAMPLE = Path(__file__).parents[1] / "sample_runs" / "breaks" / "run.tar.xz"
SEEDS = [0, 1, 2, 3]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(SAMPLE, tmp_path_factory.mktemp("breaks")) / "breaks"


@pytest.fixture(scope="module", params=SEEDS)
def run(request: pytest.FixtureRequest, sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile_run(sample, tmp_path_factory.mktemp("hostile"), request.param)


COMMANDS = (
    ("summary",),
    ("summary", "--json"),
    ("fusions", "--all"),
    ("fusions", "--all", "--json"),
    ("fusions", "--graph", "model__0", "--svg", "SVG", "--dot", "DOT"),
    ("fusions", "--graph", f"nothing{LINE}"),
    ("explain",),
    ("explain", "--all"),
    ("explain", "--json"),
    ("trace",),
    ("trace", "--json"),
    ("trace", "--kinds"),
    ("trace", "--compile-id", "0/0"),
    ("trace", "--compile-id", f"9/9{LINE}"),
    ("trace", "--show", "dynamo_output_graph"),
    ("trace", "--show", "dynamo_guards"),
    ("ir-diff",),
    ("replay",),
    (f"no such command{LINE}",),
)


@pytest.mark.parametrize("columns", ["80", "160"])
def test_what_commands_print(
    run: Path, columns: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    seen = 0
    for command, *options in COMMANDS:
        files = {name: tmp_path / name for name in ("SVG", "DOT")}
        arguments = [str(files.get(option, option)) for option in options]
        monkeypatch.setattr(sys, "argv", ["inspector", command, str(run), *arguments])
        code = app._run()
        out, err = (data.decode() for data in capfdbinary.readouterr())
        drawn = [path.read_text(encoding="utf-8") for path in files.values() if path.exists()]
        assert code in (0, 2), (command, options, err)
        assert not [owned(text) for text in (out, err, *drawn) if owned(text)], (command, options)
        assert len(err.splitlines()) <= 2
        seen += sum(text.count("x1b") + text.count("u001b") for text in (out, err, *drawn))
        if "--json" in options and code == 0:
            json.loads(out)
    assert seen > 100


def test_the_bytes_that_leave_the_program(sample: Path, tmp_path: Path) -> None:
    run = hostile_run(sample, tmp_path, 0)
    for command in ("summary", "replay"):
        words = [sys.executable, "-m", "inspector.cli", command, str(run)]
        done = subprocess.run(words, capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
        for stream in (done.stdout, done.stderr):
            assert not owned(stream.decode())
            assert not set(stream) & {*range(10), *range(11, 32), 127}
        assert b"x1b]0;owned" in (done.stdout or done.stderr)


def drawn(application: InspectorApp) -> str:
    return "\n".join(strip.text for strip in application.screen._compositor.render_strips(application.size))


async def test_what_screens_draw(run: Path) -> None:
    application = InspectorApp(str(run))
    shown: list[str] = []
    visited: set[str] = set()

    async with application.run_test(size=(160, 50)) as pilot:

        async def keys(*names: str) -> None:
            for name in names:
                await press(pilot, name)
                shown.append(drawn(application))
                visited.add(type(application.screen).__name__)

        async def on_row(kind: type, *names: str) -> None:
            """Back on the run's screen, on the first rows of that kind, then the keys."""
            while not isinstance(application.screen, RunScreen):
                application.pop_screen()
                await settle(pilot)
            table = application.screen.query_one("#graphs", TableView)
            rows = [number for number, row in enumerate(table.content.rows) if isinstance(row.key, kind)]
            for number in rows[:4]:
                table.move_to(number)
                await keys("tab", "tab")
            await keys(*names)

        await settle(pilot)
        await keys("number_sign")
        await on_row(AboutRow, "G")
        await on_row(FindingRow, "e", "j", "j", "j", "enter")
        await on_row(EventRow, "enter")
        await on_row(EventRow, "T", "j", "enter", "j", "j", "j")
        await on_row(GraphRow, "r", "n", "ctrl+p", "m", "o", "d", "e", "l", "escape", "enter")
        await keys("1", "tab", "2", "o", "3", "tab", "4", "j", "tab", "tab", "5")
        await keys("6", "j", "m", "m", "b", "b", "a", "7")
        screens: list[Any] = [*application.screen_stack, application]
        assert not owned("".join(f"{screen.title}{screen.sub_title}" for screen in screens))
    assert not set().union(*map(owned, shown))
    assert sum(text.count("x1b") for text in shown) > 50
    assert any("[red]x[/red]" in text for text in shown), "markup is text"
    assert visited >= {"RunScreen", "ExplainScreen", "SourceScreen", "TraceScreen", "GraphScreen"}
    assert visited >= {"ConfirmScreen", "CommandPalette"}
