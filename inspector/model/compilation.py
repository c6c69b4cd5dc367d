"""One compilation of one frame (a compile id such as ``0/1``) as a structured trace tells of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from inspector.frozen import dataclass

from .logs import GraphBreak, Recompile
from .problem import Problem
from .source import SourceLocation
from .trace import TraceEvent

Status = Literal["ok", "cache hit", "failed", "skipped", "no graph", "not compiled", "unfinished"]
"""`skipped`: Dynamo left the frame to Python. `no graph`: nothing in it to compile. `not compiled`: it
was given up before it began, as past the recompile limit. `unfinished`: the trace ends before it."""

GRAPH_STAGES = (
    "compiled_autograd_graph",
    "dynamo_output_graph",
    "before_pre_grad_graph",
    "after_pre_grad_graph",
    "aot_joint_graph",
    "aot_forward_graph",
    "aot_backward_graph",
    "aot_inference_graph",
    "before_joint_graph",
    "after_joint_graph",
    "before_post_grad_graph",
    "inductor_post_grad_graph",
    "inductor_output_code",
)
"""The graph from Dynamo to code, by the names of torch's events. Which of them a trace has depends on
the version (2.4 has five of them) and on whether gradients are needed."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A text that the trace holds of a compilation: a graph, generated code, or any other artifact.

    `name` is torch's, `label` unique in the compilation (``before_post_grad_graph#2`` is the second
    of that name). `phase` is forward, backward or inference where it belongs to one. `is_graph`
    tells `GRAPH_STAGES` from the rest. The text is the payload of `event`; `size` is in bytes.
    """

    name: str
    label: str
    attempt: int
    phase: str
    is_graph: bool
    size: int
    event: TraceEvent


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition under which the compiled code may be used, from the tree that torch prints
    (torch/csrc/dynamo/guards.cpp) or, `kind` ``SHAPE``, from ``guard_added_fast``.

    `text` is the condition; `location` the line that made it necessary, with torch's shortened path
    and the line's code; `line` is the trace's; `note` what torch adds (a hint of the type, that 0
    and 1 or NaN are specialised).
    """

    kind: str
    text: str
    location: SourceLocation | None
    line: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A size that is not fixed: ``s77`` for ``L['x'].size()[0]``, with the value that was seen
    (`hint`, empty for a data-dependent size) and the range that is assumed (``[2, int_oo]``)."""

    name: str
    hint: str
    range: str
    source: str
    location: SourceLocation | None
    line: int


@dataclass(frozen=True, slots=True)
class Specialization:
    """A symbol that tracing replaced by a number (torch/fx/experimental/symbolic_shapes.py:
    ShapeEnv._set_replacement): the code is for `value` alone. `source` is what the symbol stood for
    (``L['n']``), `location` the line whose tracing asked for it, `reason` torch's word for how."""

    source: str
    value: str
    reason: str
    location: SourceLocation | None
    line: int


@dataclass(frozen=True, slots=True)
class CacheLookup:
    """One look into a cache. `reason` says why it was bypassed or what exactly missed
    (``cache_status_detailed``); `saved_ms` is the time that torch says a hit saved."""

    cache: str
    outcome: Literal["hit", "miss", "bypass"]
    key: str
    reason: str
    saved_ms: float | None
    line: int


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """How one Triton kernel was compiled (torch/_inductor/runtime/triton_heuristics.py).

    `cache_state` is that of the autotuning cache (``hit``, ``miss``, ``only 1 config``), `configs`
    how many were tried, `config` the chosen one where told. torch 2.11 writes neither registers nor
    shared memory; what a version writes beyond these fields is in `other`.
    """

    name: str
    cache_state: str
    configs: int | None
    config: tuple[tuple[str, str], ...]
    compile_us: int | None
    line: int
    other: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CompileMetrics:
    """``compilation_metrics`` and its relatives (torch/_dynamo/utils.py: CompilationMetrics).

    `backward` for a backward graph compiled when it first ran; `is_runtime` for times of the first
    run after compilation (autotuning, making CUDA graphs). Durations in seconds, each including the
    next: the frame, the backend (AOTAutograd and below), Inductor, its code generation with the
    compilation of kernels. Counts are None where the version does not write them. `raw` is all.
    """

    compile_id: str | None
    backward: bool
    is_runtime: bool
    line: int
    function: SourceLocation | None = None
    seconds: float | None = None
    backend_seconds: float | None = None
    inductor_seconds: float | None = None
    codegen_seconds: float | None = None
    autotune_seconds: float | None = None
    cudagraph_seconds: float | None = None
    cache_size: int | None = None
    guard_count: int | None = None
    shape_guard_count: int | None = None
    graph_ops: int | None = None
    graph_nodes: int | None = None
    graph_inputs: int | None = None
    guard_latency_us: float | None = None
    fail_type: str | None = None
    fail_reason: str | None = None
    fail_location: SourceLocation | None = None
    restart_reasons: tuple[str, ...] = ()
    has_guarded_code: bool | None = None
    cudagraph_skip_reason: str | None = None
    raw: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception or a refusal that the trace reports: `kind` is torch's event or, for the metrics'
    fields, the exception's type."""

    kind: str
    text: str
    location: SourceLocation | None
    line: int


@dataclass(frozen=True, slots=True)
class Compilation:
    """Everything that the trace tells of one compile id, of all its attempts.

    `ident` is unique in the trace: the compile id, or ``0/0~2`` for the second of that id after
    ``torch._dynamo.reset()``. `function` is what was compiled; `stack` the user's frames above it,
    outermost first. `attempts` counts them (1 without a restart). `line` is that of the first event,
    `started` that of ``dynamo_start``. `metrics` are the frame's, `backward_metrics` and
    `runtime_metrics` those written later. `kernel_stacks` pairs a kernel (``name:handle``) with the
    user's stacks that led to it. `facts` are texts by title, for what has no field of its own:
    `communication` has the calls in order, `side effects` what the caller must change afterwards.
    """

    compile_id: str
    ident: str
    rank: int | None
    function: SourceLocation | None
    status: Status
    attempts: int
    line: int
    started: int | None
    stack: tuple[SourceLocation, ...] = ()
    stages: tuple[Stage, ...] = ()
    guards: tuple[Guard, ...] = ()
    symbols: tuple[Symbol, ...] = ()
    specializations: tuple[Specialization, ...] = ()
    caches: tuple[CacheLookup, ...] = ()
    kernels: tuple[KernelInfo, ...] = ()
    kernel_stacks: tuple[tuple[str, tuple[str, ...]], ...] = ()
    facts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    breaks: tuple[GraphBreak, ...] = ()
    recompiles: tuple[Recompile, ...] = ()
    metrics: CompileMetrics | None = None
    backward_metrics: tuple[CompileMetrics, ...] = ()
    runtime_metrics: tuple[CompileMetrics, ...] = ()

    @property
    def restarts(self) -> int:
        return max(0, self.attempts - 1)

    @property
    def all_metrics(self) -> tuple[CompileMetrics, ...]:
        first = (self.metrics,) if self.metrics is not None else ()
        return (*first, *self.backward_metrics, *self.runtime_metrics)

    def stage(self, label: str) -> tuple[Stage, ...]:
        """The stage of that label, else all stages of that name."""
        exact = tuple(stage for stage in self.stages if stage.label == label)
        return exact or tuple(stage for stage in self.stages if stage.name == label)


@dataclass(frozen=True, slots=True)
class EventKind:
    """One kind of event or artifact: how often it occurs, whether a view here shows it, and an example."""

    name: str
    count: int
    known: bool
    line: int
    example: str


@dataclass(frozen=True, slots=True)
class TraceContent:
    """One trace, read: its compilations in the order in which they began, and every kind of event.
    `general` are the texts that belong to no compile id."""

    path: str
    rank: int | None
    process: str
    compilations: tuple[Compilation, ...]
    kinds: tuple[EventKind, ...]
    general: tuple[Stage, ...] = ()
    problems: tuple[Problem, ...] = ()
