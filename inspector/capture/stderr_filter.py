"""Takes out of standard error the log lines that exist only because a capture switched them on."""

from __future__ import annotations

import re

from inspector.capture.environment import HiddenLogs

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
_HOLD = re.compile(
    "|".join(
        (
            _PREFIX + "".join(_STAMP) + r"[^\n]*\Z",
            _PREFIX + _beginning_of(_STAMP),
            _PREFIX + r"\[(?:\Z|[\w.-]{1,24}(?:\Z|\](?:\Z|:\Z)))",
        )
    ).encode()
)


class StderrFilter:
    """Bytes in, bytes out; everything but hidden log lines comes out unchanged and as early as possible.

    A text that may be the beginning of a log line is held back until it is decided; a caller that reads from
    a live program calls `flush` after a short silence, so that a prompt ending in "V" appears all the same.
    """

    def __init__(self, hidden: HiddenLogs) -> None:
        self._artifacts = frozenset(name.encode() for name in hidden.artifacts)
        self._warnings = frozenset(name.encode() for name in hidden.warnings)
        self._trace_paths = hidden.trace_paths
        self._untagged = hidden.untagged
        self._held = b""

    @property
    def holding(self) -> bool:
        """True while a text is held back that `flush` would let go."""
        return bool(self._held) and _STAMPED.match(self._held) is None

    def feed(self, data: bytes) -> bytes:
        """What of the text so far can be shown."""
        *lines, tail = (self._held + data).split(b"\n")
        shown = [self._line(line + b"\n") for line in lines]
        held = _HOLD.search(tail)
        start = held.start() if held else len(tail)
        shown.append(tail[:start])
        self._held = tail[start:]
        return b"".join(shown)

    def flush(self) -> bytes:
        """Let go of what is held back, unless it is already known to be a log record without its end."""
        if not self.holding:
            return b""
        held, self._held = self._held, b""
        return held

    def close(self) -> bytes:
        """The rest, at the end of the input."""
        held, self._held = self._held, b""
        return self._line(held)

    def _line(self, line: bytes) -> bytes:
        """The line, or what stands before a hidden record in it: a progress bar ends without a line end."""
        record = _RECORD.search(line)
        if record is None or not self._hides(record, line):
            return line
        return line[: record.start()]

    def _hides(self, record: re.Match[bytes], line: bytes) -> bool:
        quiet = record["level"] in b"VI"
        artifact = record["artifact"]
        if artifact is not None:
            return artifact in (self._artifacts if quiet else self._warnings)
        if quiet:
            return self._untagged
        return self._trace_paths and _TRACE_SOURCE in record[0] and _TRACE_PATH in line
