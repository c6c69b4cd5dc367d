"""Results of re-running compiled code; the JSON contract's `inspector.replay/1` in plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from inspector.frozen import dataclass

Verdict = Literal["match", "compiled_closer", "eager_closer", "mismatch", "unverifiable"]

ValueKind = Literal["given", "ties", "wide", "special", "rows", "numbers", "solved"]
"""Kinds of values on which a launch was tried: those that the graph gives it, and others of its own."""

KIND_WORDS: Mapping[ValueKind, str] = {
    "given": "on the graph's own values",
    "ties": "on ties, zeros of both signs and the kernel's own constants",
    "wide": "on values of very different size",
    "special": "on NaN, infinities and the dtype's extremes",
    "rows": "on reduced rows of one sign, one value or infinities",
    "numbers": "on whole and half numbers, each at its own place, and what lies close to them",
    "solved": "on values at which what it computes on the way reaches a number, a bound or a tie",
}


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds: median and inter-quartile range over `rounds` interleaved rounds."""

    median_ms: float
    iqr_ms: float
    rounds: int

    def surely_less(self, other: Timing) -> bool:
        """Whether it is below the other beyond what both spread."""
        return self.median_ms + self.iqr_ms < other.median_ms - other.iqr_ms


@dataclass(frozen=True, slots=True)
class OutputCheck:
    """One output of the graph against the float64 reference.

    Errors are the largest absolute difference, over elements, from the reference; `tolerance` says
    rtol and atol used (torch.testing's defaults for the dtype). `reason` explains everything that
    is not `match`; it is never empty for `unverifiable`.
    """

    index: int
    verdict: Verdict
    reason: str = ""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    error_compiled: float | None = None
    error_eager: float | None = None
    rtol: float | None = None
    atol: float | None = None
    name: str = ""
    """The FX node that is returned, or the input that is written to."""
    kind: Literal["output", "mutated_input"] = "output"
    """Inputs that the graph writes to are numbered after its outputs."""
    elements: int | None = None
    outside_compiled: int | None = None
    """Elements outside the tolerance of the reference, non-finite ones included."""
    outside_eager: int | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """The indices from `first` to `last` of `of`, each `step`-th."""

    first: int
    last: int
    step: int
    of: int


@dataclass(frozen=True, slots=True)
class WorstElement:
    """The element of an output that is farthest from the reference, and where the wrong ones lie.

    `first` is the first wrong one; `ulps` the worst one's distance in units in the last place, `relative` as
    a part of the reference, None where those mean nothing. `picture` has the output as a matrix, its last
    axis across: in each part of it the share of wrong elements, from 0 to 8 eighths. `rows` and `columns` of
    that matrix in which there are wrong ones, None where they lie in no equal steps.
    """

    output: str
    index: tuple[int, ...]
    compiled: float | str
    eager: float | str
    reference: float | str
    first: tuple[int, ...] = ()
    ulps: float | None = None
    relative: float | None = None
    picture: tuple[str, ...] = ()
    rows: Steps | None = None
    columns: Steps | None = None


@dataclass(frozen=True, slots=True)
class Restrided:
    """A tensor of that size that a library reads or writes with other strides as compiled than in eager."""

    size: tuple[int, ...]
    compiled: tuple[int, ...]
    eager: tuple[int, ...]

    @property
    def told(self) -> str:
        """`[4, 3, 192, 192]: strides (110592, 36864, 192, 1) in eager, (110592, 1, 576, 3) compiled`."""
        return f"{list(self.size)}: strides {self.eager} in eager, {self.compiled} compiled"


@dataclass(frozen=True, slots=True)
class KernelReplay:
    """One launch of a graph's wrapper, run alone with the inputs that it really gets.

    `call` is `KernelCall.index`, `name` its kernel. `time` is device time between two events, as
    triton.testing.do_bench has it (on a CPU: time per call), None where the method gives none; `time_warm`
    the same with a warm L2 cache. `device_ms` is the median of `time` less what the events themselves take,
    as a profiler has it; None where that is not known. `method`: `device` ran the real
    kernel, `interpreter` ran it in Triton's on the CPU, on `programs` of `grid` programs, `none` did not come
    to it. `bytes` is what it
    reads and writes, each element once; `flops` None where unknown. `gbps` is 1e9 bytes a second.
    `roofline_fraction` is the least time the machine allows over `own_ms`. Errors are as in `OutputCheck`,
    the worst over `outputs`. `reason` is never empty where the verdict is `unverifiable`.
    """

    name: str
    call: int
    verdict: Verdict
    reason: str = ""
    time: Timing | None = None
    time_warm: Timing | None = None
    method: Literal["device", "interpreter", "none"] = "device"
    bytes: int | None = None
    flops: int | None = None
    gbps: float | None = None
    roofline_fraction: float | None = None
    error_compiled: float | None = None
    error_eager: float | None = None
    outputs: tuple[OutputCheck, ...] = ()
    worst: tuple[WorstElement, ...] = ()
    programs: int | None = None
    grid: int | None = None
    registers: int | None = None
    spills: int | None = None
    shared_bytes: int | None = None
    occupancy: float | None = None
    device_ms: float | None = None
    time_float32: Timing | None = None
    """A library's call on half precision, run in float32: `time` then; None where that is not surely less."""
    device_kernels: tuple[str, ...] = ()
    """Of a library's call on a GPU: the kernels that it ran, by their names on the device."""
    time_eager_strides: Timing | None = None
    """Of a library's call: `time` of the same call on the same values with eager's strides; None where it has
    these."""
    restrided: tuple[Restrided, ...] = ()
    """The tensors that it is then given, or writes, with other strides."""
    kinds: tuple[ValueKind, ...] = ()
    """On which kinds of values it was tried and could be judged."""
    profiled_ms: float | None = None
    """What one launch took in the run's own profile, None where that does not tell it from others."""
    bytes_asked: int | None = None
    """Of `bytes` what the program asks for, None where that is all: `roofline_fraction` is of these."""
    flops_asked: int | None = None
    """The same of `flops`; known of generated loops, where `flops` are their arithmetic operations."""

    @property
    def useful_bytes(self) -> int | None:
        return self.bytes if self.bytes_asked is None else self.bytes_asked

    @property
    def useful_flops(self) -> int | None:
        return self.flops if self.flops_asked is None else self.flops_asked

    @property
    def of_eager_strides(self) -> float | None:
        """What the call takes with eager's strides over what it takes as it is; None where that is not known
        or they are no further apart than they spread."""
        other, own = self.time_eager_strides, self.time
        if other is None or own is None or not own.median_ms:
            return None
        differ = other.surely_less(own) or own.surely_less(other)
        return other.median_ms / own.median_ms if differ else None

    @property
    def looked(self) -> str:
        """On what the verdict rests: `10 of 128 programs, 4 kinds of values`; empty where there is none."""
        if not self.kinds:
            return ""
        kinds = f"{len(self.kinds)} kind{'s' * (len(self.kinds) > 1)} of values"
        part = f"{self.programs} of {self.grid} programs, " if self.grid and self.programs else ""
        return part + kinds

    @property
    def own_ms(self) -> float | None:
        """What the kernel adds to a call: `device_ms` where that is known, else the median of `time`."""
        if self.device_ms is not None or self.time is None:
            return self.device_ms
        return self.time.median_ms

    @property
    def known_ms(self) -> float | None:
        """`own_ms`, and where no replay has it the profile's time."""
        return self.own_ms if self.own_ms is not None else self.profiled_ms


@dataclass(frozen=True, slots=True)
class OperatorReplay:
    """An operator that generated kernels do in pieces, run whole by ATen on inputs of the same strides.

    `name` and `operator` are those of its `inspector.model.waste.WholeOperator`, `calls` the launches that do
    its work. `time` and `device_ms` are as in `KernelReplay`. `made_up` names the inputs whose values are not
    the graph's own.
    """

    name: str
    operator: str
    calls: tuple[int, ...]
    time: Timing
    device_ms: float | None = None
    made_up: tuple[str, ...] = ()

    @property
    def own_ms(self) -> float:
        """`device_ms` where that is known, else the median of `time`."""
        return self.time.median_ms if self.device_ms is None else self.device_ms

    @property
    def sure(self) -> bool:
        """False for what takes less than it spreads: it does nothing as it is called, as a dropout in
        evaluation, or was disturbed."""
        return self.own_ms > self.time.iqr_ms


@dataclass(frozen=True, slots=True)
class GraphReplay:
    """One graph re-run. `failure` is a sentence where the child crashed, hung or could not build;
    what was measured before that is kept. `eager_label` says what eager was.

    `eager` and `compiled` are device time on a GPU (events around one call, queue kept full) and
    time per call on a CPU; `*_wall` is time per call by the host's clock, GPU only. `log` is the
    end of what the child printed.
    """

    name: str
    eager: Timing | None = None
    compiled: Timing | None = None
    outputs: tuple[OutputCheck, ...] = ()
    failure: str | None = None
    eager_label: str = "decomposed FX graph"
    notes: tuple[str, ...] = ()
    device: str | None = None
    eager_wall: Timing | None = None
    compiled_wall: Timing | None = None
    log: str = ""
    kernels: tuple[KernelReplay, ...] = ()
    cudagraph: Timing | None = None
    """The compiled call replayed as one CUDA graph: what removing the host gap would give."""
    some_kernels: bool = False
    """Only some of the calls were asked for, so that the kernels do not add up to the graph."""
    edits: tuple[KernelReplay, ...] = ()
    """The same calls as in `kernels` with a source of the user's in place of the kernel's own."""
    repros: Mapping[int, str] = field(default_factory=dict)
    """By launch a program of its own that runs with torch alone, where it was asked for."""
    operators: tuple[OperatorReplay, ...] = ()
    """What generated kernels do in pieces, as ATen does it."""

    @property
    def kernels_ms(self) -> float | None:
        """Sum of the kernels' own times; None where one of them has none."""
        times = [kernel.own_ms for kernel in self.kernels if kernel.own_ms is not None]
        return sum(times) if times and len(times) == len(self.kernels) else None

    @property
    def host_gap_ms(self) -> float | None:
        """Wall time of one compiled call less its kernels; None where either is missing."""
        wall = self.compiled_wall or self.compiled
        kernels = self.kernels_ms
        return None if wall is None or kernels is None or self.some_kernels else wall.median_ms - kernels

    @property
    def speedup(self) -> float | None:
        """Eager over compiled, of the medians; None where either is missing."""
        if self.eager is None or self.compiled is None or not self.compiled.median_ms:
            return None
        return self.eager.median_ms / self.compiled.median_ms


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """One `inspector replay`: the machine it ran on, and each graph's result."""

    machine: Mapping[str, object]
    graphs: tuple[GraphReplay, ...]
    started: float = 0.0
    options: Mapping[str, object] = field(default_factory=dict)
