"""The one supervisor of child processes: time limits, graded signals, streams, whole families, no orphans.

A `Child` is started when it is made and supervised by `follow`, which returns how it ended, and which it does
not outlive. What the caller passes in runs in the thread that calls `follow`, so it needs no locks; `end`,
`send` and `kill` may be called from any thread, and `end` from a signal handler.
"""

from __future__ import annotations

import math
import os
import selectors
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import IO, Literal

from inspector import proc
from inspector.confinement import release
from inspector.frozen import dataclass

POLL_S = 0.1
"""How often `follow` asks whether to stop, where nothing else wakes it."""
DRAIN_S = 1.0
"""How long the output of a child that is gone is still read, where another process holds its streams open."""
UNKILLABLE_S = 10.0
"""After so long a killed child is given up: no signal ends a process that waits for a device's driver."""
TAIL_BYTES = 16_000
PIPE = "{pipe}"
"""In a command line: the number of the descriptor to which the child writes what goes to `pipe`."""

_CHUNK = 1 << 16
_PR_SET_PDEATHSIG = 1
_MARK = "INSPECTOR_CHILD"
_MOST_PASSES = 10
_SIGKILL = getattr(signal, "SIGKILL", signal.SIGTERM)

Sink = Callable[[bytes], object]
"""Takes what a child writes, as it comes."""
Output = Literal["tail", "inherit", "drop"] | IO[bytes] | int | Sink
"""Where a stream goes: to the end of the `Ending`, where ours goes, nowhere, a file, a descriptor, a sink."""
Input = Literal["held", "inherit", "empty"] | IO[bytes]
"""What a child reads: a pipe that closes when we are gone (`python_child`), our input, nothing, a file."""
Steps = Iterable[tuple[float, signal.Signals]]
"""(seconds from now, signal): what is sent to a child that is to end, until it has ended."""

Exceeded = Literal["overall", "step", "memory"]
KILL: Steps = ((0.0, _SIGKILL),)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a child ended. `code` is its exit code, -n where signal n ended it; `seconds` its wall time.

    `timed_out` names the limit that it exceeded; `stopped`: somebody asked it to end. `tail` is the end of
    what it wrote to ``"tail"``.
    """

    code: int
    seconds: float
    timed_out: Exceeded | None = None
    stopped: bool = False
    tail: str = ""

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended it, such as ``SIGSEGV``; None where it exited."""
        if self.code >= 0:
            return None
        try:
            return signal.Signals(-self.code).name
        except ValueError:
            return f"signal {-self.code}"

    @property
    def shell_code(self) -> int:
        """The exit code that a shell would tell: 128 + n for signal n."""
        return self.code if self.code >= 0 else 128 - self.code

    @property
    def last_line(self) -> str:
        """The last line that it wrote to ``"tail"``, empty where it wrote nothing."""
        return self.tail.rpartition("\n")[2].strip()


@dataclass(slots=True)
class Limits:
    """Seconds that a child may take: in all, and for the step begun last; and bytes of memory, its own
    children's apart. All may change while it runs."""

    overall_s: float = math.inf
    step_s: float = math.inf
    memory_bytes: float = math.inf
    started: float = field(default_factory=time.monotonic)
    marked: float = field(default_factory=time.monotonic)

    def mark(self, step_s: float = math.inf) -> None:
        """A step begins that may take `step_s`; without it, none is under way."""
        self.marked, self.step_s = time.monotonic(), step_s

    def exceeded(self, pid: int) -> Exceeded | None:
        now = time.monotonic()
        if self.memory_bytes < math.inf and proc.memory_of(pid) > self.memory_bytes:
            return "memory"
        if now - self.marked > self.step_s:
            return "step"
        return "overall" if now - self.started > self.overall_s else None


class Lines:
    """A sink that hands on whole lines without their ends; what a crash cut short is never handed on, and no
    line that is longer than `most` bytes."""

    def __init__(self, take: Sink, most: int = 1 << 26) -> None:
        self._take = take
        self._most = most
        self._rest = bytearray()
        self._skips = False

    def __call__(self, data: bytes) -> None:
        *ends, rest = data.split(b"\n")
        for end in ends:
            line, skipped = bytes(self._rest + end), self._skips
            self._rest.clear()
            self._skips = False
            if not skipped:
                self._take(line)
        self._rest += rest
        if len(self._rest) > self._most:
            self._rest.clear()
            self._skips = True


class Child:
    """A child process, running. Raises OSError where it cannot be started.

    With `own_session` it leads a session and a process group: a Ctrl-C at our terminal doesn't reach it, and
    what it leaves behind is killed when it has ended, unless `sweep` is false: its group, and on Linux also
    who began a session of its own, known by a variable of its environment. Else it is in our group. Sinks and
    `pipe` need a POSIX system; elsewhere a ``"tail"`` stays empty. With
    `all_descriptors` it inherits those that we did. `told_of_our_death`: on Linux it gets a SIGTERM when the
    thread that made it ends, as where we are killed.
    """

    popen = subprocess.Popen
    """What starts it; tests put there what forks a process that has torch already."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: Input = "empty",
        stdout: Output = "tail",
        stderr: Output = "tail",
        pipe: Sink | None = None,
        own_session: bool = True,
        sweep: bool = True,
        all_descriptors: bool = False,
        told_of_our_death: bool = False,
    ) -> None:
        self._own_session = own_session
        self._sweep = own_session and sweep
        self._mark = f"{_MARK}={uuid.uuid4().hex}".encode()
        self._tail = b""
        self._steps: list[tuple[float, signal.Signals]] = []
        self._stopped = False
        self._killed = math.inf
        self._selector = selectors.DefaultSelector()
        child_ends: list[int] = []
        try:
            passed = () if pipe is None else (self._listen(pipe, child_ends),)
            out = self._descriptor(stdout, child_ends)
            # One pipe for both, so that their lines stay in order.
            err = subprocess.STDOUT if stdout == stderr == "tail" else self._descriptor(stderr, child_ends)
            self._started = time.monotonic()
            self._process = self.popen(
                [word.replace(PIPE, str(passed[0])) for word in argv] if passed else argv,
                env=dict(os.environ if env is None else env) | self._marked(),
                cwd=cwd,
                stdin=_NAMED[stdin] if isinstance(stdin, str) else stdin,
                stdout=out,
                stderr=err,
                pass_fds=passed,
                # None of our own is inheritable: those are who started us's.
                close_fds=not all_descriptors,
                start_new_session=own_session,
                preexec_fn=_asking_for_death(os.getpid()) if told_of_our_death else None,
            )
        except BaseException:
            self._close_streams()
            raise
        finally:
            for descriptor in child_ends:
                os.close(descriptor)
        self._began = proc.began(self._process.pid) or math.inf
        with suppress(AttributeError, OSError):
            # Where the system has no such descriptor, the end is seen at the next poll.
            self._selector.register(os.pidfd_open(self._process.pid), selectors.EVENT_READ)

    def follow(
        self,
        limits: Limits | None = None,
        should_stop: Callable[[], bool] | None = None,
        every: Callable[[], object] | None = None,
    ) -> Ending:
        """Wait until the child has ended, and hand on what it writes.

        It is killed when it exceeds `limits` or `should_stop` says yes. `every` is called about ten times a
        second, and once more when the child is gone. What a callback raises, KeyboardInterrupt included,
        kills the child and goes on to the caller.
        """
        timed_out: Exceeded | None = None
        asked = -math.inf
        try:
            while self.running and time.monotonic() < self._killed + UNKILLABLE_S:
                # A child that writes without end wakes us far more often.
                if time.monotonic() >= asked + POLL_S:
                    asked = time.monotonic()
                    if limits is not None and timed_out is None:
                        timed_out = limits.exceeded(self._process.pid)
                        if timed_out:
                            self.kill()
                    if should_stop is not None and not self._stopped and should_stop():
                        self.end()
                    if every is not None:
                        every()
                self._send_what_is_due()
                self._read(POLL_S)
            seconds = time.monotonic() - self._started
            if self._sweep:
                self._kill_what_is_left()
            deadline = time.monotonic() + DRAIN_S
            while self._read(0) and time.monotonic() < deadline:
                pass
            if every is not None:
                every()
        finally:
            self._close()
        code = self._process.returncode
        return Ending(
            code=-_SIGKILL if code is None else code,
            seconds=seconds,
            timed_out=timed_out,
            stopped=self._stopped,
            tail=self._tail.decode("utf-8", "replace").strip(),
        )

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def end(self, steps: Steps = KILL) -> None:
        """Have `follow` send these signals, in place of those that an earlier call left to be sent.

        SIGINT goes to all of the child's own group, as from a terminal; SIGKILL as `kill` says.
        """
        now = time.monotonic()
        self._steps = [(now + after, number) for after, number in steps]
        self._stopped = True

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the child alone, where it still runs."""
        with suppress(ProcessLookupError, PermissionError):
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the child, its group where it has its own, and its descendants, those too that left the group.

        They are frozen first, as a pool of compilers starts new ones faster than they can be killed. A
        process whose parents had all ended before is found by its group alone.
        """
        import psutil

        self._killed = min(self._killed, time.monotonic())
        family: set[psutil.Process] = set()
        with suppress(psutil.Error):
            for _ in range(_MOST_PASSES if self.running else 0):
                leader = psutil.Process(self._process.pid)
                new = {leader, *leader.children(recursive=True)} - family
                for member in new:
                    with suppress(psutil.Error):
                        member.suspend()
                family |= new
                if not new:
                    break
        if self._own_session:
            _signal_group(self._process.pid, _SIGKILL)
        self.send(_SIGKILL)
        for member in family:
            with suppress(psutil.Error):
                member.kill()

    def _marked(self) -> dict[str, str]:
        name, _, value = self._mark.decode().partition("=")
        return {name: value} if self._sweep else {}

    def _kill_what_is_left(self) -> None:
        """The group, and whoever carries the child's mark, whichever session or parent it has by then. One
        that is being started shows no environment for a moment."""
        _signal_group(self._process.pid, _SIGKILL)
        release(self._process.pid)
        for _ in range(_MOST_PASSES):
            environments = dict(proc.environments())
            marked = [pid for pid, text in environments.items() if self._mark in text.split(b"\0")]
            for pid in marked:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, _SIGKILL)
            if not marked:
                if not any(not text and proc.began(pid) >= self._began for pid, text in environments.items()):
                    break
                time.sleep(POLL_S)

    def _send_what_is_due(self) -> None:
        steps = self._steps
        while steps and steps[0][0] <= time.monotonic():
            number = steps.pop(0)[1]
            if number == _SIGKILL:
                self.kill()
            elif number == signal.SIGINT and self._own_session:
                _signal_group(self._process.pid, number)
            else:
                self.send(number)

    def _listen(self, sink: Sink, child_ends: list[int]) -> int:
        """A pipe to `sink`: its writing end, which goes to the child."""
        ours, theirs = os.pipe()
        child_ends.append(theirs)
        self._selector.register(ours, selectors.EVENT_READ, sink)
        return theirs

    def _descriptor(self, output: Output, child_ends: list[int]) -> IO[bytes] | int | None:
        if output == "tail":
            # Windows can't wait for a pipe.
            return self._listen(self._keep, child_ends) if os.name == "posix" else subprocess.DEVNULL
        if isinstance(output, str):
            return _NAMED[output]
        return self._listen(output, child_ends) if callable(output) else output

    def _keep(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-TAIL_BYTES:]

    def _read(self, timeout_s: float) -> bool:
        """Hand on what was written, waiting for it at most so long; whether there was anything."""
        if not self._selector.get_map():
            time.sleep(timeout_s)
            return False
        ready = self._selector.select(timeout_s)
        for key, _ in ready:
            sink: Sink | None = key.data
            data = os.read(key.fd, _CHUNK) if sink is not None else b""
            if sink is not None and data:
                sink(data)
            else:
                self._selector.unregister(key.fd)
                os.close(key.fd)
        return bool(ready)

    def _close(self) -> None:
        """End a child that still runs, as where a callback raised, and give back what it took."""
        if self.running:
            self.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(UNKILLABLE_S)
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._close_streams()

    def _close_streams(self) -> None:
        for key in list(self._selector.get_map().values()):
            os.close(key.fd)
        self._selector.close()


_NAMED = {
    "held": subprocess.PIPE,
    "empty": subprocess.DEVNULL,
    "drop": subprocess.DEVNULL,
    "inherit": None,
}


def _signal_group(pid: int, number: signal.Signals) -> None:
    """To all of the group that `pid` leads or led, where any of it is left."""
    with suppress(AttributeError, ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _asking_for_death(parent: int) -> Callable[[], object] | None:
    """What a new process calls before it becomes the program; all that it needs is loaded by then."""
    if sys.platform != "linux":
        return None
    import ctypes

    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)

    return ask


def output_of(argv: Sequence[str], limit_s: float, env: Mapping[str, str] | None = None) -> bytes | None:
    """What a command writes to its standard output; None where it can't be started, fails or takes longer."""
    chunks: list[bytes] = []
    try:
        ending = Child(argv, env=env, stdout=chunks.append, stderr="drop").follow(Limits(limit_s))
    except OSError:
        return None
    return None if ending.code else b"".join(chunks)


def python_child(python: str | None, module: str, *arguments: str) -> list[str]:
    """A command that runs a module of Inspector's with the interpreter `python`, None for this one.

    That interpreter need not have Inspector installed, and nothing comes onto its path: an environment of its
    own must not pick up our torch. Where its standard input is ``"held"``, the child dies with its group as
    soon as that closes, which is when we are gone; what it starts itself finds its standard input empty.
    """
    package = str(Path(__file__).parent)
    return [python or sys.executable, "-c", _RUN_MODULE, package, module, *arguments]


def own_command(*words: str) -> list[str]:
    """Inspector itself with these words. As with `python_child` no module is taken from the folder that it is
    started in, which may be somebody else's: ``python -m`` looks there first."""
    return [sys.executable, "-c", _RUN_OWN, str(Path(__file__).parents[1]), *words]


_RUN_OWN = """
import sys
sys.path[:] = [*filter(None, sys.path), sys.argv.pop(1)]
from inspector.cli.app import main
main()
"""

# Any Python 3 may run it; nothing is imported from the folder that we are in. The descriptor that closes is
# kept from what the module starts.
_RUN_MODULE = """
import sys
sys.path[:] = [folder for folder in sys.path if folder]
import importlib.util, os, runpy, signal, threading

def watch(held):
    try:
        while os.read(held, 4096):
            pass
    except OSError:
        pass
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)

folder, name = sys.argv[1:3]
del sys.argv[1:3]
spec = importlib.util.spec_from_file_location(
    "inspector", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
)
sys.modules["inspector"] = package = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
if "INSPECTOR_CONFINE" in os.environ:
    from inspector.confinement import confine
    confine(os.environ.pop("INSPECTOR_CONFINE"))
held = os.dup(0)
nothing = os.open(os.devnull, os.O_RDONLY)
os.dup2(nothing, 0)
os.close(nothing)
threading.Thread(target=watch, args=(held,), daemon=True).start()
runpy.run_module(name, run_name="__main__", alter_sys=True)
"""
