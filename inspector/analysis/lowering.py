"""A kernel's stages with what their lines stand for: lines of its source, FX nodes, lines of the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field

from inspector.frozen import dataclass
from inspector.hardware.occupancy import MULTIPROCESSORS, Occupancy, occupancy
from inspector.model.code import Kernel
from inspector.model.fx import FxGraph
from inspector.model.links import Linkage
from inspector.model.lowering import LoweredFolder, Place, Stage, Throughput, Unvectorised
from inspector.model.ncu import NcuKernel
from inspector.model.problem import Problem
from inspector.model.record import RecordedKernel
from inspector.model.run import GraphArtifacts
from inspector.model.source import LineSpan, SourceLocation
from inspector.units import plural

from .bank_conflicts import Conflicts, conflicts
from .index_steps import index_steps
from .kernel_lines import NO_LINES, KernelLines, lines_of
from .stage_facts import Loop, Space, StageFacts, facts_of
from .warp_addresses import SECTOR, Touched, touched, worth

_NARROW = 32
"""Bits that a thread takes at a time; four times as many are the most."""
_BELOW = 1
"""Lines by which the file that Inductor wrote for a kernel runs ahead of its source: the first is what
follows the opening quotes."""


Model = tuple[KernelLines, Mapping[str, SourceLocation]]


@dataclass(frozen=True, slots=True)
class Origin:
    """What a line of a stage stands for. `line` is one of output_code.py, None for what the kernel's source
    does not have; `nodes` are the FX nodes that it may compute, `sources` their places in the model."""

    line: int | None
    nodes: frozenset[str] = frozenset()
    sources: tuple[SourceLocation, ...] = ()

    @property
    def source(self) -> SourceLocation | None:
        """The model's line, where it is one alone."""
        return self.sources[0] if len(self.sources) == 1 else None


@dataclass(frozen=True, slots=True)
class Narrow:
    """Loads or stores of global memory at one line of the kernel's source that take at most 32 bits a thread
    at a time. `steps`: by how many elements the index moves with each variable; `unit`: perhaps by one."""

    origin: Origin
    text: str
    writes: bool
    bits: int
    count: int
    steps: Mapping[str, int | None]

    @property
    def unit(self) -> bool:
        return any(step in (1, None) for step in self.steps.values()) or not self.steps


@dataclass(frozen=True, slots=True)
class Spread:
    """Accesses of the first warp at one line of the kernel's source that take more than their bytes would:
    of global memory `units` are sectors of 32 bytes, of shared memory rounds in which its banks serve them.
    `least` is what they would take side by side; `line` is the first of them in PTX, from 1."""

    origin: Origin
    text: str
    space: Space
    writes: bool
    count: int
    units: int
    least: int
    line: int

    @property
    def worth(self) -> bool:
        return worth(self.units, self.least)

    @property
    def told(self) -> str:
        what = plural(self.count, "store" if self.writes else "load")
        if self.space == "global":
            taken = f"{plural(self.units, 'sector')} of 32 bytes"
            return f"a warp touches {taken} in {what}, whose bytes fill {self.least}"
        rounds = f"{plural(self.units, 'round')}, without conflicts of its banks in {self.least}"
        return f"shared memory serves {what} of a warp in {rounds}"


@dataclass(frozen=True, slots=True)
class LoweredKernel:
    """A kernel of a graph as lowered with one configuration. `others` are the configurations of its source
    that autotuning compiled and did not choose; `recorded` is what the recorder saw of it when it ran."""

    graph: str
    kernel: Kernel
    folder: LoweredFolder | None
    others: tuple[LoweredFolder, ...] = ()
    stages: tuple[Stage, ...] = ()
    match: Callable[[], Model] = field(default=lambda: (NO_LINES, {}), compare=False, repr=False)
    """What its source's lines stand for, and where in the model that is, worked out when it is first asked:
    most kernels are looked at for what is counted of their stages alone."""
    recorded: RecordedKernel | None = None
    run_triton: str | None = None
    """The version that the run had."""
    fits: bool = False
    """Whether the places are those of the kernel's source."""
    problems: tuple[Problem, ...] = ()
    ncu: tuple[NcuKernel, ...] = ()
    """Its launches as Nsight Compute measured them."""
    counted: dict[str, StageFacts] = field(default_factory=dict, init=False, compare=False, repr=False)
    """What was counted of its stages so far: several rules ask of thousands of instructions."""
    led: dict[Place, Origin] = field(default_factory=dict, init=False, compare=False, repr=False)
    """Where places led so far: most are of several instructions."""
    matched: list[Model] = field(default_factory=list, init=False, compare=False, repr=False)
    """`match`'s answer, once it was asked."""

    @property
    def lines(self) -> KernelLines:
        """The FX nodes that each line of its source computes."""
        return self._model[0]

    @property
    def places(self) -> Mapping[str, SourceLocation]:
        """Where each FX node comes from in the model."""
        return self._model[1]

    @property
    def _model(self) -> Model:
        if not self.matched:
            self.matched.append(self.match())
        return self.matched[0]

    def origin(self, place: Place | None) -> Origin | None:
        """None for what is no instruction."""
        if place is None:
            return None
        if place not in self.led:
            self.led[place] = self._origin(place)
        return self.led[place]

    def _origin(self, place: Place) -> Origin:
        file = self.folder.source.file if self.folder is not None and self.folder.source is not None else None
        span = self.kernel.source_span
        own = [frame.line for frame in place if frame.file == file] if self.fits else []
        rows = [line - _BELOW for line in own if span is not None and _within(line, span)]
        if not rows or span is None:
            return Origin(None)
        nodes = frozenset().union(*(self.lines.at(row) for row in rows))
        every = {self.places[name]: None for name in sorted(nodes) if name in self.places}
        sources = tuple(sorted(every, key=lambda place: (place.path, place.line)))
        return Origin(span.first + rows[0] - 1, nodes, sources)

    def facts(self, name: str) -> StageFacts | None:
        """What is counted of a stage; None where it is not there."""
        if name not in self.counted and (stage := self.stage(name)) is not None:
            self.counted[name] = facts_of(stage)
        return self.counted.get(name)

    @property
    def occupancy(self) -> Occupancy | None:
        """Of its blocks on a multiprocessor of its target; None where anything of it is not known."""
        folder = self.folder
        if folder is None or folder.target is None or folder.warps is None or folder.shared_bytes is None:
            return None
        registers = folder.registers
        if registers is None and self.recorded is not None:
            registers = self.recorded.registers
        own = MULTIPROCESSORS.get(folder.target.arch) if folder.target.backend == "cuda" else None
        if own is None or registers is None:
            return None
        return occupancy(own, folder.warps, registers, folder.shared_bytes)

    @property
    def unasked(self) -> bool:
        """Whether it is a C++ kernel's assembly, and its compiler was not asked why it is as it is."""
        return self.kernel.kind == "cpp" and self.folder is not None and self.folder.unvectorised is None

    def unvectorised(self) -> Iterator[Unvectorised]:
        """Of loops that a compiler did not vectorise, by their lines in output_code.py."""
        span = self.kernel.source_span
        said = self.folder.unvectorised if self.folder is not None else None
        for each in said or ():
            if span is not None and _within(each.line, span):
                yield each._replace(line=span.first + each.line - _BELOW - 1)

    def throughput(self, loop: Loop) -> Throughput | None:
        """What llvm-mca expects of one of the assembly's loops; None where it was not asked."""
        known = self.folder.throughput if self.folder is not None else ()
        return next((each for each in known if (each.first, each.last) == (loop.first, loop.last)), None)

    def narrow(self) -> tuple[Narrow, ...]:
        """Narrow accesses as SASS has them, else PTX; those of most instructions first."""
        stage = self.stage("sass") or self.stage("ptx")
        lines = self.kernel.source.split("\n") if stage is not None else []
        first = self.kernel.source_span.first if self.kernel.source_span is not None else 1
        counts: Counter[tuple[int, bool, int]] = Counter()
        origins: dict[int, Origin] = {}
        facts = self.facts(stage.name) if stage is not None else None
        for access in facts.accesses if facts is not None else ():
            origin = self.origin(stage.places[access.line - 1]) if stage is not None else None
            if access.space == "global" and access.bits <= _NARROW and origin is not None and origin.line:
                counts[origin.line, access.writes, access.bits] += 1
                origins[origin.line] = origin
        return tuple(
            Narrow(
                origins[line], lines[line - first].strip(), writes, bits, count,
                index_steps(lines[line - first]),
            )
            for (line, writes, bits), count in counts.most_common()
        )  # fmt: skip

    def spread(self) -> tuple[Spread, ...]:
        """Accesses that take more than their bytes, by PTX, those that lose most first."""
        stage, span = self.stage("ptx"), self.kernel.source_span
        lines = self.kernel.source.split("\n") if stage is not None else []
        groups: dict[tuple[int, Space, bool], list[Touched]] = {}
        origins: dict[int, Origin] = {}
        for each in touched(stage) if stage is not None and span is not None else ():
            origin = self.origin(stage.places[each.line - 1]) if stage is not None else None
            if origin is not None and origin.line is not None:
                groups.setdefault((origin.line, each.space, each.writes), []).append(each)
                origins[origin.line] = origin
        first = span.first if span is not None else 1
        found = (
            Spread(
                origins[line], lines[line - first].strip(), space, writes, len(own), *taken, own[0].line
            )
            for (line, space, writes), own in groups.items()
            if (taken := _taken(own))[0] > taken[1]
        )  # fmt: skip
        return tuple(sorted(found, key=lambda each: each.least - each.units))

    @property
    def conflicts(self) -> Conflicts | None:
        """Of shared memory's banks in the loop that loses most by them."""
        stage, facts = self.stage("ptx"), self.facts("ptx")
        return conflicts(stage, facts) if stage is not None and facts is not None else None

    def span(self, stage: Stage, loop: Loop) -> LineSpan | None:
        """The lines of output_code.py that a loop's instructions are of."""
        places = stage.places[loop.first - 1 : loop.last]
        lines = [
            origin.line for place in places if (origin := self.origin(place)) is not None and origin.line
        ]
        return LineSpan(min(lines), max(lines)) if lines else None

    def stage(self, name: str) -> Stage | None:
        return next((stage for stage in self.stages if stage.name == name), None)


def _within(line: int, span: LineSpan) -> bool:
    """Whether a line of what was compiled is one of the kernel's, which output_code.py has at `span`."""
    return _BELOW < line <= _BELOW + span.last - span.first + 1


def lowered_kernel(
    artifacts: GraphArtifacts,
    linkage: Callable[[], Linkage],
    kernel: Kernel,
    folders: tuple[LoweredFolder, ...],
    stages: tuple[Stage, ...],
    recorded: RecordedKernel | None = None,
    call: int | None = None,
    run_triton: str | None = None,
) -> LoweredKernel:
    """`folders` are the kernel's, the chosen one first; `stages` are that one's. `call`: of this launch
    alone, where a kernel that several launches share stands for other FX nodes in each."""
    folder = folders[0] if folders else None
    problems = [*(folder.problems if folder is not None else ())]
    problems += [problem for stage in stages for problem in stage.problems]
    fits = folder is not None and _fits(kernel, folder)
    if folder is not None and not fits:
        path = next((stage.path for stage in stages), folder.key)
        problems.append(Problem(path, None, "its places do not fit the kernel's source in output_code.py"))
    return LoweredKernel(
        artifacts.ident,
        kernel,
        folder,
        folders[1:],
        stages,
        lambda: (lines_of(kernel, artifacts, linkage(), call), _places(artifacts.fx_after)),
        recorded,
        run_triton,
        fits,
        tuple(problems),
    )


def _places(graph: FxGraph | None) -> dict[str, SourceLocation]:
    """Node -> its line of the model, whatever function it is in."""
    nodes = graph.nodes if graph is not None else ()
    return {n.name: SourceLocation(n.source.path, n.source.line) for n in nodes if n.source is not None}


def _taken(own: list[Touched]) -> tuple[int, int]:
    """What accesses of one line take and the least: of global memory together, as what one of them fetched
    serves the next."""
    if own[0].space == "shared":
        return sum(each.rounds for each in own), sum(each.least for each in own)
    sectors, wanted = (
        set[int]().union(*parts) for parts in zip(*((x.sectors, x.bytes) for x in own), strict=True)
    )
    return len(sectors), -(-len(wanted) // SECTOR)


def _fits(kernel: Kernel, folder: LoweredFolder) -> bool:
    """Whether the function stands where the folder's places say."""
    if kernel.kind == "cpp":
        # Known by a digest of the source.
        return True
    lines = kernel.source.split("\n")
    row = folder.source.line - _BELOW - 1 if folder.source is not None else -1
    return 0 <= row < len(lines) and lines[row].startswith(f"def {kernel.function}(")
