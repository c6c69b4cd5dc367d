"""The supervisor, with real processes: what ends a child ends all of it, and how it ended is told rightly."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest
from waiting import PATIENCE_S, wait_until_gone

from inspector import proc, process, temporary
from inspector.process import PIPE, Child, Ending, Limits, Lines, output_of, python_child

SOON_S = PATIENCE_S

IGNORING = "from signal import *; signal(SIGTERM, SIG_IGN); signal(SIGINT, SIG_IGN)"
SLEEPING = "import time; print('ready', flush=True); time.sleep(600)"
GRANDCHILD = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session={apart})
print(child.pid, flush=True)
{then}
"""


def python(program: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(program)]


def followed(program: str, limits: Limits | None = None, **how: object) -> Ending:
    return Child(python(program), **how).follow(limits or Limits(SOON_S))  # type: ignore[arg-type]


class When:
    """A sink that acts once on the first line."""

    def __init__(self, act: Callable[[str], object]) -> None:
        self.line = ""
        self._act = act

    def __call__(self, data: bytes) -> None:
        if not self.line:
            self.line = data.decode().split("\n")[0]
            self._act(self.line)


def test_an_exit_code_both_streams_in_order_and_the_last_line() -> None:
    ending = followed(
        """
        import sys
        print("first", flush=True); print("second", file=sys.stderr, flush=True); print("third", flush=True)
        sys.exit(3)
        """
    )
    assert (ending.code, ending.shell_code, ending.signal) == (3, 3, None)
    assert ending.tail.split() == ["first", "second", "third"]
    assert ending.last_line == "third" and not ending.stopped and ending.timed_out is None
    assert ending.seconds > 0


def test_streams_go_where_they_are_sent(tmp_path: Path) -> None:
    said: list[bytes] = []
    with (tmp_path / "out").open("wb") as file:
        ending = followed(
            "import sys; print('out'); print('err', file=sys.stderr)", stdout=file, stderr=said.append
        )
    assert (tmp_path / "out").read_text() == "out\n"
    assert b"".join(said) == b"err\n" and ending.tail == ""
    assert followed("print('lost')", stdout="drop").tail == ""


def test_an_extra_pipe_brings_whole_lines() -> None:
    lines: list[bytes] = []
    program = """
        import os, sys
        pipe = int(sys.argv[1])
        os.write(pipe, b"one\\ntw"); os.write(pipe, b"o\\ncut sho")
        print("beside it")
        os._exit(0)
        """
    ending = Child([*python(program), PIPE], pipe=Lines(lines.append)).follow(Limits(SOON_S))
    assert lines == [b"one", b"two"] and ending.code == 0


def test_a_line_without_end_is_not_kept() -> None:
    lines: list[bytes] = []
    take = Lines(lines.append, most=10)
    for part in (b"short\nvery", b" very long", b"er\nnext\n", b"tail"):
        take(part)
    assert lines == [b"short", b"next"]


def test_a_folder_whose_maker_was_killed_goes_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("made-left", "made-other"):
        (tmp_path / name / "inner").mkdir(parents=True)
    (tmp_path / "made-left" / temporary._LOCK).touch()
    with temporary.temporary_folder("made-") as first, temporary.temporary_folder("made-") as second:
        assert first != second and first.is_dir() and not (tmp_path / "made-left").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["made-other"], "not known to be anybody's"


def test_memory_has_a_limit() -> None:
    program = "kept = []\nwhile True: kept.append(bytearray(b'x') * (1 << 20))"
    assert followed(program, Limits(SOON_S, memory_bytes=256 << 20)).timed_out == "memory"


def test_all_of_a_large_output_arrives() -> None:
    chunks: list[bytes] = []
    followed("import sys; sys.stdout.write('x' * 3_000_000 + 'end')", stdout=chunks.append)
    text = b"".join(chunks)
    assert len(text) == 3_000_003 and text.endswith(b"end")


def test_a_signal_is_told_by_name() -> None:
    ending = followed("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert ending.signal == "SIGSEGV" and ending.code == -signal.SIGSEGV
    assert ending.shell_code == 128 + signal.SIGSEGV
    assert Ending(-63, 0.0).signal == "signal 63"


def test_the_time_limit() -> None:
    ending = followed(SLEEPING, Limits(0.5))
    assert ending.timed_out == "overall" and ending.signal == "SIGKILL"


def test_a_step_has_a_limit_of_its_own_from_where_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(SOON_S)

    def take(line: bytes) -> None:
        limits.mark(0.5 if line == b"short" else SOON_S)

    steps = "import time\nprint('long\\nshort', flush=True); time.sleep(600)"
    assert followed(steps, limits, stdout=Lines(take)).timed_out == "step"
    limits.mark()
    assert limits.exceeded(os.getpid()) is None
    clock = [100.0]
    monkeypatch.setattr("inspector.process.time.monotonic", lambda: clock[0])
    limits = Limits(SOON_S)
    for step_s, takes, exceeded in (9.0, 8.0, None), (1.0, 0.9, None), (9.0, 8.0, None), (1.0, 1.1, "step"):
        limits.mark(step_s)
        clock[0] += takes
        assert limits.exceeded(os.getpid()) == exceeded


def test_the_overall_limit_may_change_while_it_runs() -> None:
    limits = Limits()
    ending = followed(SLEEPING, limits, stdout=When(lambda line: setattr(limits, "overall_s", 0.0)))
    assert ending.timed_out == "overall"


def test_should_stop() -> None:
    asked: list[float] = []

    def should_stop() -> bool:
        asked.append(time.monotonic())
        return len(asked) > 2

    ending = Child(python(SLEEPING)).follow(should_stop=should_stop)
    assert ending.stopped and ending.timed_out is None and ending.signal == "SIGKILL"
    assert len(asked) == 3, "nobody is asked again"


def test_signals_in_steps_until_one_works() -> None:
    child = Child(
        python(f"{IGNORING}; {SLEEPING}"),
        stdout=When(
            lambda line: child.end(((0, signal.SIGINT), (0.1, signal.SIGTERM), (0.3, signal.SIGKILL)))
        ),
    )
    ending = child.follow(Limits(SOON_S))
    assert ending.stopped and ending.signal == "SIGKILL"


def test_a_child_that_obeys_is_left_to_clean_up() -> None:
    program = """
        import signal, sys, time
        def stop(number, frame):
            print("cleaned up", flush=True)
            sys.exit(7)
        signal.signal(signal.SIGTERM, stop)
        print("ready", flush=True)
        time.sleep(600)
        """
    said: list[bytes] = []
    when = When(lambda line: child.end(((0, signal.SIGTERM), (SOON_S, signal.SIGKILL))))

    def take(data: bytes) -> None:
        said.append(data)
        when(data)

    child = Child(python(program), stdout=take)
    ending = child.follow(Limits(2 * SOON_S))
    assert ending.code == 7 and b"cleaned up" in b"".join(said)


def test_a_later_request_takes_the_place_of_an_earlier_one() -> None:
    def first(line: str) -> None:
        child.end(((0, signal.SIGTERM), (600, signal.SIGKILL)))
        child.end()

    child = Child(python(f"{IGNORING}; {SLEEPING}"), stdout=When(first))
    assert child.follow(Limits(SOON_S)).timed_out is None


def test_end_may_be_called_from_another_thread() -> None:
    child = Child(python(SLEEPING))
    threading.Timer(0.2, child.end).start()
    assert child.follow(Limits(SOON_S)).stopped


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("own_session", [False, True])
def test_a_grandchild_dies_too_wherever_it_went(apart: bool, own_session: bool) -> None:
    when = When(lambda line: child.end())
    program = GRANDCHILD.format(apart=apart, then="time.sleep(600)")
    child = Child(python(program), stdout=when, own_session=own_session)
    assert child.follow(Limits(SOON_S)).signal == "SIGKILL"
    wait_until_gone(int(when.line))


@pytest.mark.parametrize(("sweep", "apart"), [(False, False), (True, False), (True, True)])
def test_what_a_child_leaves_behind_when_it_ends(sweep: bool, apart: bool) -> None:
    when = When(lambda line: None)
    # The grandchild holds the pipe open: its words are not awaited.
    ending = followed(GRANDCHILD.format(apart=apart, then=""), stdout=when, sweep=sweep)
    assert ending.code == 0 and ending.timed_out is None
    if sweep and (not apart or sys.platform == "linux"):
        wait_until_gone(int(when.line))
    else:
        os.kill(int(when.line), signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="whoever left the group is found by Linux's /proc")
def test_who_is_being_started_when_the_child_ends_dies_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its environment is empty for a moment, as a program's is before its first instruction."""
    looks: list[int] = []
    environments = proc.environments

    def starting() -> Iterator[tuple[int, bytes]]:
        looks.append(0)
        for pid, text in environments():
            yield pid, b"" if len(looks) < 3 and b"INSPECTOR" in text else text

    def without(pid: int) -> Iterator[tuple[int, bytes]]:
        looks.append(0)
        yield pid, b""

    monkeypatch.setattr(proc, "environments", starting)
    when = When(lambda line: None)
    assert followed(GRANDCHILD.format(apart=True, then=""), stdout=when, sweep=True).code == 0
    wait_until_gone(int(when.line))
    # One that had none before the child began is no reason to wait.
    looks.clear()
    monkeypatch.setattr(proc, "environments", partial(without, 1))
    assert followed("pass", sweep=True).code == 0 and len(looks) == 1


def test_endless_output_is_read_to_no_end_and_kept_in_part() -> None:
    limits = Limits(SOON_S)
    program = """
        import os, sys
        while True:
            sys.stdout.write("x" * 1000)
            os.write(int(sys.argv[1]), b"more")
        """
    child = Child([*python(program), PIPE], pipe=When(lambda line: limits.mark(0.3)))
    ending = child.follow(limits)
    assert ending.timed_out == "step" and 0 < len(ending.tail) <= 16_000


def test_endless_output_of_somebody_else_does_not_keep_us() -> None:
    program = """
        import subprocess, sys, time
        endless = "while True: print('x' * 1000)"
        child = subprocess.Popen([sys.executable, "-c", endless], start_new_session=True)
        print(child.pid, file=sys.stderr, flush=True)
        time.sleep(0.5)
        """
    when = When(lambda line: None)
    chunks: list[bytes] = []

    def take(data: bytes) -> None:
        chunks.append(data)
        time.sleep(0.02)
        assert len(chunks) < 50 * SOON_S, "still reading"

    assert followed(program, stdout=take, stderr=when).code == 0
    # Nobody reads what it writes any more.
    wait_until_gone(int(when.line))


def test_a_callback_that_raises_takes_the_child_along() -> None:
    child = Child(python(SLEEPING), stdout=When(lambda line: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        child.follow()
    assert not child.running


def test_ctrl_c_kills_the_child_and_goes_on() -> None:
    program = f"""
        import sys
        from inspector.process import Child
        child = Child([sys.executable, "-c", {GRANDCHILD.format(apart=True, then="time.sleep(600)")!r}],
                      stdout=lambda data: print(child._process.pid, data.decode(), end="", flush=True))
        try:
            child.follow()
        except KeyboardInterrupt:
            print("interrupted", child.running)
        """
    with subprocess.Popen(python(program), stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        parent.send_signal(signal.SIGINT)
        assert parent.stdout.read().split() == ["interrupted", "False"]
    assert len(pids) == 2
    wait_until_gone(*pids)


def descriptors() -> int:
    """Those of this process, without what earlier tests have left to be collected."""
    gc.collect()
    return psutil.Process().num_fds()


def test_a_command_that_cannot_be_started_leaves_nothing_open(tmp_path: Path) -> None:
    before = descriptors()
    for _ in range(3):
        with pytest.raises(FileNotFoundError):
            Child([str(tmp_path / "none"), PIPE], pipe=lambda data: None, stdin="held")
        with pytest.raises(FileNotFoundError):
            Child([sys.executable], cwd=tmp_path / "none")
    assert descriptors() == before


def test_a_child_leaves_nothing_open() -> None:
    before = descriptors()
    for _ in range(3):
        followed("print(1)", pipe=lambda data: None, stdin="held")
        followed(SLEEPING, Limits(0.05))
    assert descriptors() == before


def test_output_of_a_command() -> None:
    assert output_of(python("print('yes')"), SOON_S) == b"yes\n"
    assert output_of(python("print('no'); import sys; sys.exit(1)"), SOON_S) is None
    assert output_of(python(SLEEPING), 0.3) is None
    assert output_of(["/no/such/program"], SOON_S) is None
    own = output_of(
        python("import os; print(os.environ.get('HOME'), os.environ['OWN'])"), SOON_S, {"OWN": "1"}
    )
    assert own == b"None 1\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Takes the place of Inspector's own package for `python_child`."""
    folder = tmp_path / "inspector"
    folder.mkdir()
    (folder / "__init__.py").write_text("NAME = 'a package'")
    monkeypatch.setattr(process, "__file__", str(folder / "process.py"))
    return folder


def test_a_python_child_runs_a_module_and_puts_nothing_on_the_path(package: Path) -> None:
    for name in ("json", "torch"):
        (package / f"{name}.py").write_text("raise SystemExit('taken for the library')")
        (package.parent / f"{name}.py").write_text("raise SystemExit('taken for the library')")
    (package / "program.py").write_text(
        "import json, sys\nfrom inspector import NAME\n"
        "print(json.dumps([NAME, sys.argv[1:], sys.stdin.read(), __name__, sys.path]))"
    )
    command = python_child(None, "inspector.program", "a", "b")
    ending = Child(command, cwd=package.parent, stdin="held").follow(Limits(SOON_S))
    assert ending.code == 0, ending.tail
    *said, path = json.loads(ending.tail)
    assert said == ["a package", ["a", "b"], "", "__main__"]
    assert not [folder for folder in path if folder.startswith(str(package.parent)) or not folder]


def test_a_python_child_dies_with_us_and_takes_its_group_along(package: Path) -> None:
    (package / "program.py").write_text(GRANDCHILD.format(apart=False, then="time.sleep(600)"))
    program = f"""
        from inspector import process
        process.__file__ = {str(package / "process.py")!r}
        command = process.python_child(None, "inspector.program")
        child = process.Child(command, stdin="held", stdout=lambda data: print(
            child._process.pid, data.decode(), end="", flush=True))
        child.follow()
        """
    with subprocess.Popen(python(program), stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        os.kill(parent.pid, signal.SIGKILL)
    assert len(pids) == 2
    wait_until_gone(*pids)


def test_closing_its_own_input_ends_no_python_child(package: Path) -> None:
    (package / "program.py").write_text("import os, time; os.close(0); time.sleep(0.3); print('alive')")
    child = Child(python_child(None, "inspector.program"), stdin="held")
    assert child.follow(Limits(SOON_S)).tail == "alive"


def test_only_modules_of_ours_come_from_the_package(package: Path) -> None:
    ending = Child(python_child(None, "inspector.missing"), stdin="held").follow(Limits(SOON_S))
    assert ending.code == 1 and "No module named inspector.missing" in ending.last_line


def test_a_child_hears_that_whoever_made_it_was_killed() -> None:
    code = (
        "import sys; from inspector.process import Child\n"
        "told = 'import os, time; print(os.getpid(), flush=True); time.sleep(600)'\n"
        "words = [sys.executable, '-c', told]\n"
        "Child(words, stdout='inherit', own_session=False, told_of_our_death=True).follow()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        parent.kill()
        # Its child has the other end of this.
        assert parent.stdout.read() == b""
