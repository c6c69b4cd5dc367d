"""Runs the captured command: signals, patience, and the progress line while it runs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, field
from pathlib import Path
from types import FrameType
from typing import TextIO

from inspector.capture.environment import HiddenLogs
from inspector.capture.follow import RunFollower
from inspector.capture.gpus import GpuWatch, visible_gpus
from inspector.capture.progress import Display, progress_text
from inspector.capture.relay import Channel, Relay
from inspector.capture.stderr_filter import StderrFilter, TorchLog
from inspector.frozen import dataclass
from inspector.model.load import GpuLoad
from inspector.process import KILL, Child, Ending

REFRESH_SECONDS = 0.5
GRACE_SECONDS = 10.0
"""How long an interrupted command may take to stop before it is told again, more firmly."""


@dataclass(frozen=True, slots=True)
class ChildResult:
    """`exit_code` is 128+n for a command that signal n ended; `seconds` its wall time; `gpus` what others
    did to each GPU that it used, by the driver's number."""

    exit_code: int
    interrupted: bool
    seconds: float
    problem: str | None = None
    gpus: Mapping[int, GpuLoad] = field(default_factory=dict)


def gpu_loads(result: ChildResult) -> dict[str, dict[str, object]]:
    """As the manifest has them."""
    return {str(number): asdict(load) for number, load in result.gpus.items()}


class Interruptions:
    """Passes signals on to the child and loses patience in steps: the signal, SIGTERM, SIGKILL.

    A Ctrl-C on the terminal reaches the child without us, as both are in the foreground process group;
    sending it again would interrupt the child's own cleaning up. A `detached` child leads a session of its
    own and gets no Ctrl-C from our terminal; what its display asks for is then passed on by `obey`.
    """

    def __init__(self, child: Child, on_resize: Callable[[], None], *, detached: bool) -> None:
        self._child = child
        self._detached = detached
        self._obeyed = 0
        self._on_resize = on_resize
        self._previous: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}
        self.interrupted = False

    def install(self) -> None:
        """Take the signals over; only the main thread can. What is ignored (nohup) stays ignored."""
        if self._detached or threading.current_thread() is not threading.main_thread():
            return
        handlers = {
            signal.SIGINT: self._interrupt,
            signal.SIGTERM: self._terminate,
            signal.SIGHUP: self._terminate,
            signal.SIGWINCH: self._resize,
            signal.SIGUSR1: self._pass_on,
            signal.SIGUSR2: self._pass_on,
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

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if self.interrupted:
            self._child.end(KILL)
            return
        self.interrupted = True
        steps = [(GRACE_SECONDS, signal.SIGTERM), (2 * GRACE_SECONDS, signal.SIGKILL)]
        if self._detached or not in_foreground():
            steps.insert(0, (0.0, signal.SIGINT))
        self._child.end(steps)

    def _terminate(self, number: int, _frame: FrameType | None) -> None:
        self.interrupted = True
        self._child.end(((0.0, signal.Signals(number)), (GRACE_SECONDS, signal.SIGKILL)))

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        """What a batch system tells a program before its time is up."""
        self._child.send(signal.Signals(number))

    def _resize(self, _number: int, _frame: FrameType | None) -> None:
        self._on_resize()
        # The kernel told the child before its pseudo-terminal had the new size.
        self._child.send(signal.SIGWINCH)


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
        watch = GpuWatch(False, visible_gpus(environment))
        child = Child(
            argv,
            env=environment,
            stdin="empty" if detached else "inherit",
            stdout="inherit" if output is None else output.child_end,
            stderr=errors.child_end,
            own_session=detached,
            sweep=False,
            all_descriptors=True,
            told_of_our_death=True,
        )
        for channel in channels:
            channel.release_child_end()
        log = TorchLog(Path(environment["TORCH_LOGS_OUT"])) if "TORCH_LOGS_OUT" in environment else None
        relay = Relay(screen, errors, output, StderrFilter(hidden, log), run / "logs" / "stderr.txt")
        relay.start()
        follower = RunFollower(run)

        def progress(seconds: float) -> str:
            return progress_text(follower.look(), seconds)

        ending, interrupted, gpus = _follow(child, screen, resize, progress if live else None, watch)
        relay.finish()
        screen.clear()
    finally:
        for channel in channels:
            channel.close()
    return ChildResult(ending.shell_code, interrupted, ending.seconds, relay.problem, gpus)


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
    watch = GpuWatch(True, visible_gpus(environment))
    with (folder / "stdout.txt").open("wb") as output, (folder / "stderr.txt").open("wb") as errors:
        child = Child(
            argv,
            env=environment,
            stdout=output,
            stderr=errors,
            own_session=screen.detached,
            sweep=False,
            all_descriptors=True,
            told_of_our_death=True,
        )
        progress = (lambda seconds: f"{label} · {seconds:.0f} s") if live else None
        ending, interrupted, gpus = _follow(child, screen, lambda: None, progress, watch)
        screen.clear()
    return ChildResult(ending.shell_code, interrupted, ending.seconds, gpus=gpus)


def is_terminal(stream: TextIO) -> bool:
    """Whether `stream` is a terminal with a descriptor of its own."""
    try:
        return os.isatty(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return False


def _follow(
    child: Child,
    screen: Display,
    on_resize: Callable[[], None],
    progress: Callable[[float], str] | None,
    watch: GpuWatch,
) -> tuple[Ending, bool, Mapping[int, GpuLoad]]:
    """(how the child ended, whether it was interrupted, what others did to its GPUs); `progress` makes the
    line to show while it runs."""
    interruptions = Interruptions(child, on_resize, detached=screen.detached)
    started = shown = time.monotonic()

    def look() -> None:
        nonlocal shown
        interruptions.obey(screen.stop_requests)
        now = time.monotonic()
        watch.look(now - started)
        if progress is not None and child.running and now - shown >= REFRESH_SECONDS:
            shown = now
            screen.show(progress(now - started))

    interruptions.install()
    try:
        return child.follow(every=look), interruptions.interrupted, watch.loads()
    finally:
        interruptions.restore()
