"""What a table's row stands for: typed references, by which rows are told apart and gone to."""

from __future__ import annotations

from typing import Literal

from inspector.frozen import dataclass


@dataclass(frozen=True, slots=True)
class _Named:
    name: str


@dataclass(frozen=True, slots=True)
class _Numbered:
    number: int


class RunRow(_Named):
    """A run in a list of runs, by the path that is shown of it."""


class GraphRow(_Named):
    """A compiled graph, by what is unique in its run."""


class NodeRow(_Named):
    """A scheduler node."""


class KernelRow(_Named):
    """A kernel's definition."""


class TraceRow(_Named):
    """A row of the trace's list, by what `trace_table` calls its spot."""


class EventRow(_Numbered):
    """A graph break or recompile, by its position in `events_of`."""


class AboutRow(_Numbered):
    """Something about the run as a whole, by its position in what `about_run` tells."""


class FoundRow(_Numbered):
    """A line that was searched for, by its position in the results."""


class MessageRow(_Numbered):
    """A line of a remark in place of rows."""


class PastRow(_Numbered):
    """A command that was captured before, by its position, newest first."""


class CallRow(_Numbered):
    """A launch, by its number in the wrapper."""


class MissRow(_Numbered):
    """A missed fusion, by its position in the report's."""


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """A graph or a kernel of two runs by its place in the comparison, or all that differs."""

    kind: Literal["all", "graph", "kernel"]
    number: int
