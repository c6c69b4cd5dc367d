"""What the recorder saw inside the captured process: decisions of fusion, and where buffers come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from inspector.frozen import dataclass

from .calls import ProcessCalls
from .decision import Decision
from .problem import Problem
from .source import SourceLocation

ChosenBy = Literal["only", "cache", "measured", "descent"]
"""Why a kernel has its configuration: there was no other; Inductor's cache of earlier autotuning had it; the
fastest of all; found by coordinate descent from there."""


@dataclass(frozen=True, slots=True)
class RecordedBuffer:
    """A buffer of the schedule, or an input of the graph, whose `node` is then None.

    `origin` is the one FX node that it stands for, None where it is a mixture; `origins` are all; names are
    post-grad ones. `stack` are the user's frames, innermost last. `size` and `stride` are texts, as they
    may be symbolic. `bytes` is the whole buffer's size, by torch's hint where it is symbolic; None where that
    is unknown.
    """

    name: str
    node: str | None
    cls: str
    origin: str | None
    origins: tuple[str, ...]
    stack: tuple[SourceLocation, ...]
    layout: str | None
    device: str | None
    dtype: str | None
    size: tuple[str, ...] | None
    stride: tuple[str, ...] | None
    bytes: int | None


@dataclass(frozen=True, slots=True)
class RecordedRound:
    """`nodes` as the round found them; `possible` counts the pairs that were left to try, None where this
    torch does not say. `truncated`: there are too many pairs that were never tried to list them all."""

    number: int
    nodes: tuple[str, ...]
    possible: int | None
    truncated: bool


@dataclass(frozen=True, slots=True)
class GraphRecord:
    """One schedule. `graph` is the folder's name and `process` that of the ``run_*-pid_P`` folder, None
    where torch wrote none. `part` counts the schedules of a folder from 0: the subgraphs of ``torch.cond``
    have their own. `finished` is False where torch failed on it. `members` maps a group to its nodes. A
    decision is about an ordered pair; one `never_tried` for what can't change is listed in its first round
    only.
    """

    graph: str | None
    process: str | None
    aot: str | None
    compile_id: str | None
    part: int
    finished: bool
    rounds: tuple[RecordedRound, ...]
    decisions: tuple[Decision, ...]
    buffers: tuple[RecordedBuffer, ...]
    inputs: tuple[RecordedBuffer, ...]
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def origins(self) -> dict[str, tuple[str, ...]]:
        """Scheduler node -> names of the FX nodes behind the buffers that it writes."""
        origins: dict[str, dict[str, None]] = {}
        for buffer in self.buffers:
            if buffer.node is not None:
                origins.setdefault(buffer.node, {}).update(dict.fromkeys(buffer.origins))
        return {node: tuple(names) for node, names in origins.items() if names}


@dataclass(frozen=True, slots=True)
class RecordedKernel:
    """What compiling one Triton kernel gave.

    `name` is the kernel's in the wrapper. `config` is the chosen configuration, `tried` each that autotuning
    measured with its milliseconds. `spills` counts registers, `shared_bytes` is static and dynamic shared
    memory of a block.
    """

    name: str
    config: Mapping[str, str]
    registers: int | None = None
    spills: int | None = None
    shared_bytes: int | None = None
    tried: tuple[tuple[Mapping[str, str], float], ...] = ()
    compile_id: str | None = None
    graph: str | None = None
    """Its graph's folder, as in GraphRecord; the first one's, where several graphs share the kernel."""
    process: str | None = None
    heuristic: str | None = None
    """Of torch/_inductor/runtime/hints.py: `pointwise`, `reduction`, `persistent_reduction`, `template`..."""
    chosen_by: ChosenBy | None = None
    refused: int = 0
    """Configurations that were not measured: too many spilled registers, or not launchable."""


@dataclass(frozen=True, slots=True)
class RecordedChoice:
    """One kernel that max-autotune measured: `mm` of a library, or a template such as `triton_mm_7` with its
    configuration. `milliseconds` is None where it could not run."""

    name: str
    config: Mapping[str, str]
    milliseconds: float | None


@dataclass(frozen=True, slots=True)
class RecordedChoices:
    """What max-autotune measured for one operation, fastest first.

    `operation` is torch's name for it (`mm`, `addmm`, `convolution`), `inputs` are buffers; `buffer` is the
    one that it writes, None where that is not known. Which one was taken is in the schedule: a template that
    is a little slower may win by what fuses into it.
    """

    operation: str
    inputs: tuple[str, ...]
    buffer: str | None
    tried: tuple[RecordedChoice, ...]
    graph: str | None = None
    process: str | None = None
    compile_id: str | None = None


@dataclass(frozen=True, slots=True)
class RecordedInputs:
    """What ``capture --save-inputs`` kept of a graph's first call.

    `file` is relative to the run, None where nothing could be kept, for the reason in `problem`. `bytes` are
    in it. `left_out` are positions of arguments that went beyond `limit`, together `left_out_bytes`;
    `unknown` are positions of what is neither a plain tensor nor a number.
    """

    graph: str | None
    process: str | None
    file: str | None
    arguments: int
    bytes: int
    limit: int | None
    left_out: tuple[int, ...] = ()
    left_out_bytes: int = 0
    unknown: tuple[int, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """One file of RUN/record. `hooks` were in place, `missing` has no place in that version of torch."""

    path: str
    pid: int | None
    rank: int | None
    python: str
    torch: str
    hooks: tuple[str, ...]
    missing: tuple[str, ...]
    graphs: tuple[GraphRecord, ...]
    kernels: tuple[RecordedKernel, ...] = ()
    calls: ProcessCalls | None = None
    problems: tuple[Problem, ...] = ()
    choices: tuple[RecordedChoices, ...] = ()
    inputs: tuple[RecordedInputs, ...] = ()
