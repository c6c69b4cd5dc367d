"""Foreign text can't reach the terminal raw: every command and every screen on a run that tries."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hostile import LINE, NAME, hostile_run, owned
from sharing import unpacked
from tui_support import GraphsApp, press, settle
from waiting import PATIENCE_S

from inspector.capture.history import remember
from inspector.cli import app
from inspector.cli.terminal import print_json, print_lines, say
from inspector.contract.doctor import to_json
from inspector.doctor.checks import diagnose
from inspector.files import cache_folder, state_folder
from inspector.model.doctor import Facts
from inspector.present.doctor import lines
from inspector.present.rows import AboutRow, EventRow, GraphRow
from inspector.present.spans import toned
from inspector.text import clean, crop, elide, is_printable, one_line
from inspector.tui.app import InspectorApp
from inspector.tui.navigation import Ask, CaptureTarget
from inspector.tui.screens.capture_form import CaptureFormScreen
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
        done = subprocess.run(words, capture_output=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL)
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
        await keys("question_mark", "escape", *("j",) * 20, "z", "escape", "tab")
        await keys("number_sign")
        await on_row(AboutRow, "G")
        await keys("e", "j", "j", "j", "enter")
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
    assert visited >= {
        "FirstScreen",
        "LineScreen",
        "RunScreen",
        "ExplainScreen",
        "SourceScreen",
        "TraceScreen",
        "GraphScreen",
    }
    assert visited >= {"ConfirmScreen", "CommandPalette"}


def test_every_control_and_hidden_character_is_escaped_and_no_flood_left() -> None:
    for made in (clean(LINE), clean(clean(LINE)), crop(LINE, 5000), elide(LINE, 5000), one_line(LINE)):
        assert not owned(made) and is_printable(made)
    for char in map(chr, range(0x110000)):
        assert char.isprintable() or char == "\t" or clean(char).isascii()
    mark = "\u0301"
    assert clean(f"x{mark * 9}y") == f"x{mark * 4}" + "\\u0301" * 5 + "y"
    for mark in ("\u0f74", "\u093f", "\u1173", "\u0670", "\U00010a01"):
        assert clean(f"x{mark * 20}y").count(mark) == 8, ascii(mark)
    letters = "\u1000\u103c\u1031\u102c\u1004\u1037\u103a \u0f66\u0f92\u0fb2\u0f74\u0f56"
    assert clean(letters) == letters
    letters = "e\u0301 \u0e01\u0e33 \U0001f468 \u2764\ufe0f"
    assert clean(letters) == letters


async def test_what_the_form_brings_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the history, of a value that was pasted, and of a question."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    remember(f"python train.py {LINE}", f"/tmp/{NAME}")
    application = GraphsApp(str(SAMPLE))
    async with application.run_test(size=(160, 50)) as pilot:
        await settle(pilot)
        form = CaptureFormScreen(CaptureTarget())
        application.push_screen(form)
        await settle(pilot)
        shown = [drawn(application)]
        form._command.action_recall(1)
        await settle(pilot)
        assert form._command.value.endswith(LINE)
        for _ in range(2):
            shown.append(drawn(application))
            application.post_message(Ask(f"q{LINE}", f"r{LINE}", lambda _yes: None))
            await settle(pilot)
        shown.append(drawn(application))
    assert not set().union(*map(owned, shown))
    assert sum("\ufffd" in text for text in shown) >= 2


QUOTING = (
    (f"gone{LINE}",),
    ("summary", f"gone{LINE}"),
    ("open", f"gone{LINE}"),
    ("replay", "RUN", "--graph", f"g{LINE}"),
    ("replay", "RUN", "--kernel", f"k{LINE}", "--trust"),
    ("replay", "RUN", "--kernel", "0", "--source", f"s{LINE}", "--trust"),
    ("repro", "RUN", "--kernel", f"k{LINE}", "--trust"),
    ("repro", "RUN"),
    ("explain", "RUN", "--try", f"t{LINE}"),
    ("explain", "RUN", "--measure"),
    ("explain", "RUN", "--profile", f"p{LINE}"),
    ("trace", "RUN", "--show", f"a{LINE}"),
    ("ir-diff", "RUN", "--graph", f"g{LINE}"),
    ("capture", "-o", f"o{LINE}", "--", f"c{LINE}"),
    ("capture", "--env", f"={LINE}", "--", "true"),
    ("capture", "--config", f"c{LINE}=1", "--", "true"),
    ("capture", f"--{LINE}"),
    ("capture", "--mode", LINE, "--", "true"),
)


@pytest.mark.parametrize("words", QUOTING, ids=[str(n) for n in range(len(QUOTING))])
def test_what_errors_quote(
    sample: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capfdbinary: Any, tmp_path: Path
) -> None:
    """Of the command line: a path that was dropped, a name that was pasted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        sys, "argv", ["inspector", *(str(sample) if word == "RUN" else word for word in words)]
    )
    assert app._run() == 2
    out, err = (data.decode() for data in capfdbinary.readouterr())
    assert not out and not owned(err) and len(err.splitlines()) == 1, err


def test_what_a_captured_program_and_its_environment_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any
) -> None:
    """The capture's own lines; what the program writes itself is the program's."""
    name = f"p{NAME}.py"
    (tmp_path / name).write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCH_LOGS_OUT", f"/tmp/{NAME}")
    monkeypatch.setenv("TORCH_TRACE", f"/tmp/{NAME}")
    given = ("--env", f"TORCH_COMPILE_DEBUG_DIR=x{LINE}", "-o", f"run{NAME}")
    monkeypatch.setattr(sys, "argv", ["inspector", "capture", *given, "--", sys.executable, name])
    assert app._run() == 3
    out, err = (data.decode() for data in capfdbinary.readouterr())
    assert not out and not owned(err) and "TORCH_TRACE=" in err and "x1b" in err
    for command in (["summary"], ["summary", "--json"], ["explain"]):
        monkeypatch.setattr(sys, "argv", ["inspector", *command, str(tmp_path / f"run{NAME}")])
        assert app._run() == 0
        out, err = (data.decode() for data in capfdbinary.readouterr())
        assert not owned(out) and not owned(err)


def test_what_a_profile_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any) -> None:
    events = [
        {"ph": "X", "cat": cat, "name": f"{n}{LINE}", "ts": n, "dur": 5, "pid": LINE, "args": {LINE: LINE}}
        for n in range(4)
        for cat in ("kernel", "cpu_op", "cuda_runtime", "user_annotation")
    ]  # fmt: skip
    path = tmp_path / f"trace{NAME}.json"
    path.write_text(
        json.dumps({"schemaVersion": 1, "deviceProperties": [{"name": LINE}], "traceEvents": events})
    )
    for words in (["open"], ["summary"], ["summary", "--json"]):
        monkeypatch.setattr(sys, "argv", ["inspector", *words, str(path)])
        code = app._run()
        out, err = (data.decode() for data in capfdbinary.readouterr())
        assert code == 0 and not owned(out) and not owned(err) and "x1b" in out.replace("u001b", "x1b")


def test_what_the_doctor_finds_in_variables(capfdbinary: Any) -> None:
    """And what a failing interpreter says of itself last."""
    variables = {"TORCHINDUCTOR_X": LINE, "TORCH_LOGS": LINE, "CUDA_VISIBLE_DEVICES": LINE, "CXX": LINE}
    sections: dict[str, dict[str, Any]] = {
        "environment": variables,
        "torch": {"failure": LINE, "version": LINE},
        "python": {"executable": LINE, "version": LINE, "system": LINE, "machine": LINE},
        "names": {"known": [LINE]},
        "cpp": {"failure": LINE, "compiler": LINE},
    }
    diagnosis = diagnose(Facts(sections))
    print_lines(lines(diagnosis, 100))
    text = capfdbinary.readouterr()[0].decode()
    print_json(to_json(diagnosis))
    data = capfdbinary.readouterr()[0].decode()
    assert not owned(text) and not owned(data) and text.count("x1b") > 5
    json.loads(data)


def test_no_line_commands_githubs_runner(monkeypatch: pytest.MonkeyPatch, capfdbinary: Any) -> None:
    evil = "::add-mask::x", "  ::error file=a::b", "a ##[add-matcher]/tmp/x", "a::b"
    for in_job in (True, False):
        if in_job:
            monkeypatch.setenv("GITHUB_ACTIONS", "true")
        else:
            monkeypatch.delenv("GITHUB_ACTIONS")
        print_lines([toned(text) for text in evil])
        for text in evil:
            say(text)
        out, err = (data.decode().splitlines() for data in capfdbinary.readouterr())
        obeyed = [line for line in (*out, *err) if line.lstrip().startswith("::") or "##[" in line]
        assert len(out) == len(err) == 4 and "a::b" in out and len(obeyed) == (0 if in_job else 6)


def test_a_user_without_a_name_and_a_home(
    sample: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any
) -> None:
    """A container that is started with a number for a user; and `~nobody` in a path."""

    def unknown(*_args: object) -> None:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", unknown)
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    for path, code in ((str(sample), 0), ("~no-such-user/run", 2)):
        monkeypatch.setattr(sys, "argv", ["inspector", "explain", path])
        assert app._run() == code
    assert b"defect" not in capfdbinary.readouterr()[1]
    assert not state_folder().exists() and not cache_folder().exists()
