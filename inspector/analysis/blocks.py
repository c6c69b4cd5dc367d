"""Blocks: parts of the program with the kernels of both sides that do their work.

Eager's operators lead to the program's calls, compiled launches too; what shares a call is one block.
Blocks that are the same but for where they stand, as a line that ran four times, are one with its number.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from inspector.frozen import dataclass
from inspector.model.source import SourceLocation
from inspector.model.two_sides import Block, KernelTime, Phase, ProgramGraph, Side

from .call_nodes import CallNodes
from .eager_side import Place
from .profile_work import Work

Key = tuple[str, str, str, Phase, int]
"""("call", "", compile id, phase, number of the program's call) or ("launch", graph's ident, compile id
of the region in which it ran, phase, number)."""


_EACH = 0.9
"""Calls of a kernel in a steady call: it is part of each, but for the ends of what was profiled."""
_GRADIENT = "_autograd_grad"
"""What torch.func's transforms call in a traced frame (torch/_functorch/eager_transforms.py)."""

# MmBackward0, aten::TanhBackwardBackward0
_NODE = re.compile(r"Backward\d*$")


@dataclass(frozen=True, slots=True)
class GraphOfBlocks:
    """A compiled graph as blocks need it: which of the program's calls each launch does the work of. Code
    that runs in several regions is one for each `compile_id`."""

    ident: str
    compile_id: str
    phase: Phase
    nodes: Mapping[int, CallNodes]


@dataclass(frozen=True, slots=True)
class Attributed:
    """One side's work with the place of each piece; `calls` is how many steady calls it is of."""

    work: tuple[Work, ...]
    places: tuple[Place, ...]
    calls: int


def join(
    eager: Attributed | None,
    compiled: Attributed | None,
    programs: Mapping[str, ProgramGraph],
    graphs: Sequence[GraphOfBlocks],
) -> tuple[Block, ...]:
    """All blocks, largest difference first. `programs` by compile id; transfers between host and device are
    in no block."""
    groups = _Groups()
    for graph in graphs:
        for launch, nodes in graph.nodes.items():
            keys: list[Key] = [("call", "", graph.compile_id, graph.phase, number) for number in nodes.calls]
            groups.join([("launch", graph.ident, graph.compile_id, graph.phase, launch), *keys])
    unsure: set[Key] = set()
    for graph in graphs:
        if eager is not None and (whole := _whole(graph, eager)):
            groups.join(whole)
            unsure.update(whole)
    if eager is not None:
        for inner in _inner_gradients(programs, graphs):
            eager = _adopted(eager, compiled, inner)
            inner = [*inner, *_backward_keys(eager, inner[0][2])]
            groups.join(inner)
            unsure.update(inner)
    sides: tuple[tuple[Side, Attributed | None], ...] = (("eager", eager), ("compiled", compiled))
    for name, side in sides:
        for place in side.places if side is not None else ():
            if len(place.parts) > 1:
                keys = _keys(name, place)
                groups.join(keys)
                unsure.add(keys[0])
    contents: dict[object, _Content] = {}
    for name, attributed in sides:
        if attributed is None:
            continue
        for piece, place in zip(attributed.work, attributed.places, strict=True):
            if piece.transfer:
                continue
            content = contents.setdefault(_where(name, place, groups), _Content(place))
            content.add(name, piece, place, attributed.calls)
    idents = {graph.ident for graph in graphs}
    made = [
        _block(content, groups, unsure, programs, idents, eager is not None, compiled is not None)
        for content in contents.values()
    ]
    return tuple(sorted(_repeated(made), key=_order))


def _whole(graph: GraphOfBlocks, eager: Attributed) -> list[Key]:
    """All launches of a graph with what eager does in its place, where nothing leads from any of them to a
    call, as in the backward of a library's module, whose nodes have no line of the program's."""
    if any(nodes.calls for nodes in graph.nodes.values()):
        return []
    region = (graph.compile_id, graph.phase)
    calls = {key for place in eager.places for key in _keys("eager", place) if (key[2], key[3]) == region}
    launches: list[Key] = [("launch", graph.ident, *region, launch) for launch in graph.nodes]
    return [*launches, *sorted(calls)] if launches and calls else []


def _inner_gradients(
    programs: Mapping[str, ProgramGraph], graphs: Sequence[GraphOfBlocks]
) -> Iterator[list[Key]]:
    """Of each frame that takes gradients inside of itself these calls, which eager does in a backward pass.
    Where the frame has one of its own, too, nothing tells which of both is whose."""
    trained = {(graph.compile_id, graph.phase) for graph in graphs}
    for ident, program in programs.items():
        taken = [number for number, call in enumerate(program.calls) if call.operator == _GRADIENT]
        phases: list[Phase] = ["forward", "backward"] if (ident, "backward") in trained else ["forward"]
        if taken:
            yield [("call", "", ident, phase, number) for phase in phases for number in taken]


def _backward_keys(eager: Attributed, ident: str) -> list[Key]:
    """What eager does of a frame in a backward pass."""
    keys = {key for place in eager.places for key in _keys("eager", place)}
    return sorted(key for key in keys if key[2:4] == (ident, "backward"))


def _adopted(eager: Attributed, compiled: Attributed | None, inner: Sequence[Key]) -> Attributed:
    """Eager's work with autograd's nodes that are in no graph and run so on its side alone, as those of a
    backward of a backward, in the gradients that a frame takes inside of itself."""
    _, _, ident, _, number = inner[0]
    outside = (
        {place.name for place in compiled.places if place.graph is None} if compiled is not None else set()
    )
    places = tuple(
        replace(place, graph=ident, parts=(number,), phase="forward", compile_id=ident)
        if place.graph is None and _NODE.search(place.name) and place.name not in outside
        else place
        for place in eager.places
    )
    return replace(eager, places=places)


def _keys(side: Side, place: Place) -> list[Key]:
    """The calls or launches of a place in a graph."""
    if place.graph is None:
        return []
    if side == "eager":
        return [("call", "", place.graph, place.phase, part) for part in place.parts]
    return [("launch", place.graph, place.compile_id, place.phase, part) for part in place.parts]


def _where(side: Side, place: Place, groups: _Groups) -> object:
    """What stands together in one block: a group of calls and launches, else a name."""
    if place.graph is None:
        return ("outside", place.phase, place.name, place.inside)
    if not place.parts:
        return ("unplaced", place.graph, place.phase, place.name)
    return groups.root(_keys(side, place)[0])


class _Content:
    """What is in one block while it is filled."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.keys: set[Key] = set()
        self.kernels: dict[Side, dict[str, list[float]]] = {"eager": {}, "compiled": {}}
        self.generated: set[str] = set()
        self.programs: dict[str, int] = {}

    def add(self, side: Side, piece: Work, place: Place, calls: int) -> None:
        counted = self.kernels[side].setdefault(piece.name, [0.0, 0.0, 0.0])
        counted[0] += 1 / calls
        counted[1] += piece.ms / calls
        counted[2] += piece.taken_ms / calls
        if piece.generated:
            self.generated.add(piece.name)
        if piece.programs is not None:
            self.programs[piece.name] = max(piece.programs, self.programs.get(piece.name, 0))
        self.keys.update(_keys(side, place))


def _as_often(eager: Sequence[KernelTime], compiled: Sequence[KernelTime]) -> bool:
    """Whether eager's calls have the block as often as compiled ones, which have it in each: not where a
    program's evaluation calls the model itself, which is what it compiles only in eager, and has no backward
    pass."""
    if not compiled or min(kernel.calls for kernel in compiled) < _EACH:
        return True
    rare = sum(kernel.taken_ms for kernel in eager if kernel.calls < _EACH)
    return rare <= sum(kernel.taken_ms for kernel in eager) / 2


def _block(
    content: _Content,
    groups: _Groups,
    unsure: set[Key],
    programs: Mapping[str, ProgramGraph],
    idents: Set[str],
    has_eager: bool,
    has_compiled: bool,
) -> Block:
    members = {member for key in content.keys for member in groups.members(key)}
    calls = sorted((compile_id, number) for kind, _, compile_id, _, number in members if kind == "call")
    program = [
        programs[compile_id].calls[number]
        for compile_id, number in calls
        if compile_id in programs and number < len(programs[compile_id].calls)
    ]
    lines = {str(call.source): call.source for call in program if call.source is not None}
    launched = sorted({ident for kind, ident, *_ in members if kind == "launch"})
    place = content.place
    ident = next(iter(launched), place.graph if place.graph in idents else None)
    eager, compiled = _kernels(content, "eager"), _kernels(content, "compiled")
    named = not members
    return Block(
        lines=tuple(_merged(lines.values())),
        modules=tuple(dict.fromkeys(path for call in program for path in call.modules)),
        operators=(place.name,) if named else tuple(dict.fromkeys(call.operator for call in program)),
        phase=place.phase,
        graph=ident,
        eager_ms=sum(kernel.taken_ms for kernel in eager)
        if has_eager and _as_often(eager, compiled)
        else None,
        compiled_ms=sum(kernel.taken_ms for kernel in compiled) if has_compiled else None,
        eager_kernels=eager,
        compiled_kernels=compiled,
        place="outside" if place.graph is None else "unplaced" if named else "graph",
        inside=place.inside,
        sure=not unsure & members,
        launches=tuple(sorted({(ident, number) for kind, ident, *_, number in members if kind == "launch"})),
    )


def _merged(lines: Iterable[SourceLocation]) -> list[SourceLocation]:
    return sorted(lines, key=lambda line: (line.path, line.line))


def _kernels(content: _Content, side: Side) -> tuple[KernelTime, ...]:
    times = [
        KernelTime(
            name,
            calls,
            ms,
            name in content.generated,
            content.programs.get(name),
            None if part == ms else part,
        )
        for name, (calls, ms, part) in content.kernels[side].items()
    ]
    return tuple(sorted(times, key=lambda kernel: -kernel.ms))


def _repeated(blocks: Sequence[Block]) -> list[Block]:
    """Blocks of the same lines, operators and kernels summed."""
    same: dict[object, list[Block]] = defaultdict(list)
    for block in blocks:
        key = (
            block.place, block.phase, block.graph, block.inside, block.lines, block.operators, block.sure,
            frozenset(kernel.name for kernel in block.eager_kernels),
            frozenset(kernel.name for kernel in block.compiled_kernels),
        )  # fmt: skip
        same[key].append(block)
    return [_sum(group) for group in same.values()]


def _sum(blocks: Sequence[Block]) -> Block:
    first = blocks[0]
    if len(blocks) == 1:
        return first
    return replace(
        first,
        modules=tuple(dict.fromkeys(path for block in blocks for path in block.modules)),
        eager_ms=_total([block.eager_ms for block in blocks]),
        compiled_ms=_total([block.compiled_ms for block in blocks]),
        eager_kernels=_together(kernel for block in blocks for kernel in block.eager_kernels),
        compiled_kernels=_together(kernel for block in blocks for kernel in block.compiled_kernels),
        times=sum(block.times for block in blocks),
        launches=tuple(launch for block in blocks for launch in block.launches),
    )


def _total(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _together(kernels: Iterable[KernelTime]) -> tuple[KernelTime, ...]:
    summed: dict[str, KernelTime] = {}
    for kernel in kernels:
        known = summed.get(kernel.name)
        if known is not None:
            most = max(filter(None, (kernel.programs, known.programs)), default=None)
            part = None
            if kernel.part_ms is not None or known.part_ms is not None:
                part = kernel.taken_ms + known.taken_ms
            kernel = replace(
                kernel,
                calls=kernel.calls + known.calls,
                ms=kernel.ms + known.ms,
                programs=most,
                part_ms=part,
            )
        summed[kernel.name] = kernel
    return tuple(sorted(summed.values(), key=lambda kernel: -kernel.ms))


def _order(block: Block) -> tuple[float, float]:
    return -abs(block.difference_ms), -max(block.eager_ms or 0.0, block.compiled_ms or 0.0)


class _Groups:
    """Sets that are joined where they share a member."""

    def __init__(self) -> None:
        self._parent: dict[Key, Key] = {}
        self._members: dict[Key, set[Key]] = {}

    def root(self, key: Key) -> Key:
        self._parent.setdefault(key, key)
        self._members.setdefault(key, {key})
        while self._parent[key] != key:
            self._parent[key] = self._parent[self._parent[key]]
            key = self._parent[key]
        return key

    def join(self, keys: Sequence[Key]) -> None:
        first = self.root(keys[0])
        for key in keys[1:]:
            other = self.root(key)
            if other != first:
                if len(self._members[other]) > len(self._members[first]):
                    first, other = other, first
                self._parent[other] = first
                self._members[first] |= self._members.pop(other)

    def members(self, key: Key) -> set[Key]:
        return self._members[self.root(key)]
