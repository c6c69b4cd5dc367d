"""A TORCH_TRACE file on disk: read once, indexed once, payloads decoded when asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from inspector.model.problem import Problem, Read
from inspector.model.trace import Trace, TraceEvent

from .text import read_bytes

if TYPE_CHECKING:
    from inspector.model.compilation import TraceContent
    from inspector.model.compile_time import Timeline


class TraceFile:
    """`data` is the whole file; `trace` its events, whose payloads are ranges of `data`."""

    def __init__(self, path: Path, label: str) -> None:
        self.path = path
        self.label = label

    @cached_property
    def _bytes(self) -> Read[bytes]:
        return read_bytes(self.path, self.label)

    @property
    def data(self) -> bytes:
        return self._bytes[0]

    @cached_property
    def trace(self) -> Trace:
        from .trace import read_trace

        return read_trace(self.data, self.label)

    @cached_property
    def content(self) -> TraceContent:
        """What the events say, by compilation."""
        from .compilations import read_content

        return read_content(self.trace, self.data)

    @cached_property
    def timeline(self) -> Timeline:
        """The timed sections of compilation."""
        from .chromium import read_timeline

        return read_timeline(self.trace, self.data)

    @property
    def process(self) -> str | None:
        """The process id that wrote the file, None for an empty one."""
        return next((event.process for event in self.trace.events), None)

    @property
    def problems(self) -> tuple[Problem, ...]:
        return (*self._bytes[1], *self.trace.problems)

    def payload(self, event: TraceEvent) -> str:
        from .trace import payload

        return payload(self.data, event)

    def reader(self, event: TraceEvent) -> Callable[[], Read[str]]:
        """A function that decodes one payload, as `artifacts.TextReader`."""
        return lambda: (self.payload(event), ())
