"""A TORCH_TRACE file: envelopes indexed, payloads left as byte ranges until they are asked for.

torch/_logging/_internal.py (trace_structured, TorchLogsFormatter) writes an envelope line,
``V1121 05:02:31.274000 12661 torch/_dynamo/utils.py:2009] {"dynamo_start": ..., "frame_id": 0}``,
and after it the payload, each line behind one tab. ``has_payload`` is the md5 of the payload as it
was before the tabs.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from inspector.frozen import dataclass
from inspector.model.problem import Problem
from inspector.model.trace import Trace, TraceEvent

from .text import from_json

# The beginning of a line that no payload can have: payload lines begin with a tab.
_LINE_WITHOUT_TAB = re.compile(rb"\n(?=[^\t\r\n])")
# V1121 05:02:31.274000 12661 torch/_dynamo/utils.py:2009] {"artifact": ...}
_ENVELOPE = re.compile(r"[VIWEC](\d{4} \d\d:\d\d:\d\d\.\d+) (\d+) .*?:\d+\] (?=\{)")
# dedicated_log_torch_trace_rank_3_8x2k1v.log
_RANK_IN_NAME = re.compile(r"_rank_(\d+)_[^/\\]*$")

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_trace(data: bytes, path: str) -> Trace:
    """Index a whole file; `path` names it in problems and may carry the rank.

    Never raises. Every line belongs to an event, to an event's payload or to a problem; blank lines
    count as payload where one is expected. Payload ranges are without the last line end.
    """
    index = _Index(path)
    starts = [match.end() for match in _LINE_WITHOUT_TAB.finditer(data)]
    first = len(_BYTE_ORDER_MARK) if data.startswith(_BYTE_ORDER_MARK) else 0
    if data[first : first + 1] not in (b"\t", b"\r", b"\n", b""):
        starts.insert(0, first)
    line = 1
    if not starts or starts[0] > first:
        index.orphan(data, first, starts[0] if starts else len(data), line)
    position = first
    for start, stop in zip(starts, [*starts[1:], len(data)], strict=False):
        line += data.count(b"\n", position, start)
        position = start
        index.add(data, start, stop, line)
    index.flush()
    index.end(data)
    return Trace(path, tuple(index.events), index.strings, index.rank, tuple(index.problems))


def payload(data: bytes, event: TraceEvent) -> str:
    """The event's payload as torch wrote it; empty without one. Undecodable bytes are replaced."""
    return raw_payload(data, event).decode("utf-8", errors="replace").replace("\r\n", "\n")


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An event in its trace, whose `data` are the file's bytes."""

    trace: Trace
    data: bytes
    event: TraceEvent

    @property
    def text(self) -> str:
        return payload(self.data, self.event)


def compile_id_of(envelope: Mapping[str, Any]) -> str | None:
    """The id as torch prints it (torch/_guards.py, CompileId): ``0/0``, ``!0/0/0`` or ``!0``."""
    frame, count = envelope.get("frame_id"), envelope.get("frame_compile_id")
    autograd = envelope.get("compiled_autograd_id")
    pair = f"{frame}/{count}" if frame is not None and count is not None else None
    if autograd is None:
        return pair
    return f"!{autograd}" if pair is None else f"!{autograd}/{pair}"


def raw_payload(data: bytes, event: TraceEvent) -> bytes:
    """The payload's bytes as torch hashed them; empty without one."""
    if event.payload is None:
        return b""
    raw = data[event.payload[0] : event.payload[1]]
    return raw.removeprefix(b"\t").replace(b"\n\t", b"\n")


def is_whole(data: bytes, event: TraceEvent) -> bool:
    """Whether the payload is what torch wrote, by its digest; true where there is none."""
    raw = raw_payload(data, event)
    return event.digest is None or hashlib.md5(raw, usedforsecurity=False).hexdigest() == event.digest


class _Index:
    """The events found so far. Adjoining lines that make no sense become one problem."""

    def __init__(self, path: str) -> None:
        self.path = path
        name = _RANK_IN_NAME.search(path)
        self.rank: int | None = int(name[1]) if name else None
        self.events: list[TraceEvent] = []
        self.strings: dict[int, str] = {}
        self.problems: list[Problem] = []
        self._strange: tuple[int, int] | None = None

    def orphan(self, data: bytes, start: int, stop: int, line: int) -> None:
        """Payload lines that no envelope announces."""
        count = _line_count(data, start, stop)
        if data[start:stop].strip():
            self.problems.append(Problem(self.path, line, f"{_lines(count)} of payload without an envelope"))

    def add(self, data: bytes, start: int, stop: int, line: int) -> None:
        """One line without a tab and the payload lines up to `stop`."""
        end = data.find(b"\n", start, stop)
        head = data[start : stop if end < 0 else end].decode("utf-8", errors="replace")
        match = _ENVELOPE.match(head)
        if match is None:
            self._strange_lines(line, _line_count(data, start, stop))
            return
        self.flush()
        body = (
            (end + 1, stop - 1 if data[stop - 1 : stop] == b"\n" else stop) if 0 <= end < stop - 1 else None
        )
        try:
            envelope = from_json(head[match.end() :])
        except ValueError as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
            what = "the log ends within an envelope" if end < 0 else f"the envelope is not JSON ({reason})"
            self.problems.append(Problem(self.path, line, what))
            envelope = None
        if not envelope:
            if body is not None:
                self.orphan(data, body[0], stop, line + 1)
            return
        self._event(data, envelope, match, line, body)

    def flush(self) -> None:
        """Report the strange lines that end here."""
        if self._strange is not None:
            first, count = self._strange
            self.problems.append(Problem(self.path, first, f"{_lines(count)} neither envelope nor payload"))
            self._strange = None

    def end(self, data: bytes) -> None:
        """A file that was cut ends within the payload of its last event. One that was packed has other paths
        in its payloads, so that more than one is not as it was written."""
        events = [event for event in self.events if event.payload is not None]
        last = events.pop() if events else None
        if last is None or last.payload is None or last.payload[1] < len(data) - 1 or is_whole(data, last):
            return
        if not data.endswith(b"\n") or (events and all(is_whole(data, event) for event in events)):
            what = f"the log is cut off within the payload of {last.kind}"
            self.problems.append(Problem(self.path, last.line, what))

    def _strange_lines(self, line: int, count: int) -> None:
        first, before = self._strange or (line, 0)
        self._strange = (first, before + count)

    def _event(
        self,
        data: bytes,
        envelope: dict[str, Any],
        match: re.Match[str],
        line: int,
        body: tuple[int, int] | None,
    ) -> None:
        kind, value = next(iter(envelope.items()))
        digest = envelope.get("has_payload")
        if digest is None and body is not None:
            self.orphan(data, body[0], body[1], line + 1)
            body = None
        elif digest is not None and body is None:
            self.problems.append(Problem(self.path, line, f"the payload of {kind} is missing"))
        name = value.get("name") if kind == "artifact" and isinstance(value, dict) else None
        rank = envelope.get("rank")
        if isinstance(rank, int) and self.rank is None:
            self.rank = rank
        attempt = envelope.get("attempt")
        event = TraceEvent(
            kind=kind,
            name=name if isinstance(name, str) else "",
            data=value,
            line=line,
            time=match[1],
            process=match[2],
            rank=rank if isinstance(rank, int) else self.rank,
            compile_id=compile_id_of(envelope),
            attempt=attempt if isinstance(attempt, int) else 0,
            payload=body,
            digest=digest if isinstance(digest, str) else None,
        )
        self.events.append(event)
        if kind == "str":
            self._intern(value, line)

    def _intern(self, value: object, line: int) -> None:
        """``{"str": ["/home/user/train.py", 7]}``: later stacks say ``"filename": 7``."""
        match value:
            case [str(text), int(number)]:
                self.strings[number] = text
            case _:
                self.problems.append(
                    Problem(self.path, line, "an entry of the string table is not a text and a number")
                )


def _line_count(data: bytes, start: int, stop: int) -> int:
    """Lines of a range, the last one with or without its line end."""
    return data.count(b"\n", start, stop) + (data[stop - 1 : stop] != b"\n")


def _lines(count: int) -> str:
    return f"{count} line" if count == 1 else f"{count} lines"
