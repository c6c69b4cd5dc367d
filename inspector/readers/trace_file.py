"""A TORCH_TRACE file on disk: read once, indexed once, payloads decoded when asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from inspector.model.problem import Problem, Read
from inspector.model.trace import Trace, TraceEvent

from .text import guarded, read_bytes

if TYPE_CHECKING:
    from inspector.model.compilation import TraceContent
    from inspector.model.compile_time import Timeline


_T = TypeVar("_T")


class TraceFile:
    """`data` is the whole file; `trace` its events, whose payloads are ranges of `data`."""

    def __init__(self, path: Path, label: str) -> None:
        self.path = path
        self.label = label
        self._failed: list[Problem] = []

    @cached_property
    def _bytes(self) -> Read[bytes]:
        return read_bytes(self.path, self.label)

    @property
    def data(self) -> bytes:
        return self._bytes[0]

    @cached_property
    def trace(self) -> Trace:
        from .trace import read_trace

        return self.guarded(lambda: read_trace(self.data, self.label), Trace(self.label, (), {}), "it")

    @cached_property
    def content(self) -> TraceContent:
        """What the events say, by compilation."""
        from inspector.model.compilation import TraceContent

        from .compilations import read_content

        nothing = TraceContent(self.label, None, "", (), ())
        return self.guarded(lambda: read_content(self.trace, self.data), nothing, "its compilations")

    @cached_property
    def timeline(self) -> Timeline:
        """The timed sections of compilation."""
        from inspector.model.compile_time import Timeline

        from .chromium import read_timeline

        return self.guarded(lambda: read_timeline(self.trace, self.data), Timeline(()), "its timeline")

    def guarded(self, read: Callable[[], _T], instead: _T, what: str) -> _T:
        """What `read` makes of the file, or `instead`, and that among its problems."""
        value, failed = guarded(read, instead, self.label, what)
        self._failed += (problem for problem in failed if problem not in self._failed)
        return value

    @property
    def process(self) -> str | None:
        """The process id that wrote the file, None for an empty one."""
        return next((event.process for event in self.trace.events), None)

    @property
    def problems(self) -> tuple[Problem, ...]:
        return (*self._bytes[1], *self.trace.problems, *self._failed)

    def payload(self, event: TraceEvent) -> str:
        from .trace import payload

        return payload(self.data, event)

    def reader(self, event: TraceEvent) -> Callable[[], Read[str]]:
        """A function that decodes one payload, as `artifacts.TextReader`."""
        return lambda: (self.payload(event), ())
