"""Timed sections of a trace: the ``chromium_event`` payloads, paired to spans.

torch/_dynamo/utils.py (ChromiumEventLogger) writes Chrome's trace format: ``{"name": "dynamo",
"ts": 1795237721949864.2, "ph": "B", ...}`` with times in microseconds since the epoch, ``B`` and
``E`` for a beginning and an end, ``X`` with a duration for a whole section, ``i`` for an instant.
Process and thread are always 0, although sections of other threads are among them.
"""

from __future__ import annotations

import math
from typing import Any

from inspector.model.compile_time import Timeline, TimeSpan
from inspector.model.problem import Problem
from inspector.model.trace import Trace, TraceEvent

from .text import from_json, number

# A cache miss is an instant with the whole cache key in its arguments; its phase is near the end.
_LONG_PAYLOAD = 8192
_TAIL = 256
_INSTANT = b'"ph": "i"'

_MAX_NAMED = 3


def read_timeline(trace: Trace, data: bytes) -> Timeline:
    """All spans of a trace. Beginnings without an end last until the last time seen, and are named
    in a problem, as are ends without a beginning and payloads that are not events."""
    pairing = _Pairing(trace.path)
    for event in trace.events:
        if event.kind == "chromium_event" and event.payload is not None:
            start, stop = event.payload
            if stop - start > _LONG_PAYLOAD and data.find(_INSTANT, stop - _TAIL, stop) >= 0:
                continue
            pairing.add(event, _load(data[start:stop]))
    return pairing.timeline()


def _load(raw: bytes) -> object:
    # The tab before each payload line is white space to JSON, whose strings hold no line ends.
    try:
        return from_json(raw)
    except ValueError:
        return None


_Key = tuple[str, str | None]
_Open = tuple[float, int, str, int]


class _Pairing:
    """Beginnings that wait for their ends, by name and compile id: the last begun ends first."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._open: dict[_Key, list[_Open]] = {}
        self._spans: list[tuple[int, str, str | None, float, float, int, bool, str]] = []
        self._order = 0
        self._last = -math.inf
        self._bad: list[int] = []
        self._endless: list[tuple[str, int]] = []

    def add(self, event: TraceEvent, value: object) -> None:
        fields = value if isinstance(value, dict) else {}
        match fields:
            case {"name": str(name), "ts": stamp, "ph": str(phase)}:
                time = number(stamp)
            case _:
                time = None
        if time is None:
            self._bad.append(event.line)
            return
        arguments = fields.get("args")
        arguments = arguments if isinstance(arguments, dict) else {}
        compile_id = _compile_id(event, arguments)
        key = (name, compile_id)
        if phase in "BEX":
            self._last = max(self._last, time)
        if phase == "B":
            self._order += 1
            self._open.setdefault(key, []).append((time, event.line, _detail(arguments), self._order))
        elif phase == "E":
            waiting = self._open.get(key)
            if not waiting:
                self._endless.append((name, event.line))
                return
            start, line, detail, order = waiting.pop()
            self._spans.append((order, name, compile_id, start, max(start, time), line, True, detail))
        elif phase == "X":
            end = time + max(number(fields.get("dur")) or 0.0, 0.0)
            self._last = max(self._last, end)
            self._order += 1
            detail = _detail(arguments)
            self._spans.append((self._order, name, compile_id, time, end, event.line, True, detail))

    def timeline(self) -> Timeline:
        unclosed = [
            (name, line, compile_id, start, detail, order)
            for (name, compile_id), waiting in self._open.items()
            for start, line, detail, order in waiting
        ]
        unclosed.sort(key=lambda item: item[1])
        for name, line, compile_id, start, detail, order in unclosed:
            self._spans.append((order, name, compile_id, start, self._last, line, False, detail))
        origin = min((item[3] for item in self._spans), default=0.0)
        spans = [
            TimeSpan(name, compile_id, _ns(start - origin), _ns(end - origin), line, closed, detail)
            for _, name, compile_id, start, end, line, closed, detail in sorted(self._spans)
        ]
        return Timeline(tuple(spans), tuple(self._problems([(name, line) for name, line, *_ in unclosed])))

    def _problems(self, unclosed: list[tuple[str, int]]) -> list[Problem]:
        problems = []
        if unclosed:
            names = _names([name for name, _ in unclosed])
            text = f"{_count(len(unclosed), 'timed section')} without an end, as in a log cut off: {names}"
            problems.append(Problem(self._path, unclosed[0][1], text))
        if self._endless:
            names = _names([name for name, _ in self._endless])
            text = f"{_count(len(self._endless), 'end')} of timed sections without a beginning: {names}"
            problems.append(Problem(self._path, self._endless[0][1], text))
        if self._bad:
            text = f"{_count(len(self._bad), 'chromium event')} that cannot be read"
            problems.append(Problem(self._path, self._bad[0], text))
        return problems


def _compile_id(event: TraceEvent, arguments: dict[str, Any]) -> str | None:
    """From the arguments, which say ``None`` for a thread without a compile id; else the envelope's."""
    told = arguments.get("compile_id")
    if isinstance(told, str):
        return None if told == "None" else told
    return event.compile_id


def _detail(arguments: dict[str, Any]) -> str:
    kernel = arguments.get("kernel_name")
    return kernel if isinstance(kernel, str) else ""


def _ns(microseconds: float) -> int:
    return round(microseconds * 1000)


def _names(names: list[str]) -> str:
    distinct = list(dict.fromkeys(names))
    return ", ".join(distinct[:_MAX_NAMED]) + (", ..." if len(distinct) > _MAX_NAMED else "")


def _count(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
