"""What the parent asks of its child and what the child answers: the request, and events as lines of JSON.

The child has torch and the kernels, the parent the readers and the linkage; what is here is all that
passes between them. Results travel as the types in which they are kept (`inspector.model.replay`). Only the
standard library and `inspector.model` are imported: the child's environment may have nothing of Inspector's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Literal, TypeVar, Union, get_args

from inspector.frozen import dataclass
from inspector.model.code import Alias, KernelKind
from inspector.model.codec import Malformed, from_data, to_data
from inspector.model.load import LoadSample
from inspector.model.replay import KernelReplay, OperatorReplay, OutputCheck, Restrided, Timing
from inspector.model.run import GRAPH_FILES, forward_of
from inspector.model.schedule import Layout
from inspector.model.state import GraphState
from inspector.model.waste import WholeOperator

INTERPRETER = "interpreter"
"""The device that is named where Triton's interpreter on the CPU stands in for a GPU."""

TF32_NOTE = "TF32 is allowed for matrix products op by op, as it is in the generated ones"
"""Said of a graph whose templates were generated with TF32."""


# -- the request


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How to replay.

    `timeout_s`: seconds for one graph's child, compiling its kernels included; six times as many in Triton's
    interpreter. `rounds`: timing rounds, eager and compiled once in each; fewer where they would take longer
    than `max_time_s`. `warmup`: untimed calls of each before the first round. `min_block_ms`: a round
    repeats a call until it lasts this long, so that the clock's grain does not show. `device`: None for the
    one the graph was compiled for, "cpu", or "cuda:N" for the GPU that stands in for cuda:0.
    `whole`: whether the graph is run and timed as a whole. `kernels`: whether each kernel call is run by
    itself; `kernel`: only that one, by its name or its call's number. `kernel_timeout_s`: seconds for one
    launch. `time_kernels`: whether they are timed too, each for `kernel_time_s` seconds, with `time_warm`
    also on a warm L2 cache. `cudagraphs`: the compiled call is timed as one CUDA graph, too. `source`: text
    that takes the place of the source of `kernel`, run beside the original. `interpreter_s`: where Triton's
    interpreter stands in for a GPU, the seconds after which a launch's remaining programs are left out.
    `repro`: write the launches of `kernel` as programs of their own. `memory_bytes`: a child's, None for most
    of what is free. `seed`: of the random inputs. `python`: the interpreter, None for this one. `cache_dir`:
    where     the child's Inductor and Triton caches live, None for a folder that is removed afterwards.
    """

    timeout_s: float = 300.0
    rounds: int = 30
    warmup: int = 3
    min_block_ms: float = 2.0
    max_time_s: float = 20.0
    device: str | None = None
    seed: int = 0
    python: str | None = None
    cache_dir: Path | None = None
    whole: bool = True
    kernels: bool = True
    kernel: str | None = None
    kernel_timeout_s: float = 60.0
    time_kernels: bool = True
    kernel_time_s: float = 0.2
    time_warm: bool = False
    cudagraphs: bool = False
    source: str | None = None
    interpreter_s: float = 10.0
    memory_bytes: int | None = None
    repro: bool = False


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One launch of the wrapper: what the child needs of a `model.code.KernelCall`, `line` its first.

    `entries` and `fx` are the entries of the schedule and the FX nodes that it is linked with; `bytes` what
    it reads from outside and writes for others, each element once, None where unknown; `bytes_asked` the part
    of them that the program asks for, None where that is all. `flops` are the arithmetic operations of its
    generated loops, None where unknown, and `flops_asked` those of them that the program asks for.
    `profiled_ms` as in `KernelReplay`.
    """

    index: int
    kernel: str
    kind: KernelKind
    line: int
    outputs: tuple[str, ...]
    buffers: tuple[str, ...]
    entries: tuple[str, ...]
    fx: tuple[str, ...]
    bytes: int | None
    profiled_ms: float | None = None
    bytes_asked: int | None = None
    flops: int | None = None
    flops_asked: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedLeaf:
    """A node of the schedule that holds no others, in the entry `entry`. `inner`: its IR's class names;
    `body`: the printed loop, `outer` of whose variables are not reduced over, None where it has none.
    `mutations`: for those of its `buffers` that are another's memory, that buffer."""

    name: str
    entry: str
    inner: tuple[str, ...]
    body: str | None
    outer: int | None
    reads: tuple[str, ...]
    buffers: tuple[str, ...]
    mutations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """A graph's launches with what checking them needs. Buffers are named as the wrapper names them.

    `leaves` stand in execution order, `aliases` are names that share memory, `symbols` hints for symbolic
    sizes, `inputs` and `outputs` the wrapper's own. `operators` are timed alone, as ATen has them.
    """

    calls: tuple[PlannedCall, ...] = ()
    leaves: tuple[PlannedLeaf, ...] = ()
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    aliases: tuple[Alias, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    symbols: Mapping[str, int] = field(default_factory=dict)
    operators: tuple[WholeOperator, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphFiles:
    """One compiled graph's files. `output_code` need not exist: that is then the replay's failure.

    `forward`: for a backward graph the fx_graph_runnable.py of its forward, which is run in eager
    for the activations that it saved; without it they are made up. `saved_inputs`: its real arguments,
    where ``capture --save-inputs`` kept them. `kernels`: None where they are not to be run one by one.
    `state`: how torch was set when the graph ran, None where the recorder did not look. `texts`: files
    of these that were read already, and are run as they were then.
    """

    name: str
    output_code: Path
    fx_runnable: Path | None = None
    fx_transformed: Path | None = None
    forward: Path | None = None
    saved_inputs: Path | None = None
    kernels: KernelPlan | None = None
    state: GraphState | None = None
    texts: Mapping[Path, str] = field(default_factory=dict)

    def written_to(self, folder: Path) -> GraphFiles:
        """With those files that are in `texts` written below `folder`, from where they are run."""
        places = {path: folder / path.parent.name / path.name for path in self.texts}
        for path, place in places.items():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(self.texts[path], encoding="utf-8")
        paths = (self.output_code, self.fx_runnable, self.fx_transformed, self.forward)
        code, runnable, transformed, forward = (places.get(path, path) if path else None for path in paths)
        return replace(
            self,
            output_code=code or self.output_code,
            fx_runnable=runnable,
            fx_transformed=transformed,
            forward=forward,
            texts={},
        )

    def calls_of(self, kernel: str) -> list[PlannedCall]:
        """The calls of the kernel with that name, or the one with that number."""
        calls = self.kernels.calls if self.kernels is not None else ()
        return [call for call in calls if kernel in (call.kernel, str(call.index))]

    @classmethod
    def of_folder(cls, folder: Path, name: str | None = None) -> GraphFiles:
        """The files of a ``model__N_PHASE_M.K`` folder, or of any with files so named; no kernel calls.

        Paths are absolute, as the child runs in a folder of its own.
        """
        folder = folder.absolute()
        _, transformed, runnable, _, _, code = (folder / file for file in GRAPH_FILES)
        return cls(
            name or folder.name,
            code,
            runnable if runnable.is_file() else None,
            transformed if transformed.is_file() else None,
            _forward_of(folder),
            _saved_inputs_of(folder),
        )


def _forward_of(folder: Path) -> Path | None:
    scripts = {path.parent.name: path for path in folder.parent.glob("model__*/fx_graph_runnable.py")}
    forward = forward_of(folder.name, scripts)
    return scripts[forward] if forward is not None else None


def _saved_inputs_of(folder: Path) -> Path | None:
    """RUN/inputs/PROCESS/GRAPH.pt of the folder RUN/torch_compile_debug/PROCESS/torchinductor/GRAPH."""
    parents = folder.resolve().parents
    if len(parents) < 4:
        return None
    path = parents[3] / "inputs" / parents[1].name / f"{folder.name}.pt"
    return path if path.is_file() else None


_A = TypeVar("_A", bound="Asked")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a child is asked, in a file."""

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(to_data(self)), encoding="utf-8")

    @classmethod
    def read(cls: type[_A], path: Path) -> _A:
        """Raises OSError, and ValueError for what `write` did not write."""
        return from_data(cls, json.loads(path.read_text(encoding="utf-8")))


@dataclass(frozen=True, slots=True)
class Request(Asked):
    """What one child is to do; `scratch` is its working folder.

    `wanted`: the calls to check, None for all. `only_kernels`: the graph as a whole was done by an earlier
    child. `done`: calls that need no check any more; `skip`: calls that must not be made, with what happened
    when they were. `edited`: calls whose edited source was tried.
    """

    files: GraphFiles
    options: ReplayOptions
    scratch: Path
    wanted: tuple[int, ...] | None = None
    only_kernels: bool = False
    done: tuple[int, ...] = ()
    skip: Mapping[int, str] = field(default_factory=dict)
    edited: tuple[int, ...] = ()

    @property
    def plan(self) -> KernelPlan | None:
        """The launches to run one by one; None where only the graph as a whole is to be run."""
        return self.files.kernels if self.options.kernels else None


# -- the events


@dataclass(frozen=True)
class _Sentence:
    text: str


@dataclass(frozen=True)
class Stage(_Sentence):
    """What the child is about to do. `launches`: run so many generated kernels for the first time, so that it
    has `kernel_timeout_s` seconds, and one more for each of them; 0 where nothing generated is run."""

    launches: int = 0


class EagerLabel(_Sentence):
    """What eager is."""


class Note(_Sentence):
    """What there is to know about the graph's replay."""


class WholeLost(_Sentence):
    """Why the graph as a whole cannot be run: its kernels are still run one by one."""


class KernelLost(_Sentence):
    """Why the launch that was begun cost the device's context: the next child goes on behind it."""


class Failed(_Sentence):
    """Why the replay ends here."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What the child's torch says of the machine: versions, `device` the first GPU's name or ``cpu``."""

    torch: str
    triton: str | None
    python: str
    executable: str
    threads: int
    cuda: str | None
    device: str
    cuda_devices: int


@dataclass(frozen=True, slots=True)
class Confined:
    """What the child is kept from (`inspector.confinement`), and what not with the reason."""

    active: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """How busy the machine was: before the first time was taken, and after the last."""

    samples: tuple[LoadSample, ...]


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """What the graph runs on: ``cpu``, ``cuda``, ... or `INTERPRETER`."""

    device: str


@dataclass(frozen=True, slots=True)
class GraphTimed:
    """A time of the graph as a whole; a later one takes an earlier one's place."""

    which: str
    timing: Timing


@dataclass(frozen=True, slots=True)
class OutputChecked:
    """The verdict on one of the graph's outputs."""

    check: OutputCheck


@dataclass(frozen=True, slots=True)
class KernelStarted:
    """A launch begins; until `KernelRan` it has `kernel_timeout_s` seconds."""

    call: int
    kernel: str


@dataclass(frozen=True, slots=True)
class KernelRan:
    """The launch has come back."""


@dataclass(frozen=True, slots=True)
class KernelChecked:
    """The verdict on a launch."""

    kernel: KernelReplay


@dataclass(frozen=True, slots=True)
class KernelTimed:
    """A launch's times, as in `KernelReplay`."""

    call: int
    time: Timing
    time_warm: Timing | None = None
    device_ms: float | None = None
    time_float32: Timing | None = None
    device_kernels: tuple[str, ...] = ()
    time_eager_strides: Timing | None = None
    restrided: tuple[Restrided, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """How a launch ran, as in `KernelReplay`."""

    method: Literal["device", "interpreter"] = "device"
    programs: int | None = None
    grid: int | None = None
    registers: int | None = None
    spills: int | None = None
    shared_bytes: int | None = None
    occupancy: float | None = None


@dataclass(frozen=True, slots=True)
class KernelDone:
    """Nothing more is said of this launch; where it is not `final`, until its other values and its time."""

    call: int
    facts: KernelFacts
    final: bool = True


@dataclass(frozen=True, slots=True)
class OperatorTimed:
    """ATen's own time for an operator that generated kernels do in pieces."""

    operator: OperatorReplay


@dataclass(frozen=True, slots=True)
class EditStarted:
    """What follows, until `KernelDone`, is about the launch with the user's source."""


@dataclass(frozen=True, slots=True)
class Repro:
    """The launch as a program that runs with torch alone; a later one takes an earlier one's place."""

    call: int
    text: str


@dataclass(frozen=True, slots=True)
class KernelLowered:
    """A kernel was lowered (`lower_protocol`): its stages are in the folder `key`, or `problem` says why
    not."""

    call: int
    key: str | None
    seconds: float
    problem: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """The replay came to its end."""


Event = Union[
    Stage
    | Machine
    | Confined
    | Load
    | DeviceKind
    | EagerLabel
    | Note
    | GraphTimed
    | OutputChecked
    | KernelStarted,
    KernelRan | KernelChecked | KernelTimed | KernelDone | KernelLost | EditStarted | WholeLost,
    OperatorTimed | Repro | KernelLowered | Failed | Done,
]

_EVENTS: dict[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}


def to_line(event: Event) -> bytes:
    """One line: the event's fields, and its class as ``event``."""
    return json.dumps({"event": type(event).__name__, **to_data(event)}).encode() + b"\n"


def from_line(line: bytes) -> Event:
    """The inverse of `to_line`. Raises Malformed for what no child says."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"no JSON: {error}") from None
    kind = _EVENTS.get(str(data.pop("event", None))) if isinstance(data, dict) else None
    if kind is None:
        raise Malformed("no event that is known")
    return from_data(kind, data)
