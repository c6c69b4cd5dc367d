"""Nothing of a stranger's run is executed unasked, whatever it claims: every command and every screen that can
execute something, on a folder and on an archive in which all that could be run leaves a trace (`canaries`)."""

# ruff: noqa: E501
from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from canaries import plant, silence, sung
from terminals import Terminal
from textual.pilot import Pilot
from tui_support import press, settle, text
from waiting import PATIENCE_S

from inspector.capture.history import PastCommand, past_commands, remember
from inspector.cli import cli
from inspector.cli.fleet import catalogue_at
from inspector.process import Child, own_command
from inspector.readers.run import Run
from inspector.replay.trust import foreign
from inspector.seal import seal
from inspector.trial.run import why_not
from inspector.tui import navigation as to
from inspector.tui.app import InspectorApp
from inspector.tui.replaying import ReplaySession
from inspector.tui.screens.capture_form import CaptureFormScreen
from inspector.tui.screens.confirm import ConfirmScreen
from inspector.tui.screens.first import FirstScreen
from inspector.tui.screens.index import IndexScreen
from inspector.tui.widgets.table_view import TableView

REFUSED = {
    "replay": [["replay", "RUN"], ["replay", "RUN", "--kernel", "0"]],
    "repro": [["repro", "RUN", "--kernel", "0"]],
    "explain": [["explain", "RUN", "--measure"], ["explain", "RUN", "--try", "modes"], ["explain", "RUN", "--try", "auto"]],
    "lower": [["lower", "RUN", "--make"], ["lower", "RUN", "--make", "--target", "sm_90", "--python", sys.executable]],
    "blame": [["blame", "RUN"], ["blame", "RUN", "RUN", "--metric", "kernels"], ["blame", "KNOWN", "RUN"]],
}  # fmt: skip
"""What runs code or the command, by command: refused where nobody can be asked."""

LOOKS = {
    "open": [["open", "RUN"]],
    "summary": [["summary", "RUN"]],
    "trace": [["trace", "RUN"]],
    "fusions": [["fusions", "RUN", "--all"]],
    "ir-diff": [["ir-diff", "RUN"]],
    "explain": [["explain", "RUN", "--all"]],
    "lower": [["lower", "RUN"]],
    "diff": [["diff", "RUN", "KNOWN"]],
    "export": [["export", "RUN", "--against", "KNOWN", "-o", "OUT/b.html"]],
    "report": [["report", "RUN"]],
    "pack": [["pack", "RUN", "-o", "OUT/a.tar.gz", "--inputs"], ["pack", "RUN", "-o", "OUT/b.tar.gz", "--no-source"]],
    "check": [["check", "RUN", "--budget", "OUT/budget.toml", "--write"]],
    "index": [["index", "PARENT", "-o", "OUT/index", "--jobs", "1"]],
    "query": [["query", "select * from runs", "-i", "OUT/index"]],
    "doctor": [["doctor", "--json"]],
}  # fmt: skip
"""What only looks; started in the run's own folder, as people do."""

ELSEWHERE = {"capture", "web", "mcp"}
"""What runs what the user names, serves the screens, and answers as a notebook does."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> Path:
    """A folder with `known`, this user's capture, and three of a stranger's: two folders, an archive."""
    place = tmp_path_factory.mktemp("unasked")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(place / "state"))
        known = place / "known"
        shutil.copytree(corpus / "cpu-torch2.13" / "softmax", known)
        manifest = {"schema": "inspector.run/1", "command": ["true"], "options": {"cwd": str(known)}}
        (known / "inspector.json").write_text(json.dumps(manifest))
        seal(known)
        assert foreign(Run.open(known)) is None and why_not(Run.open(known)) is None
    for name, seal_of in (("keyed", None), ("copied", known)):
        run = place / name / "run"
        shutil.copytree(corpus / "cpu-torch2.13" / "softmax", run)
        plant(run, place / "proof", seal_of)
    shutil.make_archive(str(place / "packed" / "run"), "gztar", place / "keyed", "run")
    return place


RUNS = {"keyed": "keyed/run", "copied": "copied/run", "archive": "packed/run.tar.gz"}


def started(made: Path, tmp_path: Path, run: str, words: list[str]) -> subprocess.CompletedProcess[str]:
    path = made / RUNS[run]
    places = {"RUN": str(path), "KNOWN": str(made / "known"), "PARENT": str(path.parent)}
    words = [places.get(word, word.replace("OUT/", f"{tmp_path}/")) for word in words]
    return subprocess.run(
        own_command(*words), cwd=path if path.is_dir() else path.parent, env=_environment(made),
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE_S,
    )  # fmt: skip


def _environment(made: Path) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(made / "state")}


def canaries(made: Path) -> list[str]:
    return sung(made / "proof")


def test_every_command_is_here() -> None:
    assert set(cli.commands) == {*REFUSED, *LOOKS, *ELSEWHERE}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_executes_refuses(made: Path, tmp_path: Path, run: str, name: str) -> None:
    for words in REFUSED[name]:
        done = started(made, tmp_path, run, words)
        assert done.returncode == 2 and "not known to be your capture" in done.stderr, (words, done.stderr)
        assert len(done.stderr.splitlines()) == 1, done.stderr
    assert canaries(made) == []


# What a folder is sealed with is asked for by what executes alone.
@pytest.mark.parametrize("run", ["keyed", "archive"])
@pytest.mark.parametrize("name", LOOKS)
def test_what_looks_executes_nothing(made: Path, tmp_path: Path, run: str, name: str) -> None:
    for words in (LOOKS["index"] if name == "query" else []) + LOOKS[name]:
        done = started(made, tmp_path, run, words)
        assert done.returncode in ((2,) if name == "open" else (0, 1)), (words, done.stderr)
        assert "defect" not in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert canaries(made) == []


@pytest.mark.parametrize("run", RUNS)
async def test_agents_and_notebooks_execute_nothing(made: Path, tmp_path: Path, run: str) -> None:
    """Also where running was allowed: that is for the user's own."""
    mcp = pytest.importorskip("mcp")
    folder = (made / RUNS[run]).parent
    name = (made / RUNS[run]).name
    command = own_command("mcp", str(folder), "--allow-run")
    server = mcp.StdioServerParameters(
        command=command[0], args=command[1:], cwd=made / RUNS[run] if run != "archive" else folder, env=_environment(made)
    )  # fmt: skip
    asked: dict[str, dict[str, Any]] = {
        "list_runs": {}, "summary": {"path": name}, "explain": {"path": name}, "why_not_fused": {"path": name},
        "compare": {"before": name, "after": name}, "kernel": {"path": name, "kernel": "none"},
    }  # fmt: skip
    async with mcp.Client(server) as client:
        for tool, arguments in asked.items():
            answer = await client.call_tool(tool, arguments)
            assert answer.is_error == (tool == "kernel"), (tool, answer)
        for setting in ("first", "modes", "auto"):
            answer = await client.call_tool("try_setting", {"path": name, "setting": setting})
            assert answer.is_error and "not known to be your capture" in answer.content[0].text, answer
    looked = (
        "import sys; sys.path[:] = [*filter(None, sys.path), sys.argv[2]]; import inspector\n"
        "run = inspector.open(sys.argv[1]); run._repr_html_(); run.explanation; run.json('fusions')\n"
        "run.kernels.to_dicts(); [graph.row for graph in run.graphs]"
    )
    subprocess.run(
        [sys.executable, "-c", looked, str(made / RUNS[run]), str(Path(__file__).parents[1])], check=True,
        cwd=server.cwd, env=_environment(made), timeout=PATIENCE_S,
    )  # fmt: skip
    assert canaries(made) == []


KEYS = ("r", "R", "t", "i", "I", "A", "B", "w", "x", "enter", "p", "o")
"""Those that lead to something being run, and a few others."""


def targets(session: ReplaySession) -> list[to.Target]:
    """Every screen of a run."""
    graph = next(graph for graph in session.run.graphs if graph.code() is not None)
    code = graph.code()
    assert code is not None
    call = next(call for call in code.calls if (kernel := code.kernel(call.kernel)) and kernel.source)
    panes = [to.GraphTarget(session, graph, pane) for pane in ("fx", "ir", "fusion", "code", "kernels")]
    return [
        to.RunTarget(session.run.located), to.GraphsTarget(session), to.ExplainTarget(session), *panes,
        to.BelowTarget(session, graph, call), to.TraceTarget(session.run), to.FindTarget(session, "e"),
        to.DiffTarget(session.run.located, session.run.located),
    ]  # fmt: skip


def _nothing_starts(made: Path, path: Path, patch: pytest.MonkeyPatch) -> list[str]:
    """In the run's own folder, with its editor: what is started is refused and listed."""
    started: list[str] = []

    def start(command: list[str], **_named: Any) -> Any:
        started.append(str(command))
        raise OSError("nothing is started here")

    patch.setattr(Child, "popen", staticmethod(start))
    patch.setenv("XDG_STATE_HOME", str(made / "state"))
    patch.setenv("EDITOR", str(made / "keyed" / "run" / "bin" / "editor"))
    patch.chdir(path if path.is_dir() else path.parent)
    return started


async def _all_keys(pilot: Pilot[Any]) -> list[str]:
    """Every key on the screen on top, with no to every question; the questions, each behind its key."""
    app, asked = pilot.app, []
    here = app.screen
    for key in KEYS:
        await press(pilot, key)
        while isinstance(app.screen, ConfirmScreen):
            asked.append(f"{key}: {text(app)}")
            await press(pilot, "n")
        if isinstance(app.screen, CaptureFormScreen):
            await press(pilot, "enter")
            asked.append(f"form: {text(app)}")
            assert isinstance(app.screen, ConfirmScreen)
            await press(pilot, "n", "escape")
        while app.screen is not here and len(app.screen_stack) > 1:
            app.pop_screen()
            await settle(pilot)
    return asked


@pytest.mark.parametrize("run", RUNS)
async def test_screens_start_nothing_before_the_question(
    made: Path, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every key that runs something, on every screen, with no to what is asked; whatever is started is heard of."""
    path = made / RUNS[run]
    started = _nothing_starts(made, path, monkeypatch)
    asked: list[str] = []
    app = InspectorApp(str(path))
    async with app.run_test(size=(140, 45)) as pilot:
        await settle(pilot)
        session = app.screen.session  # type: ignore[attr-defined]
        for target in targets(session):
            app.post_message(to.Open(target))
            await settle(pilot)
            asked += await _all_keys(pilot)
    assert started == [] and canaries(made) == []
    replays = [question for question in asked if question[0] in "rRiI"]
    assert replays and all("Only replay what you trust" in question for question in replays), asked
    assert not [question for question in asked if question.startswith("t")], (
        "a stranger's command is not tried"
    )
    commands = [question for question in asked if question.startswith("form")]
    assert bool(commands) == path.is_dir() and all(
        "not known to be your capture" in text for text in commands
    )


@pytest.mark.parametrize("listed", ["folder", "index"])
async def test_lists_of_runs_start_nothing(
    made: Path, listed: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Screens of many runs, a stranger's index among them, and what a row leads to."""
    folder = made / "keyed"
    index = _index_of(made, folder, tmp_path / "index")
    started = _nothing_starts(made, folder / "run", monkeypatch)
    catalogue = catalogue_at(str(index))
    assert catalogue is not None
    app = InspectorApp(str(folder)) if listed == "folder" else InspectorApp(catalogue=catalogue)
    if listed == "folder":
        shutil.copytree(made / "copied" / "run", folder / "other")
        app = InspectorApp(str(folder))
    async with app.run_test(size=(140, 45)) as pilot:
        await settle(pilot)
        opened = 0
        for _ in range(len(catalogue.questions) if listed == "index" else 2):
            first = app.screen
            assert not isinstance(first, FirstScreen)
            await _all_keys(pilot)
            # The row under the cursor: of an index the answer's, else the run itself.
            if isinstance(first, IndexScreen):
                first.focus_view(first.query_one("#answers", TableView))
            await press(pilot, "enter")
            if isinstance(app.screen, FirstScreen):
                opened += 1
                asked = await _all_keys(pilot)
                assert any("Only replay what you trust" in question for question in asked), asked
            while app.screen is not first:
                app.pop_screen()
                await settle(pilot)
            if isinstance(first, IndexScreen):
                first.focus_view(first.query_one("#questions", TableView))
            await press(pilot, "j")
    assert opened > 1 and started == [] and canaries(made) == []


def _index_of(made: Path, folder: Path, index: Path) -> Path:
    """An index with modules in it, which somebody else has made."""
    pytest.importorskip("duckdb")
    words = own_command("index", str(folder), "-o", str(index), "--jobs", "1")
    subprocess.run(words, check=True, env=_environment(made), capture_output=True, timeout=PATIENCE_S)
    for module in (folder / "run").glob("*.py"):
        shutil.copy(module, index)
    return index


STEPS = ((b"R", b"Only replay"), (b"n", b"not replayed"), (b"e", b"measure"), (b"R", b"not measured"))
"""On a run's first screen: replay it, no to the question, explain it, and measure it there, where a stranger's times
are not taken at all; what is drawn after each key."""


@pytest.mark.parametrize("words", [["open", "RUN"], ["open", "ARCHIVE"], [], ["open", "INDEX"]])
def test_a_terminal_in_the_runs_own_folder(made: Path, tmp_path: Path, words: list[str]) -> None:
    """The program as people start it, with the run's modules beside it."""
    places = {"RUN": str(made / RUNS["keyed"]), "ARCHIVE": str(made / RUNS["archive"])}
    folder = made / RUNS["keyed"]
    if "INDEX" in words:
        places["INDEX"] = str(folder := _index_of(made, made / "keyed", tmp_path / "index"))
    command = own_command(*(places.get(word, word) for word in words))
    terminal = Terminal(command, folder, {**_environment(made), "TERM": "xterm-256color"})
    if listed := b"compiled_ms" if "INDEX" in words else b"captured" if not words else b"":
        terminal.read(listed)
        os.write(terminal.descriptor, b"\t\r" if "INDEX" in words else b"\r")
    terminal.read(b"explain")
    for key, drawn in STEPS:
        terminal.type(key, drawn)
    os.write(terminal.descriptor, b"q")
    terminal.read()
    assert terminal.close() == 0 and canaries(made) == []


ODD = """-o 'a" $(touch heard)`touch heard`;touch heard&\n<script>heard()</script>"""
"""A folder's name that says something to a program's options, a shell and a page."""


async def test_a_page_starts_nothing_and_asks(made: Path, tmp_path: Path) -> None:
    """Served from a stranger's folder, a run in it under an odd name; the keys of the terminal, through the page."""
    aiohttp = pytest.importorskip("aiohttp")
    pytest.importorskip("textual_serve")
    folder = shutil.copytree(made / RUNS["keyed"], tmp_path / "run")
    shutil.copytree(made / RUNS["keyed"], folder / ODD)
    server = subprocess.Popen(
        own_command("web", "--", ODD), cwd=folder, env=_environment(made), text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert server.stderr is not None
        address = server.stderr.readline().strip()
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE_S)) as session:
            async with session.get(address) as answer:
                assert answer.status == 200 and "heard" not in await answer.text()
            async with session.ws_connect(
                f"ws{address.removeprefix('http')}ws?width=120&height=40"
            ) as socket:
                for key, drawn in ((b"", b"explain"), *STEPS):
                    # An empty packet ends what reads the driver's input.
                    if key:
                        await socket.send_json(["stdin", key.decode()])
                    shown = b""
                    while drawn not in shown:
                        message = await asyncio.wait_for(socket.receive(), PATIENCE_S)
                        assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT), shown
                        shown += message.data if isinstance(message.data, bytes) else message.data.encode()
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=PATIENCE_S)
    assert not (folder / "heard").exists() and canaries(made) == []


ANSWERS = "y  yes        n  no"


@pytest.mark.parametrize(
    "argument", [f"\n{ANSWERS}\n", "\n" * 80, "a" * 6000, "\ud800", "[@click=app.quit]x[/]"], ids=range(5)
)
@pytest.mark.parametrize("door", ["again", "history"])
async def test_a_command_is_asked_for_whatever_it_says(
    made: Path, tmp_path: Path, door: str, argument: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts nothing, stands in one paragraph, and leaves what is said of it and the answers in sight."""
    run = shutil.copytree(made / RUNS["keyed"], tmp_path / "run")
    manifest = json.loads((run / "inspector.json").read_text())
    manifest.update(command=["true", argument], options={"cwd": str(run)})
    (run / "inspector.json").write_text(json.dumps(manifest))
    started = _nothing_starts(made, run, monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    remember(f"true '{argument}'", str(run))
    app = InspectorApp(str(run))
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        if door == "again":
            await press(pilot, "A")
        else:
            app.post_message(to.Open(to.CaptureTarget()))
            await settle(pilot)
            await press(pilot, "up")
        assert isinstance(app.screen, CaptureFormScreen)
        await press(pilot, "enter")
        asked = text(app)
        assert isinstance(app.screen, ConfirmScreen)
        await press(pilot, "enter")
    # The form's own lines stand beside the frame.
    lines = [line.split("│")[1].strip() for line in asked.splitlines() if "│" in line]
    assert lines.count(ANSWERS) == 1, asked
    assert "Run this command" in asked and ("not known to be your capture" in asked) == (door == "again"), (
        asked
    )
    assert started == [] and canaries(made) == []


def test_a_command_is_kept_whatever_its_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder's name need not be UTF-8; what a run claims need not even be a name."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    odd = PastCommand("true \udc80 \ud800 \u00e9\n", "/tmp/\udcff")
    remember(odd.command, odd.folder)
    assert past_commands() == (odd,)
    assert os.listdir(tmp_path / "inspector") == ["commands.json"]


@pytest.mark.avx512
@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["replay", "RUN", "--trust", "--no-kernels"], ["repro", "RUN", "--trust", "--kernel", "0"]]
)
def test_the_canaries_sing_where_somebody_trusts(made: Path, tmp_path: Path, words: list[str]) -> None:
    """Else a test that hears none would show nothing."""
    silence(made / "proof")
    try:
        done = started(made, tmp_path, "keyed", words)
        assert "output_code.py" in canaries(made), done.stderr
    finally:
        silence(made / "proof")
