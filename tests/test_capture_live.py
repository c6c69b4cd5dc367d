"""What a screen needs of a capture: a detached child, stop requests, what is seen so far, output as lines."""

from __future__ import annotations

import json
import os
import stat
import textwrap
import threading
from pathlib import Path

import pytest
from waiting import is_running, wait_until

from inspector.capture import history
from inspector.capture.environment import CaptureOptions
from inspector.capture.follow import RunFollower
from inspector.capture.launch import capture
from inspector.capture.progress import progress_text
from inspector.model.problem import InspectorError
from inspector.present.capture import FIELDS, capture_options
from inspector.readers.run import Run
from inspector.tui.capturing import CaptureJob
from inspector.tui.output import KEPT, OutputLines


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def started(script: str, **options: object) -> CaptureJob:
    """A capture of a shell script, in a thread as the TUI runs it."""
    Path("program.sh").write_text(textwrap.dedent(script))
    job = CaptureJob(CaptureOptions(("sh", "program.sh"), **options), "sh program.sh", (80, 24))  # type: ignore[arg-type]
    job.start()
    return job


def printed(job: CaptureJob) -> tuple[str, ...]:
    return job.output.document("Output").lines


def alive(pid_file: str) -> bool:
    return is_running(int(Path(pid_file).read_text()))


# -- the child


def test_a_capture_runs_in_a_thread_and_tells_how_it_ended() -> None:
    job = started("echo out; echo err >&2; exit 3", out=Path("run"))
    wait_until(lambda: not job.live)
    assert (job.state, job.outcome and job.outcome.exit_code) == ("ended", 3)
    assert {"out", "err"} < set(printed(job))
    assert printed(job)[-1].startswith("inspector: run saved in run")
    assert json.loads(Path("run/inspector.json").read_text())["status"] == "failed"
    assert Path("run/logs/stderr.txt").read_text().strip() == "err"


def test_a_detached_program_reads_nothing_and_has_no_terminal_of_ours() -> None:
    job = started(
        """
        if read line; then echo "read $line"; else echo nothing to read; fi
        if (: < /dev/tty) 2> /dev/null; then echo a terminal; else echo no terminal; fi
        if test -t 1; then echo prints to a terminal; fi
        if test $(cut -d' ' -f6 /proc/$$/stat) = $$; then echo a session of its own; fi
        stty size <&1
        """
    )
    wait_until(lambda: not job.live)
    assert printed(job)[:4] == (
        "nothing to read",
        "no terminal",
        "prints to a terminal",
        "a session of its own",
    )
    assert printed(job)[4] == "24 80"


def test_the_first_request_interrupts_and_the_second_kills_with_children() -> None:
    job = started(
        """
        trap 'echo told' INT TERM
        sleep 100 &
        echo $! > child
        echo ready > ready
        while true; do sleep 0.1; done
        """
    )
    wait_until(Path("ready").exists)
    job.stop()
    wait_until(lambda: "told" in printed(job))
    assert job.live and alive("child")
    job.stop()
    wait_until(lambda: not job.live)
    assert job.outcome is not None and job.outcome.interrupted and job.outcome.exit_code == 128 + 9
    wait_until(lambda: not alive("child"))


def test_an_interrupt_reaches_the_whole_group_as_from_a_terminal() -> None:
    Path("worker.sh").write_text(
        "trap 'echo worker told; exit' INT\ntouch ready\nwhile true; do sleep 0.1; done"
    )
    job = started("trap 'echo main told; exit 5' INT\nsh worker.sh\nexit 6")
    wait_until(Path("ready").exists)
    job.stop()
    wait_until(lambda: not job.live)
    assert {"worker told", "main told"} <= set(printed(job))
    assert job.outcome is not None and job.outcome.exit_code == 5


def test_leaving_ends_a_program_that_will_not_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inspector.tui.capturing._PATIENCE_SECONDS", 0.3)
    job = started("trap '' INT TERM; echo $$ > child; touch ready; while true; do sleep 0.1; done")
    wait_until(Path("ready").exists)
    job.end()
    assert not job.live and not alive("child")
    assert job.run is not None
    assert json.loads((job.run / "inspector.json").read_text())["status"] == "interrupted"


@pytest.mark.parametrize(
    ("command", "out", "says"),
    [
        (("no-such-program",), None, "no-such-program: command not found"),
        (("gone.py",), None, "gone.py: no such file"),
        (("true",), Path("used"), "is not empty"),
    ],
)
def test_what_cannot_start_is_one_line_and_leaves_nothing(
    command: tuple[str, ...], out: Path | None, says: str
) -> None:
    Path("used").mkdir()
    Path("used/file").touch()
    job = CaptureJob(CaptureOptions(command, out=out), " ".join(command), (80, 24))
    job.start()
    wait_until(lambda: not job.live)
    assert job.state == "failed" and job.run is None
    assert says in job.error and "\n" not in job.error
    assert not Path("inspector_runs").exists()


def test_a_stop_before_the_start_starts_nothing() -> None:
    job = CaptureJob(CaptureOptions(("touch", "done")), "touch done", (80, 24))
    job.stop()
    with pytest.raises(InspectorError, match="stopped before"):
        capture(job.options, display=job)
    assert not Path("done").exists() and not Path("inspector_runs").exists()


def test_threads_of_a_capture_end_with_it() -> None:
    before = threading.active_count()
    job = started("true")
    wait_until(lambda: not job.live)
    wait_until(lambda: threading.active_count() <= before)


# -- what is seen so far


def test_a_log_read_in_pieces_tells_what_it_tells_as_a_whole(corpus: Path) -> None:
    source = corpus / "cpu-torch2.13" / "breaks"
    whole = (
        source / "torch_logs.txt" if (source / "torch_logs.txt").exists() else source / "logs/torch_logs.txt"
    )
    data = whole.read_bytes()
    log = Path("run/logs/torch_logs.txt")
    log.parent.mkdir(parents=True)
    follower = RunFollower(Path("run"))
    assert follower.look().graph_breaks == ()
    for start in range(0, len(data), 7001):
        with log.open("ab") as file:
            file.write(data[start : start + 7001])
        seen = follower.look()
    facts = Run.open(source).facts()
    assert [event.text for event in seen.graph_breaks] == [event.text for event in facts.graph_breaks]
    assert [event.reasons for event in seen.recompiles] == [event.reasons for event in facts.recompiles]
    assert len(facts.graph_breaks) > 3 and len(facts.recompiles) > 1
    known = Run.open(source).compile_ids
    assert dict(seen.compile_ids) == {k: v for k, v in known.items() if k[0]}
    assert progress_text(seen, 3) == "0 graphs compiled · 6 graph breaks · 4 recompiles · 3 s"


# -- output


def test_output_is_what_a_terminal_would_have_left() -> None:
    lines = OutputLines()
    lines.feed("stdout", b"\x1b[1;31mred\x1b[0m\x1b]0;title\x07 text\r\n  1%\r 50%\r100%")
    assert lines.document("o").lines == ("red text", "100%")
    lines.feed("stdout", "\n\xe4".encode()[:2])
    lines.feed("stdout", "\xe4".encode()[1:])
    lines.feed("stderr", b"error\n")
    assert lines.document("o").lines == ("red text", "100%", "error", "\xe4")
    lines.say("ended")
    assert lines.document("o").lines == ("red text", "100%", "error", "\xe4", "ended")


def test_a_control_sequence_cut_in_two_is_not_shown() -> None:
    lines = OutputLines()
    lines.feed("stdout", b"a\x1b[3")
    assert lines.document("o").lines == ("a",)
    lines.feed("stdout", b"1mb\n")
    assert lines.document("o").lines == ("ab",)


def test_only_the_last_lines_are_kept_and_numbered_as_printed() -> None:
    lines = OutputLines()
    lines.feed("stdout", b"".join(b"%d\n" % number for number in range(KEPT + 10)))
    document = lines.document("o")
    assert (document.count, document.lines[0], document.first_number) == (KEPT, "10", 11)
    lines.feed("stdout", b"x" * 1_000_000)
    assert len(lines.document("o").lines[-1]) < 5_000


# -- the form


def test_words_become_options() -> None:
    options = capture_options(
        "OMP_NUM_THREADS=2 python 'my train.py' --lr 0.1",
        {
            "mode": 2,
            "config": "max_fusion_size=8 dynamo.verbose=True",
            "env": "A='b c'",
            "record": 1,
            "out": "~/x",
        },
    )
    assert options.command == ("python", "my train.py", "--lr", "0.1")
    assert options.env == (("OMP_NUM_THREADS", "2"), ("A", "b c"))
    assert options.mode == "reduce-overhead" and options.record is False and options.fresh is True
    assert options.config == (("max_fusion_size", "8"), ("dynamo.verbose", "True"))
    assert options.out == Path("~/x") and options.logs is None
    assert options.baseline is False and options.save_inputs is None
    options = capture_options("python x.py", {"baseline": 1, "save_inputs": 2, "fresh": 1})
    assert (options.baseline, options.save_inputs, options.fresh) == (True, 256 << 20, False)


@pytest.mark.parametrize(
    ("command", "values", "says"),
    [
        ("", {}, "no command to capture"),
        ("A=1", {}, "no command to capture"),
        ("python 'x", {}, "close every quote"),
        ("python x.py | tee log", {}, "bash -c"),
        ("inspector capture -- python x.py", {}, "only the program's own command"),
        ("python x.py", {"env": "A"}, "Variables: A: needs the form NAME=VALUE"),
        ("python x.py", {"config": "'"}, "Config: no closing quotation"),
    ],
)
def test_what_is_wrong_on_the_form_is_one_line(command: str, values: dict[str, str], says: str) -> None:
    with pytest.raises(InspectorError) as error:
        capture_options(command, values)
    assert says in str(error.value) and "\n" not in str(error.value)


def test_every_line_of_the_form_is_an_option_of_a_capture() -> None:
    assert {field.name for field in FIELDS} <= set(CaptureOptions.__dataclass_fields__)


# -- history


def test_commands_are_remembered_newest_first_and_those_of_this_folder_before_others() -> None:
    for command, folder in (("a", "/x"), ("b", "/y"), ("c", "/x"), ("a", "/x")):
        history.remember(command, folder)
    found = [(past.command, past.folder) for past in history.past_commands("/y")]
    assert found == [("b", "/y"), ("a", "/x"), ("c", "/x")]
    assert stat.S_IMODE(history.history_path().stat().st_mode) == 0o600
    assert set(json.loads(history.history_path().read_text())) == {"schema", "commands"}
    for number in range(history.KEPT + 5):
        history.remember(str(number), "/x")
    assert len(history.past_commands()) == history.KEPT


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"commands": [{"command": 1, "folder": "x"}]}', '{"commands": 3}']
)
def test_a_damaged_history_is_an_empty_one_and_is_mended(damage: str) -> None:
    path = history.history_path()
    path.parent.mkdir(parents=True)
    path.write_text(damage)
    assert history.past_commands() == ()
    history.remember("a", "/x")
    assert [past.command for past in history.past_commands()] == ["a"]
    assert os.listdir(path.parent) == [path.name]
