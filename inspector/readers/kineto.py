"""A profiler's trace in Chrome's format, as ``torch.profiler`` exports it through Kineto.

libkineto/src/output_json.cpp writes ``{"schemaVersion": 1, ..., "traceEvents": [...]}``; the categories are
in libkineto/include/ActivityType.h. Complete events (``"ph": "X"``) are read; what flows say, the
correlation ids and sequence numbers say too.
"""

from __future__ import annotations

import gzip
import math
import os
import zlib
from collections.abc import Mapping
from dataclasses import replace
from io import BufferedIOBase
from pathlib import Path
from typing import Any, cast

from inspector.files import open_plain
from inspector.model.problem import InspectorError, Problem
from inspector.model.profile import STEP_MARK, DeviceEvent, DeviceKind, HostEvent, HostKind, Profile

from .json_stream import JsonItems
from .locate import is_archive
from .text import collection_paused, number

EVENTS = "traceEvents"
_GZIP = b"\x1f\x8b"
_HEAD = 4096
_MOST_RATIO = 200
"""Those of real programs stay below 40."""
_MOST_FOR_FREE = 16 << 20

_HOST: dict[str, HostKind] = {
    "cpu_op": "operator",
    "user_annotation": "annotation",
    "cuda_runtime": "runtime",
    "cuda_driver": "runtime",
    "privateuse1_runtime": "runtime",
    "xpu_runtime": "runtime",
    "python_function": "python",
}
_DEVICE: dict[str, DeviceKind] = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}


def is_kineto(path: Path) -> bool:
    """Whether a file looks like a Chrome trace, by its beginning; no archive of a run does."""
    if is_archive(path):
        return False
    try:
        with open_trace(path) as stream:
            head = stream.read(_HEAD)
    except (OSError, EOFError, zlib.error):
        return False
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith(b"["):
        return b'"ph"' in text
    return text.startswith(b"{") and (b'"traceEvents"' in text or b'"schemaVersion"' in text)


def open_trace(path: Path) -> BufferedIOBase:
    """The file's bytes, unpacked where they are gzip's."""
    with open_plain(path) as stream:
        packed = stream.read(2) == _GZIP
    return _Unpacked(path, "rb") if packed else cast(BufferedIOBase, open_plain(path))


class _Unpacked(gzip.GzipFile):
    """Ends with an OSError where it yields far more than traces do for their size."""

    def read1(self, size: int = -1) -> bytes:
        data = super().read1(size)
        if self.tell() > max(_MOST_FOR_FREE, _MOST_RATIO * os.fstat(self.fileno()).st_size):
            raise OSError(f"unpacks to more than {_MOST_RATIO} times its size")
        return data


def load_profile(path: Path, label: str = "") -> tuple[Profile, tuple[Problem, ...]]:
    """The profile in a file that the user named; InspectorError where it can't be opened or is none."""
    label = label or str(path)
    try:
        with open_trace(path) as stream:
            profile, problems = read_profile(stream, label)
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InspectorError(f"{path}: {reason or 'cannot be read'}") from error
    if not profile.host and not profile.device:
        why = f" ({problems[0].message})" if problems else ""
        raise InspectorError(f"{path}: not a profiler trace: no event of torch.profiler in it{why}")
    return profile, problems


def read_profile(stream: BufferedIOBase, label: str) -> tuple[Profile, tuple[Problem, ...]]:
    """Every event of a trace; `label` names it in problems. Never raises for what is in the text: a trace
    that was cut off gives what came before, and a problem."""
    with collection_paused():
        collected = _Collected()
        items = JsonItems(stream, EVENTS)
        try:
            for item in items:
                collected.add(item)
        except zlib.error as error:
            items.problem = str(error)
        profile = collected.profile(label, items.rest)
    problems = [Problem(label, None, items.problem)] if items.problem else []
    if collected.strange:
        problems.append(Problem(label, None, f"{collected.strange} events of a trace that cannot be read"))
    return profile, tuple(problems)


class _Collected:
    """Events as they come, with times as they stand in the file."""

    def __init__(self) -> None:
        self.strange = 0
        self._names: dict[str, str] = {}
        self._host: list[HostEvent] = []
        self._device: list[DeviceEvent] = []

    def add(self, item: object) -> None:
        if not isinstance(item, dict):
            self.strange += 1
            return
        category = item.get("cat")
        if item.get("ph") == "X" and (category in _HOST or category in _DEVICE):
            self._section(item, category)

    def _section(self, item: dict[str, Any], category: str) -> None:
        name, start, duration = item.get("name"), number(item.get("ts")), number(item.get("dur"))
        if not isinstance(name, str) or start is None:
            self.strange += 1
            return
        name = self._names.setdefault(name, name)
        args = item.get("args")
        args = args if isinstance(args, dict) else {}
        thread = _integer(item.get("tid")) or 0
        external = _integer(args.get("External id", args.get("external id")))
        correlation = _integer(args.get("correlation"))
        duration = max(duration or 0.0, 0.0)
        if category in _DEVICE:
            stream = _integer(args.get("stream"))
            event = DeviceEvent(
                _DEVICE[category], name, _integer(args.get("device")) or 0,
                thread if stream is None else stream,
                start, duration, -1, -1, external, correlation, _programs(args.get("grid")),
            )  # fmt: skip
            self._device.append(event)
            return
        file = args.get("kernel_file")
        section = HostEvent(
            _HOST[category], name, thread, start, duration, -1, external, correlation,
            _integer(args.get("Sequence number")), _integer(args.get("Fwd thread id")) or 0,
            file if isinstance(file, str) else None,
        )  # fmt: skip
        self._host.append(section)

    def profile(self, label: str, rest: Mapping[str, Any]) -> Profile:
        starts = [event.start for event in self._host] + [event.start for event in self._device]
        origin = min(starts, default=0.0)
        order = sorted(self._host, key=lambda event: (event.thread, event.start, -event.duration))
        host = _nested(order, origin)
        operators, launches = _by_id(host)
        device = [
            replace(
                event,
                start=event.start - origin,
                operator=operators.get(event.external, -1) if event.external is not None else -1,
                launch=launches.get(event.correlation, -1) if event.correlation is not None else -1,
            )
            for event in sorted(self._device, key=lambda event: event.start)
        ]
        return Profile(
            label,
            tuple(host),
            tuple(device),
            _device_names(rest),
            _rank(rest),
            _multiprocessors(rest),
        )


def _nested(order: list[HostEvent], origin: float) -> list[HostEvent]:
    """Each section with the one around it, by time on its thread, and with times from `origin` on. A mark of
    a profiler's step is none: it begins where the last one ends, in whatever section that is."""
    nested: list[HostEvent] = []
    open_: list[int] = []
    thread: int | None = None
    for event in order:
        if event.thread != thread:
            thread, open_ = event.thread, []
        start = event.start - origin
        while open_ and start >= nested[open_[-1]].end:
            open_.pop()
        mark = event.kind == "annotation" and event.name.startswith(STEP_MARK)
        nested.append(replace(event, start=start, parent=open_[-1] if open_ and not mark else -1))
        if not mark:
            open_.append(len(nested) - 1)
    return nested


def _by_id(host: list[HostEvent]) -> tuple[dict[int, int], dict[int, int]]:
    """External id -> operator or annotation; correlation -> runtime call."""
    operators: dict[int, int] = {}
    launches: dict[int, int] = {}
    for position, event in enumerate(host):
        if event.kind == "runtime":
            if event.correlation is not None:
                launches.setdefault(event.correlation, position)
        elif event.external is not None:
            operators.setdefault(event.external, position)
    return operators, launches


def _device_names(rest: Mapping[str, Any]) -> tuple[str, ...]:
    devices = rest.get("deviceProperties")
    if not isinstance(devices, list):
        return ()
    return tuple(str(device["name"]) for device in devices if isinstance(device, dict) and device.get("name"))


def _multiprocessors(rest: Mapping[str, Any]) -> int | None:
    devices = rest.get("deviceProperties")
    first = devices[0] if isinstance(devices, list) and devices else None
    return _integer(first.get("numSms")) if isinstance(first, dict) else None


def _programs(grid: object) -> int | None:
    """``"grid": [1568, 3, 1]`` is so many programs."""
    sizes = [_integer(size) for size in grid] if isinstance(grid, list) and grid else [None]
    known = [size for size in sizes if size is not None]
    return math.prod(known) if len(known) == len(sizes) else None


def _rank(rest: Mapping[str, Any]) -> int | None:
    info = rest.get("distributedInfo")
    return _integer(info.get("rank")) if isinstance(info, dict) else None


def _integer(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return int(value)
    except (ValueError, OverflowError):
        return None
