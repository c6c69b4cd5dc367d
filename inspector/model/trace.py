"""A TORCH_TRACE structured log (torch/_logging/_internal.py: trace_structured), tlparse's input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from inspector.frozen import dataclass

from .problem import Problem


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One envelope.

    `kind` is the envelope's first key (``dynamo_start``, ``artifact``, ...), `data` its value;
    `name` the artifact's name, empty for other kinds. `payload` is the byte range of the payload
    lines in the file, None without one; `digest` the md5 that torch wrote. `line` is the envelope's.
    """

    kind: str
    name: str
    data: Any
    line: int
    time: str
    process: str
    rank: int | None
    compile_id: str | None
    attempt: int
    payload: tuple[int, int] | None
    digest: str | None

    @property
    def label(self) -> str:
        """The artifact's name, or the kind of what is none."""
        return self.name or self.kind


@dataclass(frozen=True, slots=True)
class Trace:
    """All events of one file in order, and the table of file names (``{"str": [TEXT, 7]}``)."""

    path: str
    events: tuple[TraceEvent, ...]
    strings: Mapping[int, str]
    rank: int | None = None
    problems: tuple[Problem, ...] = ()

    def of_kind(self, kind: str) -> tuple[TraceEvent, ...]:
        return tuple(event for event in self.events if event.kind == kind)

    def artifacts(self, name: str) -> tuple[TraceEvent, ...]:
        return tuple(event for event in self.events if event.name == name)


@dataclass(frozen=True, slots=True)
class TracedGraph:
    """One Inductor compilation as its trace events show it: how a bare trace opens as a run.

    `name` is unique in the trace: ``model__0_forward`` from the AOT id ``0_forward``, else made of
    the compile id. `occurrence` counts the compilations of one compile id and attempt from 0.
    `files` pairs the names of a compiled-graph folder's files with the events that hold their text.
    """

    name: str
    phase: Literal["forward", "backward", "inference", "unknown"]
    aot_id: str | None
    compile_id: str | None
    attempt: int
    occurrence: int
    files: tuple[tuple[str, TraceEvent], ...]
