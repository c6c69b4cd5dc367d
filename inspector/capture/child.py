"""Runs the captured command: signals, patience, and the progress line while it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TextIO

from inspector.capture.environment import HiddenLogs
from inspector.capture.follow import RunFollower
from inspector.capture.progress import Display, progress_text
from inspector.capture.relay import Channel, Relay
from inspector.capture.stderr_filter import StderrFilter

REFRESH_SECONDS = 0.5
STOP_SECONDS = 0.1
"""How long a request to stop, from a display that has no terminal, may wait until it is seen."""
GRACE_SECONDS = 10.0
"""How long an interrupted command may take to stop before it is told again, more firmly."""


@dataclass(frozen=True, slots=True)
class ChildResult:
    """`exit_code` is 128+n for a command that signal n ended; `seconds` its wall time."""

    exit_code: int
    interrupted: bool
    seconds: float
    problem: str | None


class Interruptions:
    """Passes signals on to the child and loses patience in steps: the signal, SIGTERM, SIGKILL.

    A Ctrl-C on the terminal reaches the child without us, as both are in the foreground process group;
    sending it again would interrupt the child's own cleaning up. A `detached` child leads a session of its
    own and gets no Ctrl-C from our terminal; `obey` then interrupts its whole group, as a terminal would.
    """

    def __init__(
        self, child: subprocess.Popen[bytes], on_resize: Callable[[], None], *, detached: bool = False
    ) -> None:
        self._child = child
        self._detached = detached
        self._obeyed = 0
        self._on_resize = on_resize
        self._steps: list[tuple[float, signal.Signals]] = []
        self._previous: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}
        self.interrupted = False

    def install(self) -> None:
        """Take the signals over; only the main thread can. What is ignored (nohup) stays ignored."""
        if threading.current_thread() is not threading.main_thread():
            return
        handlers = {
            signal.SIGINT: self._interrupt,
            signal.SIGTERM: self._terminate,
            signal.SIGHUP: self._terminate,
            signal.SIGWINCH: self._resize,
        }
        for number, handler in handlers.items():
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.signal(number, handler)

    def restore(self) -> None:
        """Give the signals back."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def obey(self, requests: int) -> None:
        """Treat each request to stop that is new as a Ctrl-C; called while waiting."""
        while self._obeyed < requests:
            self._obeyed += 1
            self._interrupt(signal.SIGINT, None)

    def lose_patience(self) -> None:
        """Send the next, firmer signal where the child has not stopped in time; called while waiting."""
        now = time.monotonic()
        while self._steps and self._steps[0][0] <= now:
            self._send(self._steps.pop(0)[1])

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.interrupted:
            self._steps = []
            self._send(signal.SIGKILL)
            return
        self.interrupted = True
        if self._detached or not in_foreground():
            self._send(signal.SIGINT)
        now = time.monotonic()
        self._steps = [(now + GRACE_SECONDS, signal.SIGTERM), (now + 2 * GRACE_SECONDS, signal.SIGKILL)]

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        self.interrupted = True
        self._send(signal.Signals(number))
        self._steps = [(time.monotonic() + GRACE_SECONDS, signal.SIGKILL)]

    def _resize(self, number: int, frame: FrameType | None) -> None:
        self._on_resize()
        # The kernel told the child before its pseudo-terminal had the new size.
        self._send(signal.SIGWINCH)

    def _send(self, number: signal.Signals) -> None:
        if self._child.poll() is not None:
            return
        # A launcher that is killed can't end its workers any more, and they would keep the GPUs.
        family = descendants(self._child.pid) if number == signal.SIGKILL else ()
        if self._detached and number in (signal.SIGINT, signal.SIGKILL):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, number)
            if number == signal.SIGINT:
                return
        for pid in (self._child.pid, *family):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def in_foreground() -> bool:
    """Whether a Ctrl-C on our terminal goes to our process group; false where there is no terminal."""
    try:
        descriptor = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(descriptor)


def descendants(pid: int) -> tuple[int, ...]:
    """The processes below `pid`, from /proc; empty where the system has none."""
    parents: dict[int, int] = {}
    with suppress(OSError):
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                # PID (NAME) STATE PARENT: a name may hold spaces and brackets.
                with suppress(OSError, ValueError, IndexError):
                    text = Path("/proc", entry, "stat").read_text(errors="replace")
                    parents[int(entry)] = int(text.rsplit(")", 1)[1].split()[1])
    found = [pid]
    for ancestor in found:
        found.extend(child for child, parent in parents.items() if parent == ancestor)
    return tuple(found[1:])


def run_child(
    argv: Sequence[str],
    environment: Mapping[str, str],
    run: Path,
    hidden: HiddenLogs,
    screen: Display,
    *,
    stderr: TextIO,
    live: bool,
) -> ChildResult:
    """Run `argv` until it ends, its output passing through `screen`.

    `live` asks for the progress line; standard output is then carried too where it is a terminal. A detached
    `screen` gets both streams, and the child neither our terminal nor anything to read. Raises OSError where
    the program cannot be started.
    """
    detached = screen.detached
    terminal = detached or is_terminal(stderr)
    errors = Channel(terminal=terminal)
    output = Channel(terminal=True) if detached or (live and terminal and os.isatty(1)) else None
    channels = [channel for channel in (errors, output) if channel is not None]

    def resize() -> None:
        with suppress(OSError, ValueError):
            size = screen.size()
            for channel in channels:
                channel.resize(size)

    try:
        resize()
        started = time.monotonic()
        child = subprocess.Popen(
            list(argv),
            env=dict(environment),
            stdin=subprocess.DEVNULL if detached else None,
            stdout=None if output is None else output.child_end,
            stderr=errors.child_end,
            start_new_session=detached,
        )
        interruptions = Interruptions(child, resize, detached=detached)
        if not detached:
            interruptions.install()
        try:
            for channel in channels:
                channel.release_child_end()
            log_filter = StderrFilter(hidden)
            relay = Relay(screen, errors, output, log_filter, run / "logs" / "stderr.txt")
            relay.start()
            follower = RunFollower(run)

            def show() -> None:
                screen.show(progress_text(follower.look(), time.monotonic() - started))

            _wait(child, interruptions, screen, show if live else None)
            seconds = time.monotonic() - started
            relay.finish()
            screen.clear()
        finally:
            interruptions.restore()
    finally:
        for channel in channels:
            channel.close()
    code = child.returncode
    return ChildResult(code if code >= 0 else 128 - code, interruptions.interrupted, seconds, relay.problem)


def run_apart(
    argv: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    screen: Display,
    label: str,
    *,
    live: bool,
) -> ChildResult:
    """Run `argv` with nothing to read and its output in `folder`: stdout.txt and stderr.txt.

    Raises OSError where the program cannot be started or the files cannot be made.
    """
    with (folder / "stdout.txt").open("wb") as output, (folder / "stderr.txt").open("wb") as errors:
        started = time.monotonic()
        child = subprocess.Popen(
            list(argv),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=screen.detached,
        )
        interruptions = Interruptions(child, lambda: None, detached=screen.detached)
        if not screen.detached:
            interruptions.install()
        try:
            show = (lambda: screen.show(f"{label} · {time.monotonic() - started:.0f} s")) if live else None
            _wait(child, interruptions, screen, show)
            seconds = time.monotonic() - started
            screen.clear()
        finally:
            interruptions.restore()
    code = child.returncode
    return ChildResult(code if code >= 0 else 128 - code, interruptions.interrupted, seconds, None)


def is_terminal(stream: TextIO) -> bool:
    """Whether `stream` is a terminal with a descriptor of its own."""
    try:
        return os.isatty(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return False


def _wait(
    child: subprocess.Popen[bytes],
    interruptions: Interruptions,
    screen: Display,
    show: Callable[[], None] | None,
) -> None:
    """Wait for the child in a thread, so that this one is free for signals, requests and progress."""
    ended = threading.Event()

    def reap() -> None:
        child.wait()
        ended.set()

    threading.Thread(target=reap, name="inspector-reaper", daemon=True).start()
    while not ended.wait(STOP_SECONDS if screen.detached else REFRESH_SECONDS):
        interruptions.obey(screen.stop_requests)
        interruptions.lose_patience()
        if show is not None:
            show()
