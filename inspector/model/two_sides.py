"""Eager and compiled beside each other, op by op: the blocks, and the ledger between both walls."""

from __future__ import annotations

from typing import Literal

from inspector.frozen import dataclass

from .source import SourceLocation

Side = Literal["eager", "compiled"]
Phase = Literal["forward", "backward"]


@dataclass(frozen=True, slots=True)
class ProgramCall:
    """One call in a frame as Dynamo traced it: `operator` is the function's own name (``conv2d``, ``add``),
    `modules` the paths of modules whose parameters or buffers it reads. `unpacked` are names of values taken
    out of the tuple that it returned, which runs no operator; `inputs` of what it takes. `behind` are
    operators that eager runs after the first for the same call."""

    name: str
    operator: str
    source: SourceLocation | None
    modules: tuple[str, ...] = ()
    unpacked: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProgramGraph:
    """The calls of one compile id in the program's order, from ``dynamo_output_graph``."""

    compile_id: str
    calls: tuple[ProgramCall, ...]


@dataclass(frozen=True, slots=True)
class KernelTime:
    """A kernel by name on one side, or on a CPU an operator's own time: how often in one steady call, and
    milliseconds. `generated` tells Inductor's from a library's."""

    name: str
    calls: float
    ms: float
    generated: bool = False
    programs: int | None = None
    """The most that one of its launches had, as the profiler of a GPU counts them."""
    part_ms: float | None = None
    """Its part of the device's time, where that is less than `ms` as other work ran at once."""

    @property
    def taken_ms(self) -> float:
        return self.ms if self.part_ms is None else self.part_ms


@dataclass(frozen=True, slots=True)
class Block:
    """Parts of the program and the kernels that do their work on either side; per steady call.

    `times` identical ones are summed. `operators` are the program's; `graph` is the compiled graph's ident.
    A side's milliseconds are None where that side was not profiled. `place` says where the block stands:
    in a graph; `outside` of all graphs (a loss, an optimizer); `unplaced` where a graph ran it and nothing
    tells which of its calls it was. `inside` tells whether timed calls contain it. `sure` is False where
    order left more than one way and the candidates are one block.
    """

    lines: tuple[SourceLocation, ...]
    modules: tuple[str, ...]
    operators: tuple[str, ...]
    phase: Phase
    graph: str | None
    eager_ms: float | None
    compiled_ms: float | None
    eager_kernels: tuple[KernelTime, ...]
    compiled_kernels: tuple[KernelTime, ...]
    times: int = 1
    place: Literal["graph", "outside", "unplaced"] = "graph"
    inside: bool = True
    sure: bool = True
    launches: tuple[tuple[str, int], ...] = ()
    """(graph's ident, number of the wrapper's call) of what compiled code launches for it."""

    @property
    def difference_ms(self) -> float:
        """What compiled takes more than eager; 0 where a side is missing."""
        if self.eager_ms is None or self.compiled_ms is None:
            return 0.0
        return self.compiled_ms - self.eager_ms


@dataclass(frozen=True, slots=True)
class HostOperator:
    """An operator by what the host did in it itself, with no other operator inside, while the device had
    nothing to do: milliseconds of a steady call, in so many calls of it."""

    name: str
    ms: float
    calls: float


@dataclass(frozen=True, slots=True)
class SideTotals:
    """One profiled side, per steady call. `calls` is how many were profiled.

    `work_ms` is the device's time, on a CPU the operators' own; `attributed_ms` the part of it that a block
    of a graph or a named operator outside holds. `overlap_ms` is what ran at the same time as something else.
    `host` are the parts of the time in which the device idled, by what the host did; on a CPU torch's own
    sections. `wall_ms` is that of the profiled calls themselves, which profiling makes longer.
    """

    calls: int
    device: bool
    wall_ms: float
    work_ms: float
    attributed_ms: float
    overlap_ms: float = 0.0
    transfers_ms: float = 0.0
    pageable_ms: float = 0.0
    """The part of it from and to memory that is not pinned."""
    marked: bool = False
    """Whether the recorder marked the calls: `host` and `wall_ms` are then of these alone."""
    host: tuple[tuple[str, float], ...] = ()
    outside_ms: float = 0.0
    """Of `host` on a GPU, what was in none of torch's compiled code: operators that the program calls,
    autograd's engine, Python between them."""
    operators: tuple[HostOperator, ...] = ()
    """On a GPU those in which the host was longest while the device had nothing to do."""
    notes: tuple[str, ...] = ()

    @property
    def attributed(self) -> float:
        """Share of the work, 0 to 1."""
        return self.attributed_ms / self.work_ms if self.work_ms else 1.0


@dataclass(frozen=True, slots=True)
class LaunchTime:
    """One launch of a graph's wrapper, by its number: milliseconds in one run of the graph."""

    graph: str
    call: int
    ms: float


@dataclass(frozen=True, slots=True)
class Joined:
    """Blocks of both sides, largest difference first; a side that was not profiled is None."""

    blocks: tuple[Block, ...]
    eager: SideTotals | None
    compiled: SideTotals | None
    launches: tuple[LaunchTime, ...] = ()
    """Of compiled graphs, where the profile tells one launch from the others."""
    multiprocessors: int | None = None
    """Of the GPU that the compiled side ran on."""
    runs: tuple[tuple[str, float], ...] = ()
    """How often each compiled graph ran in one steady call."""
    waiting: tuple[str, ...] = ()
    """Operators in compiled graphs that waited for the device, or ran kernels of MAGMA, which does."""


@dataclass(frozen=True, slots=True)
class GraphWork:
    """Milliseconds of work in one steady call that a graph's blocks hold, on either side; None where none is
    known."""

    eager_ms: float | None
    compiled_ms: float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """A part of the way from eager's wall to compiled's: `ms` is compiled less eager. `block` is the place in
    `Joined.blocks`, None for what is no block."""

    part: str
    eager_ms: float
    compiled_ms: float
    block: int | None = None

    @property
    def ms(self) -> float:
        return self.compiled_ms - self.eager_ms


@dataclass(frozen=True, slots=True)
class TwoSidedLedger:
    """`eager_ms` plus all differences plus `unexplained_ms` is `compiled_ms`, exactly.

    `source` says where both walls are from: calls without a profiler, or the profiled ones. Blocks that timed
    calls don't contain (a loss, an optimizer) are no part of it where the walls are of such calls.
    """

    eager_ms: float
    compiled_ms: float
    source: Literal["calls", "profile"]
    differences: tuple[Difference, ...]
    unexplained_eager_ms: float
    unexplained_compiled_ms: float

    @property
    def unexplained_ms(self) -> float:
        return self.unexplained_compiled_ms - self.unexplained_eager_ms


@dataclass(frozen=True, slots=True)
class Sides:
    """What profiles say of a run: the blocks and, with both sides, the ledger. `sources` are the files'
    names, eager's first; `notes` what of them is missing, ambiguous or could not be read."""

    joined: Joined
    ledger: TwoSidedLedger | None
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
