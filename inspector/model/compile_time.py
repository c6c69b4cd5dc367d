"""Where compilation spent its time, as a tree of timed sections.

torch/_dynamo/utils.py (dynamo_timed, ChromiumEventLogger) writes a ``chromium_event`` at the
beginning and the end of each section. All times are whole nanoseconds after the first one of the
trace, so that sums are exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from inspector.frozen import dataclass

from .problem import Problem

Part = Literal[
    "dynamo",
    "guards",
    "aot",
    "passes",
    "lowering",
    "scheduling",
    "codegen",
    "kernels",
    "autotuning",
    "cache",
    "cudagraphs",
    "other",
]

PARTS: Mapping[Part, str] = {
    "dynamo": "Dynamo tracing",
    "guards": "guards",
    "aot": "AOTAutograd",
    "passes": "Inductor graph passes",
    "lowering": "Inductor lowering",
    "scheduling": "Inductor scheduling",
    "codegen": "Inductor codegen",
    "kernels": "compiling kernels",
    "autotuning": "autotuning",
    "cache": "cache lookups",
    "cudagraphs": "CUDA graphs",
    "other": "the rest",
}
"""Every part with its name for people, in the order in which compilation comes to them."""


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """One section from `start_ns` to `end_ns`. `line` is the envelope of its beginning.

    `closed` is False where the log has no end for it; it then lasts until the log ends.
    """

    name: str
    compile_id: str | None
    start_ns: int
    end_ns: int
    line: int
    closed: bool = True
    detail: str = ""
    """The kernel that is compiled or timed, where torch names it."""

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class Timeline:
    """The timed sections of one trace, in order of their beginning."""

    spans: tuple[TimeSpan, ...]
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class TimeNode:
    """A section with those inside it. `self_ns` is its time outside its children."""

    span: TimeSpan
    part: Part
    self_ns: int
    children: tuple[TimeNode, ...] = ()


@dataclass(frozen=True, slots=True)
class CompileTime:
    """The time of one compile id, or of a whole trace (`compile_id` None).

    `parts` sums self times and adds up to `total_ns`. `phases` is the time inside tracing the joint
    graph, compiling the forward and compiling the backward graph, everything below them included.
    `first_run_ns` is the share of `total_ns` spent after compilation, when the code first ran
    (autotuning, recording CUDA graphs). `parallel_ns` is time of threads beside the main one, which
    waits for them; it is no part of the total. `source` is `metrics` for traces without timed
    sections (2.5 and older), whose few numbers are nested the same way.
    """

    compile_id: str | None
    total_ns: int
    parts: Mapping[Part, int]
    phases: Mapping[str, int]
    first_run_ns: int = 0
    parallel_ns: int = 0
    roots: tuple[TimeNode, ...] = ()
    source: Literal["events", "metrics"] = "events"
    complete: bool = True


@dataclass(frozen=True, slots=True)
class CompileTimes:
    """All compile ids in the order in which they began, and their sum."""

    ids: Mapping[str, CompileTime] = field(default_factory=dict)
    total: CompileTime = field(default_factory=lambda: CompileTime(None, 0, {}, {}))
