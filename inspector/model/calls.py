"""Calls of compiled callables, timed inside the user's process, and what happened on the way."""

from __future__ import annotations

from typing import Literal

from inspector.frozen import dataclass

from .load import GpuLoad, LoadSample
from .problem import Problem
from .source import SourceLocation
from .state import ProcessState

Variant = Literal["captured", "compiled", "eager"]
"""`captured`: with all debug output on. `compiled`: without any. `eager`: Dynamo disabled."""

BASELINE_VARIANTS: tuple[Variant, ...] = ("compiled", "eager")
"""Those that only `capture --baseline` runs, in this order."""


Outcome = Literal["faster", "slower", "same", "unknown"]
Sizes = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CompiledCallable:
    """One result of ``torch.compile`` and its outermost calls, each synchronised with its device.

    `order` counts the process's ``torch.compile`` calls from 0, and with `name` and `location` (where the
    user called torch.compile) matches the same callable across variants. `cold_ms` are the calls during
    which Dynamo worked (the first, recompiles), in order with their index in `cold_index`; `steady_ms` the
    others, in order, the newest 1,000 at most. `first_ms` is the first call's time, whichever it is.
    `total_ms` is the sum over all calls, `setup_ms` the time in ``torch.compile`` itself, which imports
    Dynamo. Calls beyond the limit of recorded cold ones are in neither list, but in `calls` and `total_ms`.

    `kind` is `backward` for the line of a program that runs a backward pass after a call with gradients:
    compiled code runs in it too, and whatever else is differentiated there. `order` counts those apart.
    """

    name: str
    location: SourceLocation | None
    order: int
    mode: str | None
    backend: str | None
    calls: int
    first_ms: float | None
    cold_ms: tuple[float, ...]
    cold_index: tuple[int, ...]
    steady_ms: tuple[float, ...]
    total_ms: float
    device: str | None = None
    grad: bool | None = None
    """Whether gradients were recorded in the (last) call."""
    training: bool | None = None
    """The module's own `training` flag; None for a function."""
    kind: Literal["call", "backward"] = "call"
    setup_ms: float = 0.0
    states: tuple[int, ...] = ()
    """Positions in `ProcessState.states` of those that it was called in, in order."""

    sizes: tuple[Sizes, ...] = ()
    """Different sizes that steady calls had: how gradients and the module were set, each tensor's sizes
    (`8x512`), flags and words, in the order of the arguments. Those of a backward pass are its call's."""
    steady_sizes: tuple[int, ...] = ()
    """For each of `steady_ms` its position in `sizes`, beyond them where there were too many; empty where
    the recorder did not look."""
    steady_faults: tuple[int, ...] = ()
    """For each of `steady_ms` how many pages of memory the process got and touched (minor page faults of all
    its threads); empty where the recorder did not look."""
    span: tuple[int, int] | None = None
    """Its first and its last call, counted over all calls of the process; None of one that was not called,
    and where the recorder did not count."""


@dataclass(frozen=True, slots=True)
class Steady:
    """Calls during which nothing was compiled, in milliseconds: median, interquartile range, count. Of calls
    in groups the mean of their medians, and the range that gives its confidence interval."""

    median_ms: float
    iqr_ms: float
    count: int


@dataclass(frozen=True, slots=True)
class CallGroup:
    """Steady calls of one callable which take as long as each other and longer or shorter than the others.
    `sizes` is what tells them apart, of the first of `alike`: all sizes that the group has."""

    sizes: Sizes
    alike: tuple[Sizes, ...]
    compiled: Steady
    eager: Steady | None
    outcome: Outcome

    @property
    def lost_ms(self) -> float:
        """What its calls together take longer than in eager."""
        each = self.compiled.median_ms - self.eager.median_ms if self.eager is not None else 0.0
        return self.compiled.count * each


@dataclass(frozen=True, slots=True)
class Event:
    """Something that torch did besides compiling: `kind` says what, `reason` why, in torch's words.

    `graph_break`: a frame was split. `skipped_frame`: Dynamo gave the whole frame up, as for a break in a
    loop. `recompile`: a guard failed, `reason` is the guard. `cudagraph_skip`: CUDA graphs were asked for and
    not used. `compile_error`: compiling failed and the frame ran in eager (suppressed errors), or, with
    `raised`, the program got the exception. `cache_limit`: too many recompiles, the frame runs in eager from
    now on. `location` is the user's line, `frame` the function's name; equal events are one with its `count`.
    """

    kind: Literal[
        "graph_break", "skipped_frame", "recompile", "cudagraph_skip", "compile_error", "cache_limit"
    ]
    reason: str
    frame: str | None
    location: SourceLocation | None
    count: int = 1
    raised: bool = False


@dataclass(frozen=True, slots=True)
class GraphRuns:
    """How often one compiled graph ran inside timed calls, and the newest of its times: those of the host,
    which on a CPU are all. `graph` is the folder's name, `process` that of the ``run_*-pid_P`` folder.

    `state` is the position in `ProcessState.states` of the one that it first ran in: AOTAutograd turns
    autocast off around a graph, so that this is not the state of the call. `same` are the positions of those
    of its `given` arguments that were the same, unchanged, in `seen` runs. `subnormal` has positions of
    arguments with the part of their elements, above 0, that were subnormal numbers when last looked at;
    `sizes` has those of symbolic sizes with their mean. `asked` has the shapes of the tensors whose gradients
    alone its runs in backward passes were to give; empty where one was to give those of all leaves."""

    graph: str
    process: str
    runs: int
    ms: tuple[float, ...]
    state: int | None = None
    seen: int = 0
    given: int = 0
    same: tuple[int, ...] = ()
    subnormal: tuple[tuple[int, float], ...] = ()
    sizes: tuple[tuple[int, float], ...] = ()
    asked: tuple[tuple[int, ...], ...] = ()
    trained: int | None = None
    """How many of its runs were in calls with gradients, or in backward passes; None where nobody counted."""
    span: tuple[int, int] | None = None
    """The first and the last call that it ran in, as `CompiledCallable.span` counts them."""


@dataclass(frozen=True, slots=True)
class SteadySpan:
    """From the end of a process's newest call that compiled to the end of its newest call of all, without the
    three longest times between two calls: `calls` of all its callables and backward passes, which took
    `inside_ms` of it with what the recorder did. Of so many `looks` at the program between two calls `lines`
    has at which lines of the user's it was how often, the most frequent ones."""

    calls: int
    span_ms: float
    inside_ms: float
    looks: int = 0
    lines: tuple[tuple[SourceLocation, int], ...] = ()

    @property
    def outside(self) -> float:
        """The share of it that the program spent elsewhere."""
        return max(1.0 - self.inside_ms / self.span_ms, 0.0) if self.span_ms > 0 else 0.0


@dataclass(frozen=True, slots=True)
class ProcessCalls:
    """What one process's recorder says about calls. `counters` are torch's own
    (``torch._dynamo.utils.counters`` flattened: "stats.unique_graphs", "frames.total", ...)."""

    pid: int | None
    rank: int | None
    callables: tuple[CompiledCallable, ...] = ()
    events: tuple[Event, ...] = ()
    counters: tuple[tuple[str, int], ...] = ()
    graph_runs: tuple[GraphRuns, ...] = ()
    disabled: str | None = None
    """The variable that turned torch.compile off in the process."""
    state: ProcessState | None = None
    wrappers: tuple[tuple[str, str], ...] = ()
    """Of decorators' functions that Dynamo worked on: the place, as PATH:LINE, and what each wraps."""
    """None in records of a recorder that did not look."""
    load: tuple[LoadSample, ...] = ()
    """From the first steady call to the last line that was written."""
    steady_span: SteadySpan | None = None

    def counter(self, name: str) -> int | None:
        return dict(self.counters).get(name)


@dataclass(frozen=True, slots=True)
class VariantRun:
    """The user's command, run once in one of the three ways. `wall_s` is the whole command's time."""

    variant: Variant
    exit_code: int | None
    wall_s: float
    processes: tuple[ProcessCalls, ...]
    problems: tuple[Problem, ...] = ()
    gpus: tuple[tuple[str, GpuLoad], ...] = ()
    """Those that the command used, by the driver's number."""
    profiled: tuple[ProcessCalls, ...] = ()
    """The processes of the run in which this way's steady calls were profiled; none of the captured one."""
