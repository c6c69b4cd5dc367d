"""Carries the child's standard error, and on a terminal its standard output, to ours.

On a terminal the child gets pseudo-terminals in raw mode, so that progress bars behave as ever and no byte is
changed on the way; elsewhere a pipe. Standard output goes through here only where it shares the terminal with
the progress line; otherwise the child inherits it.
"""

from __future__ import annotations

import fcntl
import os
import pty
import selectors
import struct
import termios
import threading
import time
import tty
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from inspector.capture.progress import Display
from inspector.capture.stderr_filter import StderrFilter

CHUNK = 65_536
IDLE_SECONDS = 0.05
"""After this much silence a text that might have become a log line is shown."""
DRAIN_SECONDS = 1.0
"""A process that the child left behind may keep the pipe open; its words are awaited no longer than this."""


class Channel:
    """One stream of the child: `child_end` goes to the child, `our_end` is read here."""

    def __init__(self, *, terminal: bool) -> None:
        self.terminal = terminal
        if terminal:
            try:
                self.our_end, self.child_end = pty.openpty()
                tty.setraw(self.child_end)
                return
            except OSError:
                # No pseudo-terminals here (a bare container): a pipe carries the same bytes.
                self.terminal = False
        self.our_end, self.child_end = os.pipe()

    def resize(self, size: tuple[int, int]) -> None:
        """Give a pseudo-terminal the (columns, lines) of the real one."""
        if self.terminal:
            columns, lines = size
            try:
                fcntl.ioctl(self.our_end, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
            except OSError:
                return

    def release_child_end(self) -> None:
        """Close our copy once the child has its own; without this the end of the stream is never seen."""
        if self.child_end >= 0:
            os.close(self.child_end)
            self.child_end = -1

    def close(self) -> None:
        """Close what is still open."""
        self.release_child_end()
        if self.our_end >= 0:
            os.close(self.our_end)
            self.our_end = -1


class Relay:
    """Reads the channels in a thread of its own until both have ended.

    Standard error is kept unfiltered in `record` (the autotuning tables go nowhere else) and shown filtered.
    """

    def __init__(
        self,
        screen: Display,
        errors: Channel,
        output: Channel | None,
        log_filter: StderrFilter,
        record: Path,
    ) -> None:
        self._screen = screen
        self._errors = errors
        self._output = output
        self._filter = log_filter
        self._record_path = record
        self._record: BinaryIO | None = None
        self._deadline: float | None = None
        self._thread = threading.Thread(target=self._run, name="inspector-relay", daemon=True)
        self.problem: str | None = None

    def start(self) -> None:
        """Begin reading; the child ends must belong to the child alone by now."""
        try:
            self._record = self._record_path.open("wb")
        except OSError as error:
            self._lost_record(error)
        self._thread.start()

    def finish(self) -> None:
        """Wait for the rest of the child's output after it has ended, at most DRAIN_SECONDS."""
        self._deadline = time.monotonic() + DRAIN_SECONDS
        self._thread.join()

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            errors = (self._errors, self._take_errors)
            selector.register(self._errors.our_end, selectors.EVENT_READ, errors)
            if self._output is not None:
                output = (self._output, self._screen.write_stdout)
                selector.register(self._output.our_end, selectors.EVENT_READ, output)
            while selector.get_map():
                ready = selector.select(IDLE_SECONDS if self._filter.holding else 2 * IDLE_SECONDS)
                if not ready and self._filter.holding:
                    self._screen.write_stderr(self._filter.flush())
                if not ready and self._deadline is not None and time.monotonic() > self._deadline:
                    break
                for key, _ in ready:
                    data = _read(key.fd)
                    channel: Channel
                    take: Callable[[bytes], bool]
                    channel, take = key.data
                    taken = bool(data) and take(data)
                    if not taken:
                        selector.unregister(key.fd)
                    if data and not taken:
                        # Whoever read it is gone: the program learns of it as it would without us.
                        channel.close()
        rest = self._filter.close()
        if rest:
            self._screen.write_stderr(rest)
        if self._record is not None:
            try:
                self._record.close()
            except OSError as error:
                self._lost_record(error)

    def _take_errors(self, data: bytes) -> bool:
        if self._record is not None:
            try:
                self._record.write(data)
                self._record.flush()
            except OSError as error:
                self._lost_record(error)
        shown = self._filter.feed(data)
        return not shown or self._screen.write_stderr(shown)

    def _lost_record(self, error: OSError) -> None:
        self._record = None
        self.problem = f"logs/{self._record_path.name} is incomplete: {error.strerror or error}"


def _read(descriptor: int) -> bytes:
    """What is there; empty at the end. A pseudo-terminal reports its end as EIO."""
    try:
        return os.read(descriptor, CHUNK)
    except OSError:
        return b""
