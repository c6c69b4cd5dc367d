"""Everything that the rules look at, gathered once: the case."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Literal, NamedTuple

from inspector.analysis.lowering import LoweredKernel
from inspector.analysis.steady import RUN_TO_RUN, SAME
from inspector.analysis.two_sides import least_lost_ms, slower_blocks
from inspector.frozen import dataclass
from inspector.model.calls import Event
from inspector.model.code import Kernel, KernelCall
from inspector.model.compilation import Specialization
from inspector.model.compile_time import CompileTime
from inspector.model.explain import Evidence, FindingHow, Host
from inspector.model.failure import Failure
from inspector.model.fusion import FusionGroup, FusionReport
from inspector.model.fx import FxGraph
from inspector.model.logs import LogRecord
from inspector.model.problem import Problem
from inspector.model.replay import GraphReplay, Restrided
from inspector.model.run import GraphArtifacts, RunFacts
from inspector.model.schedule import SchedulerNode
from inspector.model.source import SourceLocation
from inspector.model.state import GraphState
from inspector.model.two_sides import Block, ProgramCall, Sides, TwoSidedLedger
from inspector.model.waste import WholeOperator

from .estimate import HostCosts
from .program import Program
from .times import Times

Role = Literal["library", "generated", "fallback", "copy", "transfer"]
"""What a launch is: a library's kernel (matmul, convolution, attention), code that Inductor generated,
an operator that it has no lowering for, a kernel that only moves data, a copy between devices."""
CALLED: tuple[Role, ...] = ("library", "fallback")
"""Of them those that are calls of a library's or of ATen's."""

CUDA_GRAPHS = "torch._inductor.config.triton.cudagraphs"
"""The setting as fx_graph_runnable.py writes it."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a graph's wrapper with what it costs.

    `ms` is one launch's time: `measured` by a replay, as it came out there, or estimated from `bytes` (what
    it reads and writes, each element once) and `flops`, and then its share of what its graph took in the
    run; so is that of a replay in which kernels took longer than their graph did in the run. `points` is how
    many times its innermost loops run, summed over the scheduler nodes in it. `sources` are the user's
    lines, `leaves` the scheduler nodes.
    """

    call: KernelCall
    kernel: Kernel | None
    role: Role
    ms: float
    measured: bool
    bytes: int | None
    flops: int | None
    points: int | None
    leaves: tuple[SchedulerNode, ...]
    fx: tuple[str, ...]
    sources: tuple[SourceLocation, ...]
    spills: int | None = None
    of_float32: float | None = None
    """Time of the same call in float32 over its own, replayed: below 1 its half precision costs."""
    of_eager_strides: float | None = None
    """Time of the same call with eager's strides over its own, replayed, where these differ beyond noise."""
    restrided: tuple[Restrided, ...] = ()
    """The tensors that it has with other strides than eager."""
    roofline_fraction: float | None = None
    expected_ms: float | None = None
    """What generated code would take by its bytes and its arithmetic: an estimate."""
    in_vectors_ms: float | None = None
    """The same if all of its loops were vectors, as its layouts or its dtypes may forbid on a CPU."""
    bytes_asked: int | None = None
    """Of `bytes` what the program asks for."""
    useful: float = 1.0
    """Of all that it computes the part that the program asks for, 0 to 1."""

    @property
    def useful_bytes(self) -> int | None:
        return self.bytes if self.bytes_asked is None else self.bytes_asked

    @property
    def name(self) -> str:
        return self.call.kernel

    @property
    def source(self) -> str:
        """The kernel's generated source; empty for calls of libraries."""
        return self.kernel.source if self.kernel is not None else ""

    profiled_ms: float | None = None
    """In profiled calls of the run itself: its `ms` where these were as long as calls without a profiler."""


@dataclass(frozen=True, slots=True)
class GraphCase:
    """One compiled graph. `runs` is how often it runs in one steady call of the program: counted by the
    recorder, else a share of the variants of its frame. `in_process_ms` is the time of
    one run inside the user's program, on a GPU that of its host side."""

    artifacts: GraphArtifacts
    fusion: FusionReport
    launches: tuple[Launch, ...]
    runs: float
    config: Mapping[str, str]
    folder: str
    gpu: bool
    replay: GraphReplay | None = None
    in_process_ms: float | None = None
    quickest_ms: float | None = None
    """The quickest of its runs that the recorder has."""
    state: GraphState | None = None
    """How torch was set when the graph first ran, where the recorder saw it."""
    operators: tuple[WholeOperator, ...] = ()
    """What ATen has kernels for and generated kernels do in pieces, where one of both was timed alone."""
    same_inputs: frozenset[str] = frozenset()
    """Inputs of its FX graph that were the same, unchanged, in all runs that the recorder looked at."""
    subnormal: Mapping[str, float] = field(default_factory=dict)
    """Such inputs -> the part of their elements that was subnormal when the recorder last looked."""
    hints: Mapping[str, int] = field(default_factory=dict)
    """Symbol of a size -> the number that it stands for."""
    asked: tuple[tuple[int, ...], ...] = ()
    """Of a backward graph, the shapes of the tensors whose gradients alone anybody asked for; empty where all
    were, or nobody looked."""
    unasked: frozenset[str] = frozenset()
    """Its nodes that lead to none of these."""
    program: Mapping[str, tuple[ProgramCall, ...]] = field(default_factory=dict)
    """FX node -> the program's calls that it is of, where launches have no line of the user's."""

    @property
    def name(self) -> str:
        return self.artifacts.ident

    @property
    def rewriting(self) -> frozenset[int]:
        """Calls of the wrapper that write anew what the program writes in part."""
        names = {name for item in self.fusion.rewritten for name, _ in item.groups}
        return frozenset(call for group in self.fusion.groups if group.name in names for call in group.calls)

    @property
    def unread(self) -> bool:
        """Whether it launches kernels that are not known: its wrapper is missing, cut short or C++."""
        return not self.launches and any(node.kind not in ("nop", "part") for node in self.fusion.nodes)

    @property
    def cuda_graphs(self) -> bool:
        """Whether CUDA graphs were asked for, by a mode or by the setting."""
        return self.gpu and self.config.get(CUDA_GRAPHS) == "True"

    @property
    def in_cpp(self) -> bool:
        """Whether its code is C++ alone, as AOTInductor's."""
        code = self.artifacts.code
        return code is not None and code.path.endswith(".cpp")

    def place(self, file: str, line: int | None, text: str) -> Evidence:
        """A line of one of the graph's files as evidence; AOTInductor's code has another name."""
        name = "output_code.cpp" if file == "output_code.py" and self.in_cpp else file
        return Evidence(f"{self.folder}/{name}", line, text)

    def launch_evidence(self, launch: Launch, text: str) -> Evidence:
        return self.place("output_code.py", launch.call.span.first, text)

    def groups_of(self, launch: Launch) -> tuple[FusionGroup, ...]:
        """The post-fusion entries that a launch computes."""
        return tuple(group for group in self.fusion.groups if launch.call.index in group.calls)

    def ms(self, launch: Launch) -> float:
        """The launch's milliseconds per steady call of the program."""
        return launch.ms * self.runs

    @property
    def launches_ms(self) -> float:
        """All launches' milliseconds per steady call of the program."""
        return sum(launch.ms for launch in self.launches) * self.runs

    @property
    def replayed_ms(self) -> float | None:
        """The same as replayed one by one; None where a launch was not."""
        kernels = self.replay.kernels if self.replay is not None else ()
        own = {kernel.call: kernel.own_ms for kernel in kernels if kernel.method == "device"}
        times = [own.get(launch.call.index) for launch in self.launches]
        return sum(ms or 0.0 for ms in times) * self.runs if times and None not in times else None


class LeftToAten(NamedTuple):
    """An operator that runs as in eager, per steady call: how often, milliseconds and bytes."""

    calls: float
    ms: float
    bytes: float


@dataclass(frozen=True, slots=True)
class Case:
    """The evidence. `threads` is how many threads generated CPU code could use, None where unknown;
    `compile_s` the compile time of the whole run by its trace or, better, by its calls."""

    facts: RunFacts
    graphs: tuple[GraphCase, ...]
    times: Times
    events: tuple[Event, ...]
    counters: Mapping[str, int]
    records: tuple[LogRecord, ...]
    log_path: str
    programs: tuple[Program, ...]
    threads: int | None
    compile_s: float | None
    host: Host | None
    """The machine on which the run is explained, where it also captured it."""
    machine: Mapping[str, object] = field(default_factory=dict)
    costs: HostCosts = HostCosts()
    """What the host takes for one of each on the run's machine."""
    spilled: tuple[tuple[str, int], ...] = ()
    """(kernel, registers that it spilled) as the recorder saw them."""
    paired_ms: float | None = None
    """The wall time of the calls in which the graphs took their `in_process_ms`: of the captured run, while
    `times` may be of the run without debug output."""
    ranks: int = 1
    """Processes that compiled: what one of them does between its graphs may be waiting for the others."""
    busy: tuple[str, ...] = ()
    """Why the machine was too busy for its times to be evidence; see inspector.analysis.load."""
    taken: float = 1.0
    """The most that others may have had of any run's time, 0 to 1; see there."""
    profile_busy: tuple[str, ...] = ()
    """The same of the runs that only profiles are of: what calls took holds."""
    compiled_more: tuple[tuple[str, int, int], ...] = ()
    """Callables that were compiled more often in a run with torch's caches full; see
    inspector.analysis.calls."""

    sides: Sides | None = None
    """Both sides' profiles, joined."""
    failure: Failure | None = None
    """The exception that ended the program."""
    problems: tuple[Problem, ...] = ()
    """What of it could not be worked out."""
    in_trace: CompileTime | None = None
    """Compiling in parts, by the trace."""
    compile_source: Literal["calls", "trace"] | None = None
    """Where `compile_s` is from."""
    traced: Callable[[], Mapping[str, FxGraph]] | None = None
    """Dynamo's graphs by compile id, read where somebody asks."""
    fixed: Callable[[], Mapping[str, tuple[Specialization, ...]]] | None = None
    """What tracing made numbers of, by compile id, read where somebody asks."""
    lowered: Callable[[str, int], LoweredKernel | None] | None = None
    """The kernel of a launch, by its graph and number, with the stages that the run holds."""

    @property
    def slower(self) -> tuple[tuple[int, Block], ...]:
        """Blocks, with their places, in which compiled takes longer than eager by what matters to a call."""
        if self.sides is None:
            return ()
        slower = slower_blocks(self.sides.joined, self.wall_ms)
        return tuple(item for item in slower if self.least_lost_ms(item[1]) > RUN_TO_RUN * self.wall_ms)

    def least_lost_ms(self, block: Block) -> float:
        """What one of these surely lost a call: no more than the call did, and what the rest of it won."""
        if self.sides is None:
            return 0.0
        lost = least_lost_ms(self.sides.joined, self.wall_ms, block)
        ledger, times = self.sides.ledger, self.times
        if ledger is None or times.compiled_ms is None or times.eager_ms is None:
            return lost
        won = sum(max(-item.ms, 0.0) for item in ledger.differences) + max(ledger.unexplained_eager_ms, 0.0)
        return min(lost, max(times.compiled_ms - times.eager_ms, 0.0) + won)

    @property
    def compile_lines(self) -> tuple[Evidence, ...]:
        """Where the program calls ``torch.compile``, as its lines have it."""
        return tuple(
            program.evidence(call.line) for program in self.programs for call in program.compile_calls
        )

    @property
    def walls(self) -> TwoSidedLedger | None:
        """The ledger between what calls take on both sides; None where a profile does not divide these."""
        ledger = self.sides.ledger if self.sides is not None else None
        timed = self.times.compiled_ms is not None and self.times.eager_ms is not None
        return ledger if ledger is not None and (ledger.source == "calls" or not timed) else None

    @property
    def library_blocks(self) -> tuple[Block, ...]:
        """Blocks of graphs in which the compiled side runs kernels of libraries; none unless both sides were
        profiled."""
        if self.sides is None or self.sides.ledger is None:
            return ()
        return tuple(
            block
            for block in self.sides.joined.blocks
            if block.place == "graph" and any(not kernel.generated for kernel in block.compiled_kernels)
        )

    @property
    def gpu(self) -> bool:
        """Whether any graph computes on a GPU."""
        return any(graph.gpu for graph in self.graphs)

    @property
    def main_program(self) -> Program | None:
        return self.programs[0] if self.programs else None

    def programs_of(self, place: SourceLocation) -> list[Program]:
        """The user's sources that a place may be in: that of its path, then those of the same file's name, as
        a run may name it from elsewhere."""
        name = place.path.rsplit("/", 1)[-1]
        named = (program for program in self.programs if program.path.rsplit("/", 1)[-1] == name)
        return sorted(named, key=lambda program: program.path != place.path)

    def launches(self) -> Iterator[tuple[GraphCase, Launch]]:
        """Of the graphs that run in a steady call; of all where none is known to."""
        for graph in [graph for graph in self.graphs if graph.runs] or self.graphs:
            for launch in graph.launches:
                yield graph, launch

    def kernel_names(self, graph: GraphCase, launch: Launch) -> tuple[str, ...]:
        """Names of the device's kernels in the block that a launch is of; empty without a profile."""
        blocks = self.blocks_of(graph, launch)
        return tuple(kernel.name for block in blocks for kernel in block.compiled_kernels)

    def blocks_of(self, graph: GraphCase, launch: Launch) -> list[Block]:
        """The blocks that a launch is of; none without a profile."""
        place = (graph.name, launch.call.index)
        blocks = self.sides.joined.blocks if self.sides is not None else ()
        return [block for block in blocks if place in block.launches]

    def launches_of(self, block: Block) -> Iterator[tuple[GraphCase, Launch]]:
        """Those of `launches` that a block is of."""
        return (each for each in self.launches() if (each[0].name, each[1].call.index) in block.launches)

    def role_ms(self, *roles: Role) -> float:
        """Milliseconds per steady call of the launches with one of these roles."""
        return sum(graph.ms(launch) for graph, launch in self.launches() if launch.role in roles)

    def left_to_aten(self) -> dict[str, LeftToAten]:
        """Each operator that Inductor has no code for, by its name below ``torch.ops``."""
        left: dict[str, LeftToAten] = {}
        for graph, launch in self.launches():
            if launch.role == "fallback":
                name = launch.name.removeprefix("torch.ops.")
                calls, ms, moved = left.get(name, LeftToAten(0.0, 0.0, 0.0))
                moved += (launch.bytes or 0) * graph.runs
                left[name] = LeftToAten(calls + graph.runs, ms + graph.ms(launch), moved)
        return left

    @property
    def kernels_ms(self) -> float:
        """Milliseconds per steady call of all launches."""
        return sum(graph.launches_ms for graph in self.graphs)

    @property
    def unread(self) -> bool:
        """Whether a graph that runs launches kernels that are not known."""
        return any(graph.unread for graph in self.graphs if graph.runs)

    @property
    def uncalled(self) -> bool:
        """Whether a baseline ran and nothing of torch.compile's was called, as AOTInductor's is not."""
        return self.facts.eager_ran and not self.times.calls

    @property
    def kernels_measured(self) -> bool:
        """Whether the graphs' launches have measured times, all but those of which a steady call has little:
        a first size that comes again now and then was seldom profiled."""
        guessed = sum(graph.ms(item) for graph, item in self.launches() if not item.measured)
        return bool(self.graphs) and not self.unread and guessed <= SAME * self.kernels_ms

    @property
    def in_eager(self) -> bool:
        """Whether steady calls run in eager, as a frame was compiled too often for torch to go on with it."""
        return self._past_limit and sum(graph.runs for graph in self.graphs) < 0.5

    @property
    def some_in_eager(self) -> float:
        """The part of steady calls, 0 to 1, that run in eager as a frame was compiled too often; 0 where that
        is as little as two counts of the same differ by."""
        compiled = sum(graph.runs for graph in self.graphs if graph.artifacts.phase != "backward")
        return 1 - compiled if self._past_limit and compiled < 1 - RUN_TO_RUN else 0.0

    @property
    def _past_limit(self) -> bool:
        return any(event.kind == "cache_limit" for event in self.events)

    @property
    def kernels_how(self) -> FindingHow:
        """What the kernels' times rest on."""
        return "replayed" if self.kernels_measured else "estimated"

    @property
    def wall_ms(self) -> float:
        """One steady compiled call: measured, else estimated from kernels and launches."""
        if self.times.compiled_ms is not None:
            return self.times.compiled_ms
        if self.sides is not None and self.sides.joined.compiled is not None:
            return self.sides.joined.compiled.wall_ms
        # A GPU works while the host prepares the next launch; a CPU does one after the other, and the kernels
        # of a CUDA graph start when all the host does is done.
        overlap = any(graph.gpu and not graph.cuda_graphs for graph in self.graphs)
        return max(self.kernels_ms, self.host_ms) if overlap else self.kernels_ms + self.host_ms

    @property
    def host_ms(self) -> float:
        """The host's side of one steady call as it usually is: an estimate. What AOTInductor compiled runs
        without Python, guards or a cache of code: nothing is known of it."""
        skipped = any(event.kind == "cudagraph_skip" for event in self.events)
        return sum(
            graph.runs
            * (
                self.costs.cuda_graph_ms
                if graph.cuda_graphs and not skipped
                else self.costs.host_ms(len(graph.launches))
            )
            for graph in self.graphs
            if not graph.in_cpp
        )

    def frame(self, compile_id: str | None) -> FxGraph | None:
        """What Dynamo traced of a frame, by its compile id."""
        return self.traced().get(compile_id or "") if self.traced is not None else None

    def within_call(self, ms: float) -> float:
        """`ms` of kernels: where they are estimates that together exceed the call, their share of that."""
        wall = self.times.compiled_ms
        most = max(self.kernels_ms, ms)
        return ms if wall is None or self.kernels_measured or most <= wall else ms * wall / most

    @property
    def noise_ms(self) -> float:
        """What two medians of the same call differ by for no reason: by how uneven the calls were, and no
        less than two runs of one program do."""
        return max(RUN_TO_RUN * self.wall_ms, self.times.notch_ms)

    @property
    def once_noise_ms(self) -> float:
        """The same of the whole run: what it paid once, and all its calls."""
        times = self.times
        return RUN_TO_RUN * ((times.cold_ms or 0.0) + (times.compiled_ms or 0.0) * times.calls)

    def share(self, ms: float | None) -> float | None:
        """`ms` over one steady call's wall time."""
        wall = self.wall_ms
        return None if ms is None or not wall else ms / wall
