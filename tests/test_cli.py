"""The command line from outside: one line and an exit code for a mistake, JSON alone on standard output."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import PATIENCE_S

from inspector.cli import app
from inspector.cli.terminal import print_json


def inspector(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "inspector.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, **options)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["summary", "nowhere"], "nowhere: no such file or folder"),
        (["summary"], "Missing argument 'PATH'"),
        (["frobnicate"], "No such command 'frobnicate'"),
        (["explane", "nowhere"], "No such command 'explane'"),
        (["replay", "nowhere", "--rounds", "1"], "--rounds"),
        (["capture", "--env", "NAME", "--", "true"], "needs the form NAME=VALUE"),
        (["capture"], "COMMAND"),
        (["open", "nowhere"], "needs a terminal"),
        ([], "needs a terminal"),
        (["."], "needs a terminal"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments: list[str], words: str, tmp_path: Path) -> None:
    done = inspector(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr


def test_json_is_one_object_and_nothing_else(corpus: Path) -> None:
    for command in ("summary", "fusions", "trace"):
        done = inspector(command, str(corpus / "cpu-torch2.6.0" / "softmax"), "--json")
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["schema"] == f"inspector.{command}/1"


def test_json_has_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"error": float("nan"), "list": [float("inf"), 1.5], "inner": {"x": (2, None)}})
    assert json.loads(capsys.readouterr().out) == {
        "error": None,
        "list": [None, 1.5],
        "inner": {"x": [2, None]},
        "left_out": {},
        "next": [],
    }


def test_json_escapes_what_a_terminal_would_obey(capsys: pytest.CaptureFixture[str]) -> None:
    data = {"a\x9b": ["\u202eb\x1b\x7f", "größe → 漢字 🙂", "\U000e0041\udc80"]}
    print_json(data)
    shown = capsys.readouterr().out
    assert shown.replace("\n", "").isprintable() and "größe → 漢字 🙂" in shown
    assert json.loads(shown).items() >= data.items()


PROGRESS = """
from inspector.cli.terminal import progress
with progress() as tell:
    tell('[red]step\\x1b[2J')
    tell('on')
"""


def test_progress_is_a_spinner_on_a_terminal_and_nothing_in_a_pipe() -> None:
    ours, theirs = pty.openpty()
    child = subprocess.Popen([sys.executable, "-c", PROGRESS], stderr=theirs, stdout=theirs)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):
        while piece := os.read(ours, 65536):
            shown += piece
    os.close(ours)
    assert child.wait(PATIENCE_S) == 0 and b"on" in shown and b"\x1b[2J" not in shown
    done = subprocess.run([sys.executable, "-c", PROGRESS], capture_output=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_colours_are_never_forced_on_a_pipe(corpus: Path) -> None:
    run = str(corpus / "cpu-torch2.6.0" / "softmax")
    environment = {**os.environ, "FORCE_COLOR": "1", "COLORTERM": "truecolor", "CLICOLOR_FORCE": "1"}
    done = inspector("explain", run, env=environment)
    assert done.returncode == 0 and "\x1b" not in done.stdout


def test_a_defect_of_ours_is_a_line_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise ValueError("a name with \x1b]0;title\x07")

    codes: list[int] = []
    monkeypatch.setattr(app.cli, "main", fail)
    monkeypatch.setattr(app, "_leave", codes.append)
    # This process keeps its signals.
    monkeypatch.setattr(app, "remove_on_signals", lambda: None)
    app.main()
    error = capsys.readouterr().err
    assert codes == [1] and len(error.splitlines()) == 1 and "a defect of inspector: ValueError" in error
    assert r"\x1b]0;title\x07" in error and "\x1b" not in error


def test_a_graph_that_is_not_there_is_named_with_the_choices(corpus: Path) -> None:
    done = inspector("replay", str(corpus / "cpu-torch2.6.0" / "softmax"), "--graph", "model__9")
    assert done.returncode == 2
    assert "model__0_inference_0.0" in done.stderr


def test_a_run_of_another_machine_is_not_executed_unasked(corpus: Path) -> None:
    run = str(corpus / "cpu-torch2.6.0" / "softmax")
    done = inspector("replay", run, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1 and "--trust" in done.stderr


def test_a_kernel_that_is_not_there_and_a_source_without_a_kernel(corpus: Path, tmp_path: Path) -> None:
    run = str(corpus / "cpu-torch2.6.0" / "softmax")
    done = inspector("replay", run, "--trust", "--kernel", "no_such_kernel")
    assert done.returncode == 2 and "no kernel call no_such_kernel" in done.stderr
    done = inspector("replay", run, "--trust", "--source", str(tmp_path / "absent.cpp"))
    assert done.returncode == 2 and "--kernel" in done.stderr
    done = inspector("replay", run, "--trust", "--kernel", "0", "--source", str(tmp_path / "absent.cpp"))
    assert done.returncode == 2 and "absent.cpp cannot be read" in done.stderr


def test_text_survives_a_narrow_encoding(corpus: Path) -> None:
    run = str(corpus / "cpu-torch2.6.0" / "softmax")
    done = inspector("summary", run, env={"PYTHONIOENCODING": "latin-1", "PATH": ""}, encoding="latin-1")
    assert done.returncode == 0
    assert "5 -> 2" in done.stdout


def test_signs_stay_readable_where_there_is_only_ascii() -> None:
    story = Path(__file__).parents[1] / "sample_runs" / "stories" / "transformer_gpu" / "run.tar.xz"
    done = inspector("explain", str(story), env={"PYTHONIOENCODING": "ascii", "PATH": ""}, encoding="ascii")
    assert done.returncode == 0 and not done.stderr
    assert "1.29 ms compiled | 1.04 ms in eager" in done.stdout and "199 calls, +- 2 %" in done.stdout
    assert "-- Where one call goes ---" in done.stdout and "75 % #####" in done.stdout
    assert "60 -> 18" in done.stdout and "?" not in done.stdout


def test_unpacked_archives_are_removed(tmp_path: Path) -> None:
    archive = Path(__file__).parent / "data" / "cpu-torch2.6.0.tar.xz"
    done = inspector("summary", str(archive), env={"TMPDIR": str(tmp_path), "PATH": ""})
    assert done.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_looking_never_imports_torch(corpus: Path) -> None:
    """Even where torch is installed: it would cost ten times what looking does."""
    program = (
        "import sys\nfrom click.testing import CliRunner\nfrom inspector.cli import cli\n"
        "for command in ('summary', 'fusions', 'trace', 'ir-diff'):\n"
        "    result = CliRunner().invoke(cli, [command, sys.argv[1]])\n"
        "    assert result.exit_code == 0, result.output\n"
        "import inspector.tui.app\n"
        "print([name for name in ('torch', 'triton', 'numpy') if name in sys.modules])\n"
    )
    run = str(corpus / "cpu-torch2.6.0" / "softmax")
    words = [sys.executable, "-c", program, run]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_shell_completes_commands_options_and_paths() -> None:
    def completed(words: str, place: int) -> list[str]:
        environ = {
            **os.environ,
            "COMP_WORDS": words,
            "COMP_CWORD": str(place),
            "_INSPECTOR_COMPLETE": "bash_complete",
        }
        script = "import sys; sys.argv[0] = 'inspector'; from inspector.cli import main; main()"
        answer = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True)
        return answer.stdout.split()

    assert completed("inspector expl", 1) == ["plain,explain"]
    assert "plain,--try" in completed("inspector explain --", 2)
    assert completed("inspector open a/path", 2) == ["file,a/path"]


def test_a_closed_standard_output_is_no_error() -> None:
    sample = Path(__file__).parents[1] / "sample_runs" / "softmax" / "run.tar.xz"
    command = f'exec "{sys.executable}" -m inspector explain "{sample}" >&-'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_came_as_an_archive_is_tried_where_its_program_is() -> None:
    answer = inspector("explain", "sample_runs/stories/transformer_gpu/run.tar.xz").stdout
    assert 'where its program is, try mode="reduce-overhead"' in answer and "--try" not in answer
