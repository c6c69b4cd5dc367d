"""Captures started from the TUI: the form, the screen while it runs, stopping, quitting, the history."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from tui_support import GraphsApp, lines, press, settle, text, until
from waiting import is_running, wait_until, wait_until_gone

from inspector.capture import child
from inspector.present.capture import capture_options
from inspector.tui.app import InspectorApp
from inspector.tui.capturing import CaptureJob
from inspector.tui.screens.capture_form import CaptureFormScreen
from inspector.tui.screens.confirm import ConfirmScreen
from inspector.tui.screens.first import FirstScreen
from inspector.tui.screens.live import LiveScreen
from inspector.tui.screens.runs import RunsScreen
from inspector.tui.terminal import hung_up

NARROW = (80, 24)
WIDE = (160, 50)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def capture_of(app: InspectorApp) -> CaptureJob:
    """The first one started."""
    job = app.jobs[0]
    assert isinstance(job, CaptureJob)
    return job


def says_now(app: InspectorApp, words: str) -> bool:
    return words in " ".join(text(app).split())


async def type_command(pilot: Pilot[Any], command: str) -> None:
    """From the runs screen or start page: open the form and start a command."""
    await press(pilot, "c")
    assert isinstance(pilot.app.screen, CaptureFormScreen)
    pilot.app.screen.query_one("#form-command").value = command  # type: ignore[attr-defined]
    pilot.app.screen.query_one("#form-baseline").chosen = 0  # type: ignore[attr-defined]
    await press(pilot, "enter")
    if command:
        assert isinstance(pilot.app.screen, ConfirmScreen)
        assert "Run this command" in text(pilot.app)
        await pilot.press("y")


def script(content: str) -> str:
    Path("program.sh").write_text(textwrap.dedent(content))
    return "sh program.sh"


ENDLESS = "echo begun\ntouch ready\nwhile true; do sleep 0.1; done"


# -- to the end


@pytest.mark.slow
async def test_a_real_program_is_captured_watched_and_opened() -> None:
    Path("program.py").write_text(
        textwrap.dedent(
            """
            import os, time
            import torch
            @torch.compile
            def f(x):
                y = torch.softmax(x, -1)
                if y.sum() > 0:
                    y = y + 1
                return y.relu()
            for n in (8, 16):
                f(torch.randn(n, 10))
                print("step", n)
                while not os.path.exists("seen"):
                    time.sleep(0.05)
            """
        )
    )
    app = GraphsApp()
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await type_command(pilot, f"{sys.executable} program.py")
        await until(pilot, lambda: isinstance(app.screen, LiveScreen))
        seen: list[int] = []

        def watch() -> bool:
            seen.append(len(capture_of(app).sighting.entries))
            if seen[-1] and capture_of(app).live:
                Path("seen").touch()
            return isinstance(app.screen, FirstScreen)

        await until(pilot, watch)
        # Graphs came while the program ran, not all at its end: it waited until the first were seen.
        assert 0 in seen and seen == sorted(seen) and len(set(seen)) > 2
        await settle(pilot)
        assert "exit code 0" in lines(app)[-2]
        assert "2 graph breaks" in lines(app)[0]
        sighting, run_screen = capture_of(app).sighting, app.screen
        assert isinstance(run_screen, FirstScreen) and run_screen.session.facts is not None
        facts = run_screen.session.facts
        assert [entry.ident for entry in sighting.entries] == [place.name for place in run_screen.places()]
        assert len(sighting.graph_breaks) == len(facts.graph_breaks) == 2
        assert len(sighting.recompiles) == len(facts.recompiles) >= 1
        assert set(sighting.counts) == {place.name for place in run_screen.places()}
        await press(pilot, "escape")
        assert isinstance(app.screen, LiveScreen)
        assert "step 16" in text(app) and "exit code 0" in lines(app)[0]
        await pilot.resize_terminal(*NARROW)
        await settle(pilot)
        assert "step 16" not in text(app)
        await press(pilot, "tab")
        assert "step 16" in text(app) and "exit code 0" in lines(app)[0]
        await press(pilot, "escape", "escape")
        await settle(pilot)
        assert isinstance(app.screen, RunsScreen)
        assert "inspector_runs/" in text(app)


async def test_a_failing_program_is_opened_too_and_its_words_are_kept() -> None:
    app = GraphsApp()
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await type_command(pilot, script("echo went wrong >&2\nexit 4"))
        await until(pilot, lambda: isinstance(app.screen, FirstScreen))
        await settle(pilot)
        assert "captured: exit code 4: nothing was compiled before the command failed" in lines(app)[-2]
        await press(pilot, "escape")
        assert "went wrong" in text(app) and "exit code 4" in lines(app)[0]


# -- stopping


async def test_stop_interrupts_and_the_run_opens() -> None:
    app = GraphsApp()
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        await type_command(pilot, script(ENDLESS))
        await until(pilot, Path("ready").exists)
        await until(pilot, lambda: isinstance(app.screen, LiveScreen))
        await press(pilot, "escape")
        assert isinstance(app.screen, LiveScreen) and "x stops it" in lines(app)[-2]
        await press(pilot, "tab")
        assert "begun" in text(app)
        await press(pilot, "x")
        await until(pilot, lambda: isinstance(app.screen, FirstScreen))
        await settle(pilot)
        assert "captured: interrupted" in lines(app)[-2]
    (run,) = Path("inspector_runs").iterdir()
    assert json.loads((run / "inspector.json").read_text())["status"] == "interrupted"


async def test_the_second_stop_kills(monkeypatch: pytest.MonkeyPatch) -> None:
    # Patience does not end by itself.
    monkeypatch.setattr(child, "GRACE_SECONDS", 1e6)
    app = GraphsApp()
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        await type_command(pilot, script("trap 'echo no' INT TERM\n" + ENDLESS))
        await until(pilot, Path("ready").exists)
        await until(pilot, lambda: isinstance(app.screen, LiveScreen))
        await press(pilot, "tab", "x")
        await until(pilot, lambda: "kill" in lines(app)[-1] and "no" in text(app))
        await until(pilot, lambda: "stopping" in lines(app)[0])
        await press(pilot, "x")
        await until(pilot, lambda: isinstance(app.screen, FirstScreen))
        outcome = capture_of(app).outcome
        assert outcome is not None and outcome.exit_code == 137


async def test_the_screen_answers_while_the_program_prints_without_end() -> None:
    app = GraphsApp()
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await type_command(pilot, script("touch ready\nwhile true; do seq 1 2000; sleep 0.02; done"))
        await until(pilot, Path("ready").exists)
        await until(pilot, lambda: isinstance(app.screen, LiveScreen))
        await until(pilot, lambda: capture_of(app).output.document("o").count == 2000)
        await pilot.press("question_mark")
        assert "What can be done here" in text(app) and capture_of(app).live
        await pilot.press("escape", "x")
        await until(pilot, lambda: isinstance(app.screen, FirstScreen))


async def test_quitting_asks_and_leaves_nothing_behind() -> None:
    app = GraphsApp()
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        await type_command(pilot, script("echo $$ > pid\n" + ENDLESS))
        await until(pilot, Path("ready").exists)
        await until(pilot, lambda: isinstance(app.screen, LiveScreen))
        pid = int(Path("pid").read_text())
        await pilot.press("q")
        assert isinstance(app.screen, ConfirmScreen) and "A capture is running" in text(app)
        await press(pilot, "n")
        assert isinstance(app.screen, LiveScreen) and is_running(pid)
        await pilot.press("ctrl+q")
        assert isinstance(app.screen, ConfirmScreen)
        await pilot.press("y")
        await until(pilot, lambda: not app.is_running or app._exit)
    wait_until_gone(pid)
    (run,) = Path("inspector_runs").iterdir()
    assert json.loads((run / "inspector.json").read_text())["status"] == "interrupted"


DRIVER = """
import asyncio, fcntl, sys, termios
from inspector.tui import app as module
from inspector.capture.environment import CaptureOptions
from inspector.tui.capturing import CaptureJob

fcntl.ioctl(0, termios.TIOCSCTTY, 0)

class App(module.InspectorApp):
    def on_ready(self):
        options = CaptureOptions(("sh", "program.sh"), out=module.Path("run"))
        job = CaptureJob(options, "sh program.sh", (80, 24))
        self.jobs.append(job)
        job.start()
        self.set_interval(0.01, self.draw)

    def draw(self):
        for _ in range(40):
            self._driver.write(" ")

module.InspectorApp = App
module.run_tui(None)
"""
"""A TUI that owns its terminal, as in a window, captures at once, and draws more than a terminal takes in."""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["terminated", "closed"])
def test_a_program_ends_with_the_terminal(how: str) -> None:
    """Closing the window, or ending the TUI from outside, leaves no program behind and the run complete."""
    script("echo $$ > pid\n" + ENDLESS)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    os.close(theirs)
    os.set_blocking(ours, False)
    try:
        wait_until(drawn(ours, Path("ready").exists))
        pid = int(Path("pid").read_text())
        if how == "closed":
            os.close(ours)
            # As terminals do: the kernel's signal, and one of their own.
            process.send_signal(signal.SIGHUP)
            wait_until(lambda: process.poll() is not None)
        else:
            process.send_signal(signal.SIGTERM)
            wait_until(drawn(ours, lambda: process.poll() is not None))
            os.close(ours)
        wait_until_gone(pid)
        assert json.loads(Path("run/inspector.json").read_text())["status"] == "interrupted"
    finally:
        process.kill()
        process.wait()


def test_a_terminal_that_is_closed_is_seen_without_a_signal() -> None:
    """The kernel signals the session's first process alone, which may be make, and waits for us."""
    ours, theirs = pty.openpty()
    try:
        assert not hung_up(theirs)
        os.close(ours)
        assert hung_up(theirs)
    finally:
        os.close(theirs)


def drawn(terminal: int, what: Callable[[], object]) -> Callable[[], object]:
    """`what`; each time it is asked, what was drawn meanwhile is read, lest the program waits for room."""

    def asked() -> object:
        with suppress(OSError):
            os.read(terminal, 65536)
        return what()

    return asked


# -- the form


async def test_what_cannot_start_is_said_on_the_form() -> None:
    Path("used").mkdir()
    Path("used/file").touch()
    app = GraphsApp()
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        await type_command(pilot, "")
        await settle(pilot)
        assert "no command to capture" in text(app)
        for command, out, says in (
            ("no-such-program", "", "no-such-program: command not found"),
            ("true", "used", "is not empty: choose another folder"),
            ("python 'x", "", "close every quote"),
        ):
            app.screen.query_one("#form-command").value = command  # type: ignore[attr-defined]
            app.screen.query_one("#form-out").value = out  # type: ignore[attr-defined]
            await press(pilot, "enter")
            if isinstance(app.screen, ConfirmScreen):
                await pilot.press("y")
            await until(pilot, partial(says_now, app, says))
            assert isinstance(app.screen, CaptureFormScreen)
    assert not Path("inspector_runs").exists() and not Path("state").exists()


async def test_letters_are_typed_and_choices_are_chosen() -> None:
    app = GraphsApp()
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        await press(pilot, "c", *"qty?/")
        assert "quit" not in lines(app)[-1] and "f1 help" in lines(app)[-1]
        await press(pilot, "tab", "right", "right")
        assert "q quit" in lines(app)[-1]
        await press(pilot, "tab", *"r1", "tab", "tab", *"A=b")
        screen = app.screen
        assert isinstance(screen, CaptureFormScreen)
        assert screen.query_one("#form-command").value == "qty?/"  # type: ignore[attr-defined]
        values = screen.values()
        assert (values["mode"], values["out"], values["env"], values["record"]) == (2, "r1", "A=b", 0)
        await press(pilot, "f1")
        assert "Start the capture" in text(app)
        await press(pilot, "escape", "shift+tab", "escape")
        assert isinstance(app.screen, RunsScreen)


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])
async def test_the_baseline_is_offered_with_what_it_costs(size: tuple[int, int]) -> None:
    app = GraphsApp()
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await press(pilot, "c")
        (line,) = (line for line in lines(app) if "Baseline" in line)
        assert line.endswith("against eager: the command is run five times in all")
        screen = app.screen
        assert isinstance(screen, CaptureFormScreen)
        screen.query_one("#form-command").value = "true"  # type: ignore[attr-defined]
        for chosen in (1, 0):
            assert capture_options("true", screen.values()).baseline == bool(chosen)
            await press(pilot, "enter")
            assert isinstance(app.screen, ConfirmScreen)
            assert ("For the baseline the command" in " ".join(text(app).split())) == bool(chosen)
            await press(pilot, "n")
            screen.query_one("#form-baseline").chosen = 0  # type: ignore[attr-defined]


async def test_commands_come_back() -> None:
    app = GraphsApp()
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        for number in (1, 2):
            await type_command(pilot, f"sh -c 'exit {number}'")
            await until(pilot, lambda: isinstance(app.screen, FirstScreen))
            await press(pilot, "escape", "escape", "escape")
        await settle(pilot)
        # The start page has become a list of the runs made from it.
        assert "Runs · 2" in text(app) and text(app).count("inspector_runs/sh-") == 2
        await press(pilot, "c")
        assert "Captured before · 2" in text(app)
        command = app.screen.query_one("#form-command")
        await press(pilot, "x", "up")
        assert command.value == "sh -c 'exit 2'"  # type: ignore[attr-defined]
        await press(pilot, "up", "up", "down", "down")
        assert command.value == "x"  # type: ignore[attr-defined]
        await press(pilot, "shift+tab", "j", "enter")
        assert command.value == "sh -c 'exit 1'" and command.has_focus  # type: ignore[attr-defined]
