"""Takes out of standard error the log lines that exist only because a capture switched them on."""

from __future__ import annotations

import re
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from inspector.capture.environment import HiddenLogs
from inspector.files import open_plain

PATIENCE_S = 2.0
"""torch writes a line to standard error first, then to its file; in between it may collect garbage."""
_LONG = 8192
"""Bytes after which what a line is needs no more of it."""
_MOST_WAITING = 1 << 20
_MOST_AT_ONCE = 8 << 20
_MOST_HEADS = 200_000

# torch/_logging/_internal.py (TorchLogsFormatter.format) puts this before every line of a message; a launcher
# such as `torchrun --tee` puts `[default0]:` before that.
_RECORD = re.compile(
    rb"(?:\[[\w.-]{1,24}\]:){0,2}(?P<level>[VIWEC])\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ [^\n]{1,400}?:\d+\]"
    rb"(?: \[(?!__)[^\]\n]*\])?(?: \[__(?P<artifact>\w+)\])?"
)
_TRACE_PATH = b" debug trace: "
_TRACE_SOURCE = b"_inductor/debug.py:"


def _beginning_of(atoms: list[str]) -> str:
    """A pattern for every beginning, up to the input's end, of what `atoms` match one after the other."""
    pattern = ""
    for atom in reversed(atoms):
        pattern = f"{atom}(?:\\Z{'|' + pattern if pattern else ''})"
    return pattern


_STAMP = ["[VIWEC]", *(r"\d" if sign == "0" else re.escape(sign) for sign in "0000 00:00:00.000000 ")]
_PREFIX = r"(?:\[[\w.-]{1,24}\]:){0,2}"
_STAMPED = re.compile((_PREFIX + "".join(_STAMP)).encode())
_BARE_STAMP = re.compile("".join(_STAMP).encode())
_BEFORE_STAMP = re.compile(_PREFIX.encode() + rb"\Z")
_BEGUN = re.compile(
    "|".join(
        (
            _PREFIX + _beginning_of(_STAMP),
            _PREFIX + r"\[(?:\Z|[\w.-]{1,24}(?:\Z|\](?:\Z|:\Z)))",
        )
    ).encode()
)
_MOST_BEGUN = 128
"""Bytes that the longest prefix and an unfinished stamp take, and some."""


def _head_of(record: re.Match[bytes]) -> bytes:
    """A record's beginning without what stands before it: torch names a rank in its file, too."""
    return record[0][record.start("level") - record.start() :]


def _stamp_in(text: bytes) -> re.Match[bytes] | None:
    # Looking for a single byte takes a hundredth of the time.
    return _BARE_STAMP.search(text) if b":" in text and b"." in text else None


def _held_from(tail: bytes) -> int:
    """Where in a line without its end a log record begins, or may begin: its length where none does."""
    stamp = _stamp_in(tail)
    if stamp is not None:
        prefix = _BEFORE_STAMP.search(tail, max(0, stamp.start() - _MOST_BEGUN), stamp.start())
        return prefix.start() if prefix is not None else stamp.start()
    start = max(0, len(tail) - _MOST_BEGUN)
    begun = _BEGUN.search(tail, start)
    return begun.start() if begun is not None else len(tail)


class TorchLog:
    """The file that torch writes its log to (TORCH_LOGS_OUT) beside standard error, read as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._rest = b""
        self.heads: dict[bytes, None] = {}
        """Beginnings of records: a time in microseconds, a process, a line of source."""

    def read(self) -> None:
        """What has come since the last time."""
        try:
            with open_plain(self._path) as file:
                file.seek(self._at)
                data = file.read(_MOST_AT_ONCE)
        except OSError:
            return
        self._at += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        # What a line is stands at its beginning, however much of it is there yet.
        self._rest = self._rest[:_LONG]
        for line in lines:
            if record := _RECORD.match(line):
                self.heads[_head_of(record)] = None
        while len(self.heads) > _MOST_HEADS:
            del self.heads[next(iter(self.heads))]


@dataclass(slots=True)
class _Piece:
    """A text that waits to be shown; with a `head` it is a log record that is hidden if it is torch's."""

    text: bytearray
    head: bytes | None = None
    hidden: bool = False
    since: float = field(default_factory=time.monotonic)


class StderrFilter:
    """Bytes in, bytes out; everything but hidden log lines comes out unchanged and as early as possible.

    A text that may be the beginning of a log line is held back until it is decided; a caller that reads from
    a live program calls `flush` after a short silence, so that a prompt ending in "V" appears all the same.
    With a `log` only what torch has written there, too, is hidden: a line of the program's own that looks
    like one of torch's comes out, at most PATIENCE_S late.
    """

    def __init__(self, hidden: HiddenLogs, log: TorchLog | None = None) -> None:
        self._artifacts = frozenset(name.encode() for name in hidden.artifacts)
        self._warnings = frozenset(name.encode() for name in hidden.warnings)
        self._trace_paths = hidden.trace_paths
        self._untagged = hidden.untagged
        self._log = log
        self._held = b""
        self._pieces: deque[_Piece] = deque()
        self._open: _Piece | None = None
        """The record whose line has not ended yet."""

    @property
    def holding(self) -> bool:
        """True while a text is held back that `flush` would let go."""
        return bool(self._pieces) or (bool(self._held) and _STAMPED.match(self._held) is None)

    def feed(self, data: bytes) -> bytes:
        """What of the text so far can be shown."""
        *lines, tail = (self._held + data).split(b"\n")
        self._held = b""
        for line in lines:
            self._take(line + b"\n")
        start = len(tail) if self._open is not None else _held_from(tail)
        if len(tail) - start > _LONG:
            start = len(tail)
        self._take(tail[:start])
        self._held = tail[start:]
        return self._decided()

    def flush(self) -> bytes:
        """Let go of what is held back, unless it is already known to be a log record without its end."""
        shown = self._decided()
        if self._pieces or not self.holding:
            return shown
        held, self._held = self._held, b""
        return shown + held

    def close(self) -> bytes:
        """The rest, at the end of the input."""
        held, self._held = self._held, b""
        self._take(held)
        return self._decided(last=True)

    def _take(self, text: bytes) -> None:
        """A line or a part of one. What stands before a hidden record in it is shown: a progress bar ends
        without a line end."""
        if self._open is None:
            record = _RECORD.search(text) if _stamp_in(text) else None
            if record is not None and self._hides(record, text):
                self._show(text[: record.start()])
                self._open = _Piece(bytearray(text[record.start() :]), _head_of(record))
                self._pieces.append(self._open)
            else:
                self._show(text)
        elif self._open.head is not None:
            self._open.text += text
        elif not self._open.hidden:
            self._show(text)
        if text.endswith(b"\n"):
            self._open = None

    def _show(self, text: bytes) -> None:
        if text:
            self._pieces.append(_Piece(bytearray(text)))

    def _decided(self, last: bool = False) -> bytes:
        """What can be shown up to the first record of which it is not known yet whose it is."""
        shown = bytearray()
        now = time.monotonic()
        if self._log is not None and any(piece.head is not None for piece in self._pieces):
            self._log.read()
        while self._pieces:
            piece = self._pieces[0]
            if piece.head is not None:
                piece.hidden = self._log is None or piece.head in self._log.heads
                fresh = now - piece.since < PATIENCE_S and len(piece.text) < _MOST_WAITING
                if not piece.hidden and fresh and not last:
                    break
                piece.head = None
            self._pieces.popleft()
            if not piece.hidden:
                shown += piece.text
        return bytes(shown)

    def _hides(self, record: re.Match[bytes], line: bytes) -> bool:
        quiet = record["level"] in b"VI"
        artifact = record["artifact"]
        if artifact is not None:
            return artifact in (self._artifacts if quiet else self._warnings)
        if quiet:
            return self._untagged
        return self._trace_paths and _TRACE_SOURCE in record[0] and _TRACE_PATH in line
