"""One launch's outputs against what they stand for, on the inputs that the launch really got.

Where a buffer stands for an FX node and that node follows from what the kernel reads, the part of the FX
graph in between is evaluated, in eager and in float64. Else the loop bodies of the kernel's scheduler
nodes are, in the same two ways.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from inspector.replay.protocol import PlannedCall
from inspector.replay.worker.code.fx import Function, aten
from inspector.replay.worker.events import first_line
from inspector.replay.worker.inputs.arguments import promote
from inspector.replay.worker.kernels.facts import EXPECTED_ERRORS, GraphFacts
from inspector.replay.worker.kernels.loops import Loops
from inspector.replay.worker.kernels.own_kernels import OwnKernel
from inspector.replay.worker.reference.body import UnknownIr
from inspector.replay.worker.reference.buffers import Leaf, Meaning
from inspector.replay.worker.reference.evaluate import undefined_reason
from inspector.replay.worker.reference.loops import Watched
from inspector.replay.worker.reference.noise import Noise, unit
from inspector.replay.worker.reference.operator import repeat
from inspector.replay.worker.reference.subgraph import NotComputable

_INDEXING = aten(
    """index _unsafe_index index_put _unsafe_index_put index_select index_add index_copy gather scatter
    scatter_add scatter_reduce embedding embedding_dense_backward take"""
)

_EDGE = 1e-3
"""Relative distance from a dtype's largest number within which one side may overflow and the other not."""

_MOST_WATCHED = 1 << 16
"""Elements of a loop nest that are looked at: what it computes behind them is the same."""

_MOST_MEANINGS = 5
"""Nodes that are evaluated for one buffer until one of them agrees with its loops."""


@dataclass
class Expected:
    """What one output should hold, in the shape of the buffer. `node` is the FX node, or the buffer's name
    where only its loop says what it is; `exact` where no floating value went in; `state`: not a result."""

    node: str
    eager: object = None
    reference: object = None
    exact: bool = False
    reason: str = ""
    state: bool = False
    noisy: Callable[[int], object] | None = None
    """The reference from a seed, its rounding disturbed."""
    certain: Tensor | None = None
    """Elements that can be judged; None for all."""
    in_graph: bool = False
    """Whether the FX graph, too, was evaluated on drawn values, and did not refuse them."""


@dataclass
class Launch:
    """One kernel call about to run: its leaves, and the tensors that it reads, as they are before it."""

    call: PlannedCall
    facts: GraphFacts
    leaves: list[Leaf]
    reads: dict[str, object]
    """By the name that the schedule has for that state of the memory, symbolic sizes by placeholder. Not a
    whole whose parts the launch writes: before it, that holds nothing."""
    memories: dict[str, object]
    """The same tensors by the name of their memory."""
    before: dict[str, Tensor] = field(default_factory=dict)
    """Outputs' memory before the launch, flat, by root name."""
    drawn: bool = False
    """Whether its inputs are values that the graph itself may never give it."""
    operator: tuple[Function, object, Mapping[str, object]] | None = None
    """Function, arguments and keyword arguments of an extern or fallback call."""
    generators: Sequence[Tensor] = ()
    """Of an operator that draws random numbers: the generators' states before the call."""
    own_kernel: OwnKernel | None = None
    """Of a launch of the program's own kernel."""

    def expected(self, name: str, shape: Sequence[int] | None = None) -> Expected:
        """What the buffer `name` should hold after the launch. `shape`: of the tensor that it is, where
        the schedule does not say."""
        if self.own_kernel is not None:
            return self._from_own_kernel(self.own_kernel, name)
        own, buffer, size, target = self.sought(name, shape)
        reasons = []
        if target is not None:
            try:
                return self._from_graph(target, size or ())
            except EXPECTED_ERRORS as error:
                reasons.append(first_line(error))
        if self.operator is not None:
            try:
                eager, reference = (
                    repeat(*self.operator, wide=wide, generators=self.generators) for wide in (False, True)
                )
                noisy = None if self.generators else partial(_repeated, self.operator)
                return Expected(target.node if target else name, eager, reference, noisy=noisy)
            except EXPECTED_ERRORS as error:
                reasons.append(first_line(error))
        elif own:
            try:
                return self._from_loops(buffer, target)
            except EXPECTED_ERRORS as error:
                reasons.append(first_line(error))
        # The graph and the operator say the same of random numbers; the graph names the node.
        reasons = [reason for reason in reasons if "random numbers" in reason][:1] or reasons
        if not reasons:
            reasons.append(self._no_meaning())
        return Expected(target.node if target else name, reason="; ".join(dict.fromkeys(reasons)))

    def _from_own_kernel(self, kernel: OwnKernel, name: str) -> Expected:
        sizes = {each: value for each, value in self.reads.items() if not isinstance(value, Tensor)}
        try:
            value = kernel.expected(name, self.call, self.facts.subgraph, sizes)
        except (*EXPECTED_ERRORS, AssertionError) as error:
            return Expected(name, reason=f"it is the program's own kernel, and {first_line(error)}")

        def noisy(seed: int) -> object:
            return self.facts.noise(seed).function(promote(value), unit(value.dtype), "")

        # The same kernel: no element has another's scale.
        sure = torch.ones(value.shape, dtype=torch.bool, device=value.device)
        exact = not value.dtype.is_floating_point
        return Expected(name, value, promote(value), exact, noisy=noisy, certain=sure)

    def _no_meaning(self) -> str:
        program = self.facts.subgraph.program
        nodes = [node for name in self.call.fx if (node := program.node(name)) is not None]
        runs = next((node for node in nodes if node.op.startswith("higher_order.")), None)
        if runs is not None and not self.call.entries:
            # torch/_inductor/graph.py: each SubgraphLowering writes ir_post_fusion.txt anew.
            return (
                f"it is in a subgraph of {runs.name}, and torch keeps the schedule of the last subgraph only"
            )
        return "the run does not tell what it stands for"

    def sought(
        self, name: str, shape: Sequence[int] | None
    ) -> tuple[bool, str, tuple[int, ...] | None, Meaning | None]:
        """Whether a leaf of this launch makes the buffer, under which name, its size, the node that it is."""
        own = [
            buffer
            for leaf in self.leaves
            for buffer in leaf.buffers
            if buffer == name or self.facts.layouts.root(buffer) == self.facts.layouts.root(name)
        ]
        buffer = own[-1] if own else name
        size = self._size(name, buffer)
        size = size if size is not None or shape is None else tuple(shape)
        node = self.facts.nodes.get(self.call.index)
        meanings = list(self.facts.meanings.get(buffer, ()))
        if node is not None and self.call.kind != "template" and size is not None:
            meanings.insert(0, Meaning(node, tuple(range(len(size))), tuple(size)))
        return bool(own), buffer, size, self._preferred(meanings, name)

    def agreed(self, name: str, shape: Sequence[int] | None) -> Expected:
        """What the buffer should hold for inputs that the graph itself may never give the launch: by its
        loops, and `certain` only where those and the FX graph, each in float64 and in its own dtypes, agree.
        Buffers were matched with nodes by other values, and special ones leave an implementation freedom.

        Raises one of `EXPECTED_ERRORS` where the loops cannot tell, or an operator refuses these values.
        """
        self.drawn = True
        if self.own_kernel is not None:
            return self._from_own_kernel(self.own_kernel, name)
        own, buffer, size, target = self.sought(name, shape)
        if not own:
            raise NotComputable(f"no loop makes {name}")
        expected = self._from_loops(buffer, target)
        assert isinstance(expected.eager, Tensor) and isinstance(expected.reference, Tensor)
        expected.certain = _agree(expected.eager, expected.reference, rounded=True)
        # On the graph's own values a relu of what is never negative is no other node than what it is of.
        others = [target, *self.facts.meanings.get(buffer, ())] if target is not None else []
        best: Tensor | None = None
        for meaning in list(dict.fromkeys(others))[:_MOST_MEANINGS]:
            try:
                if expected.eager.is_cuda and self._indexes(meaning):
                    continue
                other = self._from_graph(meaning, size or ())
            except NotComputable:
                continue
            shape = expected.reference.shape
            sides = [value for value in (other.eager, other.reference) if isinstance(value, Tensor)]
            if len(sides) < 2 or any(value.numel() != expected.reference.numel() for value in sides):
                continue
            agreed = _agree(sides[0].reshape(shape), expected.reference, rounded=True)
            agreed &= _agree(sides[1].reshape(shape), expected.reference, rounded=False)
            best = agreed if best is None or int(agreed.sum()) > int(best.sum()) else best
            if bool(best.all()):
                break
        expected.in_graph = best is not None
        if best is not None:
            expected.certain &= best
        return expected

    def expected_parts(self, result: Sequence[object]) -> list[Expected]:
        """What a call that returns several tensors should give, part by part."""
        facts = self.facts
        node = facts.nodes.get(self.call.index)
        if node is None:
            return self._repeated_parts("no FX node is known for it", len(result))
        program = facts.subgraph.program
        names = {item.index: item.name for item in program.nodes if item.inputs == (node,)}
        given = self.given()
        try:
            eager = facts.subgraph.evaluate(node, given, wide=False)
            reference = facts.subgraph.evaluate(node, given, wide=True)
        except EXPECTED_ERRORS as error:
            return self._repeated_parts(first_line(error), len(result))
        parts = []
        for index, (ours, truth) in enumerate(zip(tree_leaves(eager), tree_leaves(reference), strict=False)):
            name = names.get(index) or f"{node}[{index}]"
            why = (
                undefined_reason(program, facts.subgraph.recording, names.get(index))
                if index in names
                else None
            )
            expected = Expected(name, ours, truth, exact=self._exact(given))
            expected.noisy = partial(self._noisy_part, node, given, index)
            if why is not None:
                expected.reason, expected.state = why, "generator's state" in why
            elif index not in names:
                expected.reason, expected.state = "nothing in the graph uses it", True
            parts.append(expected)
        return parts

    def _noisy_part(self, node: str, given: Mapping[str, object], index: int, seed: int) -> object:
        return tree_leaves(
            self.facts.subgraph.evaluate(node, given, wide=True, noise=self.facts.noise(seed))
        )[index]

    def _repeated_parts(self, why: str, count: int) -> list[Expected]:
        """The parts by the operator itself where the FX graph does not give them, for the reason `why`."""
        name = self.call.kernel
        assert self.operator is not None
        try:
            eager, reference = (
                tree_leaves(repeat(*self.operator, wide=wide, generators=self.generators))
                for wide in (False, True)
            )
        except EXPECTED_ERRORS as error:
            return [Expected(name, reason=f"{why}; {first_line(error)}")] * count
        return [
            # A library's way for one dtype leaves a part out that another's has.
            Expected(f"{name}[{index}]", ours, truth if _shape(ours) == _shape(truth) else promote(ours))
            for index, (ours, truth) in enumerate(zip(eager, reference, strict=True))
        ]

    def given(self) -> dict[str, object]:
        """FX nodes that the kernel's inputs hold, in the nodes' shapes and dtypes."""
        values: dict[str, object] = {}
        exact: set[str] = set()
        for name, tensor in self.reads.items():
            if not isinstance(tensor, Tensor):
                values.setdefault(name, tensor)
                continue
            for meaning in self.facts.meanings.get(name, ()):
                wanted = self.facts.dtype_of(meaning.node) or tensor.dtype
                if meaning.node in values and (meaning.node in exact or wanted != tensor.dtype):
                    continue
                value = self._as_in_eager(meaning.node, meaning.as_node(tensor))
                values[meaning.node] = value if value.dtype == wanted else cast(value, wanted)
                if wanted == tensor.dtype:
                    exact.add(meaning.node)
        return values

    def _as_in_eager(self, node: str, value: Tensor) -> Tensor:
        """The value with the strides that eager gave the node: `as_strided` further down counts on them."""
        stride = self.facts.subgraph.recording.strides.get(node)
        if stride is None or stride == value.stride() or 0 in stride or len(stride) != value.dim():
            return value
        placed = torch.empty_strided(value.shape, stride, dtype=value.dtype, device=value.device)
        return placed.copy_(value)

    def _exact(self, given: Mapping[str, object]) -> bool:
        return not any(
            value.dtype.is_floating_point or value.dtype.is_complex
            for value in given.values()
            if isinstance(value, Tensor)
        )

    def _size(self, name: str, buffer: str) -> tuple[int, ...] | None:
        layout = self.facts.layouts.of(buffer) or self.facts.layouts.of(name)
        return layout[0] if layout is not None else None

    def _preferred(self, meanings: Sequence[Meaning], name: str) -> Meaning | None:
        """The meaning to evaluate: a node that the launch is linked with, before one that it may hold by
        chance (``x + 1e4 - 1e4`` holds what x holds); of those the one with the buffer's dtype."""
        layout = self.facts.layouts.of(name)
        dtype = layout[2] if layout else None
        meanings = [meaning for meaning in meanings if meaning.node in self.call.fx] or meanings
        exact = [meaning for meaning in meanings if self.facts.dtype_of(meaning.node) == dtype]
        # The last, as what is clamped behind the others may hold the same on these values; of an operator's
        # call the first, its own node.
        ordered = exact or meanings
        return next(iter(ordered if self.call.kind in {"extern", "fallback"} else reversed(ordered)), None)

    def _given_for(self, target: str) -> dict[str, object]:
        """What the inputs hold, less what the launch is to compute, as far as `target` can be had so."""
        given = self.given()
        own = {name: value for name, value in given.items() if name not in self.call.fx}
        try:
            self.facts.subgraph.cone(target, own)
        except NotComputable:
            return {name: value for name, value in given.items() if name != target} if self.leaves else given
        return own

    def _indexes(self, target: Meaning) -> bool:
        """Whether the graph reads or writes by index before the node: with drawn indices a GPU's assertion
        may end the process."""
        nodes = self.facts.subgraph.cone(target.node, self._given_for(target.node))
        return any(node.op in _INDEXING for node in nodes)

    def _from_graph(self, target: Meaning, size: Sequence[int]) -> Expected:
        given = self._given_for(target.node)
        subgraph = self.facts.subgraph
        eager = subgraph.evaluate(target.node, given, wide=False)
        reference = subgraph.evaluate(target.node, given, wide=True)
        if not isinstance(eager, Tensor):
            raise NotComputable(f"{target.node} is no tensor")
        ours, truth = (target.as_buffer(value, size) for value in (eager, reference))

        def noisy(seed: int) -> object:
            value = subgraph.evaluate(target.node, given, wide=True, noise=self.facts.noise(seed))
            return target.as_buffer(value, size) if isinstance(value, Tensor) else value

        return Expected(target.node, ours, truth, self._exact(given), noisy=noisy)

    def _from_loops(self, buffer: str, target: Meaning | None) -> Expected:
        ours, truth = (self._run_loops(buffer, wide=wide) for wide in (False, True))
        node = target.node if target is not None else buffer

        def noisy(seed: int) -> object:
            return self._run_loops(buffer, wide=True, noise=self.facts.noise(seed, self.drawn))

        return Expected(node, ours, truth, self._exact(self.reads), noisy=noisy)

    def _run_loops(self, buffer: str, *, wide: bool, noise: Noise | None = None) -> Tensor:
        loops = Loops(self, wide, noise)
        for leaf in self.needed(buffer):
            loops.run(leaf)
        layout = self.facts.layouts.of(buffer)
        if layout is None:
            raise UnknownIr(f"the layout of {buffer} is not known")
        return torch.as_strided(loops.memory(buffer, False), layout[0], layout[1])

    def run_watched(self, name: str, memory: Tensor, watch: Watched) -> None:
        """All of the loops in their own dtypes, this flat memory in the place of that of `name`, while
        `watch` looks on; of long ones only the first elements. Raises one of `EXPECTED_ERRORS`."""
        root = self.facts.layouts.root(name)
        loops = Loops(self, False, values={root: memory}, watched=watch, most=_MOST_WATCHED)
        for leaf in self.leaves:
            if leaf.body is not None:
                loops.run(leaf)

    def needed(self, buffer: str) -> list[Leaf]:
        """Leaves of this launch that `buffer` depends on, in order."""
        wanted = {self.memory_of(buffer)}
        needed = []
        for leaf in reversed(self.leaves):
            if any(self.memory_of(name) in wanted for name in leaf.buffers):
                needed.append(leaf)
                wanted.update(map(self.memory_of, leaf.reads))
        return needed[::-1]

    def memory_of(self, name: str) -> str:
        """Whose memory a buffer is in this launch: that of the whole where the launch reads the whole, as a
        concatenation whose parts it writes."""
        owner = self.facts.layouts.owner(name)
        return owner if owner in self.memories else self.facts.layouts.root(name)


def _shape(value: object) -> object:
    return getattr(value, "shape", None)


def _repeated(operator: tuple[Function, object, Mapping[str, object]], seed: int) -> object:
    return repeat(*operator, wide=True, noise=Noise(seed))


def cast(value: Tensor, dtype: torch.dtype) -> Tensor:
    if dtype.is_floating_point and dtype.itemsize == 1:
        return value.to(torch.float32).to(dtype)
    return value.to(dtype)


def _agree(value: Tensor, reference: Tensor, *, rounded: bool) -> Tensor:
    """Where two evaluations hold the same, but for rounding: NaN, infinities and finite values alike."""
    left, right = (promote(side) for side in (value, reference))
    if not right.dtype.is_floating_point:
        return left.to(right.dtype) == right
    edge = torch.zeros_like(right, dtype=torch.bool)
    if rounded and value.dtype.is_floating_point:
        # So near the largest number what is infinite in between, and then times zero, is a matter of an ulp.
        largest = torch.finfo(value.dtype).max
        edge = ((right.abs() - largest).abs() <= _EDGE * largest) & (right.abs() != largest)
        right = promote(right.to(value.dtype))
    near = (left - right).abs() <= (0.05 if rounded else 1e-6) * (right.abs() + left.abs())
    same = torch.where(
        left.isfinite() & right.isfinite(), near, (left == right) | (left.isnan() & right.isnan())
    )
    return same & ~edge
