"""Where a capture shows itself: a terminal with a progress line that never mixes with the program's own
output, or whoever else wants to follow it."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TextIO

from inspector.capture.follow import Seen
from inspector.text import crop, one_line
from inspector.units import plural


def progress_text(seen: Seen, seconds: float) -> str:
    """`3 graphs compiled · 1 graph break · 12 s`"""
    parts = [f"{plural(len(seen.graphs), 'graph')} compiled"]
    if seen.graph_breaks:
        parts.append(plural(len(seen.graph_breaks), "graph break"))
    if seen.recompiles:
        parts.append(plural(len(seen.recompiles), "recompile"))
    return " · ".join([*parts, duration_text(seconds)])


def duration_text(seconds: float) -> str:
    """`12 s`, with minutes from the second one on."""
    whole = int(seconds)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60:02d} s"


class Display(Protocol):
    """What a capture needs of whoever shows it. Every method may be called from any thread.

    `detached`: the program shares no terminal with the display. It then leads a session of its own, has
    nothing to read, and both its streams come here. `stop_requests` counts how often it was asked to stop:
    the first is a Ctrl-C, the second kills.
    """

    detached: bool
    stop_requests: int

    def size(self) -> tuple[int, int]:
        """Columns and lines that the program may fill; raises OSError or ValueError where unknown."""

    def started(self, run: Path) -> None:
        """The run's folder is made and the command about to run."""

    def write_stderr(self, data: bytes) -> bool:
        """Whether somebody is there to read it."""

    def write_stdout(self, data: bytes) -> bool:
        """The same."""

    def show(self, text: str) -> None:
        """The progress line, anew."""

    def clear(self) -> None:
        """No progress line any more."""

    def say(self, text: str) -> None:
        """One line of the capture itself."""


class Screen:
    """Where the child's output goes, byte for byte, with a progress line below it on a terminal.

    `live` says that there may be a progress line. Every method may be called from any thread. A destination
    that is gone (a closed pipe) is dropped.
    """

    def __init__(self, stderr: TextIO, *, live: bool) -> None:
        self._stderr = stderr
        self._live = live
        self._lock = threading.Lock()
        self._drawn = False
        self._at_line_start = True
        self._gone: set[str] = set()

    detached = False
    stop_requests = 0

    def size(self) -> tuple[int, int]:
        """Of the terminal behind standard error; raises OSError or ValueError where it is none."""
        size = os.get_terminal_size(self._stderr.fileno())
        return size.columns, size.lines

    def started(self, run: Path) -> None:
        """Nothing to do: the closing line tells where the run is."""

    def write_stderr(self, data: bytes) -> bool:
        """Pass bytes of the child's standard error on."""
        with self._lock:
            self._clear()
            self._to_stderr(data)
            self._note_position(data)
            return "stderr" not in self._gone

    def write_stdout(self, data: bytes) -> bool:
        """Pass bytes of the child's standard output on to this process's own."""
        with self._lock:
            self._clear()
            if "stdout" not in self._gone:
                try:
                    _write_all(1, data)
                except OSError:
                    self._gone.add("stdout")
            self._note_position(data)
            return "stdout" not in self._gone

    def show(self, text: str) -> None:
        """Draw the progress line, unless the program stopped in the middle of a line of its own."""
        with self._lock:
            if not self._live or not self._at_line_start:
                return
            self._to_stderr(f"\r\x1b[K{crop(text, self._width() - 1)}".encode("utf-8", "replace"))
            self._drawn = True

    def clear(self) -> None:
        """Take the progress line away."""
        with self._lock:
            self._clear()

    def say(self, text: str) -> None:
        """One line of the capture itself, always on a line of its own."""
        with self._lock:
            self._clear()
            start = "" if self._at_line_start else "\n"
            self._to_stderr(f"{start}{one_line(text)}\n".encode("utf-8", "replace"))
            self._at_line_start = True

    def _clear(self) -> None:
        if self._drawn:
            self._to_stderr(b"\r\x1b[K")
            self._drawn = False

    def _note_position(self, data: bytes) -> None:
        if data:
            self._at_line_start = data.endswith(b"\n")

    def _width(self) -> int:
        try:
            return max(20, self.size()[0])
        except (OSError, ValueError):
            return 80

    def _to_stderr(self, data: bytes) -> None:
        if "stderr" in self._gone:
            return
        try:
            buffer = getattr(self._stderr, "buffer", None)
            if buffer is None:
                self._stderr.write(data.decode("utf-8", "replace"))
            else:
                with suppress(ValueError):
                    self._stderr.flush()
                buffer.write(data)
                buffer.flush()
            self._stderr.flush()
        except (OSError, ValueError):
            self._gone.add("stderr")


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
