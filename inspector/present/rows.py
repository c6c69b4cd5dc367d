"""What a table's row stands for: typed references, by which rows are told apart and gone to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in a list of runs, by the path that is shown of it."""

    shown: str


@dataclass(frozen=True, slots=True)
class GraphRow:
    """A compiled graph, by what is unique in its run."""

    ident: str


@dataclass(frozen=True, slots=True)
class EventRow:
    """A graph break or recompile, by its position in `events_of`."""

    number: int


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A finding, by its position in the explanation."""

    number: int


@dataclass(frozen=True, slots=True)
class AboutRow:
    """Something about the run as a whole, by its position in what `about_run` tells."""

    number: int


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A scheduler node."""

    name: str


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A line of a remark in place of rows."""

    number: int


@dataclass(frozen=True, slots=True)
class PastRow:
    """A command that was captured before, by its position, newest first."""

    number: int


@dataclass(frozen=True, slots=True)
class KernelRow:
    """A kernel's definition."""

    name: str


@dataclass(frozen=True, slots=True)
class CallRow:
    """A launch, by its number in the wrapper."""

    index: int


@dataclass(frozen=True, slots=True)
class MissRow:
    """A missed fusion, by its position in the report's."""

    position: int


@dataclass(frozen=True, slots=True)
class TraceRow:
    """A row of the trace's list, by what `trace_table` calls its spot."""

    name: str
