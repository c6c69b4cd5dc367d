"""Bytes that scheduler nodes read and write, from their dependencies and the buffers' layouts.

A `star` dependency moves the whole buffer, a `memory` dependency the region that its index visits. A
node that changes a buffer in place writes the memory of that buffer. Nothing is counted for a nop
(memory that others fill) and for the empty result of a call with several outputs, whose tensors are
nodes of their own (torch/_inductor/ir.py: NopKernel, MultiOutputLayout).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from inspector.model.calls import GraphRuns
from inspector.model.code import Alias, Allocation, OutputCode
from inspector.model.fusion import Access, Basis, Region
from inspector.model.fx import FxGraph, FxNode, TensorMeta
from inspector.model.links import Linkage
from inspector.model.run import GraphArtifacts
from inspector.model.runnable import RunnableScript
from inspector.model.schedule import Dependency, Layout, SchedulerNode
from inspector.model.source import Size, numel

from .dataflow import VIEWS, operator
from .index_ranges import IndexReader, union

ITEM_BYTES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1,
    "bool": 1, "complex32": 4, "complex64": 8, "complex128": 16,
}  # fmt: skip
"""Bytes of one element, by torch's dtype name."""


def meta_bytes(node: FxNode | None) -> int:
    """Bytes of what a node makes; 0 where that is no tensor, or has symbolic sizes."""
    meta = node.meta if node is not None else None
    return (numel(meta.shape) or 0) * ITEM_BYTES.get(meta.dtype, 4) if meta is not None else 0


_WITHOUT_TENSOR = {"MultiOutputLayout", "NoneLayout", "CommBufferLayout"}

# s77, u0, zuf3: a symbolic size that stands alone
_SYMBOL = re.compile(r"[a-z]+\d+\Z")


def symbol_hints(code: OutputCode | None, fx: FxGraph | None) -> dict[str, int]:
    """The recorded values of symbolic sizes.

    From the wrapper's ``s77 = primals_3`` and the example value of that input, and from inputs whose
    symbolic shape stands in the FX graph and whose example shape stands in the wrapper.
    """
    if code is None:
        return {}
    examples = {example.name: example for example in code.example_inputs}
    values = {name: each.value for name, each in examples.items() if isinstance(each.value, int)}
    hints = _named(code, fx, values)
    for node in fx.placeholders if fx else ():
        example = examples.get(node.name)
        if example is not None and node.meta is not None and example.size is not None:
            for expected, actual in zip(node.meta.shape, example.size, strict=False):
                if isinstance(expected, str) and _SYMBOL.match(expected) and isinstance(actual, int):
                    hints.setdefault(expected, actual)
    return hints


def sizes_of(
    artifacts: GraphArtifacts, script: RunnableScript | None, runs: GraphRuns | None
) -> dict[str, int]:
    """The values of symbolic sizes: those of the mean run that the recorder saw, else those that a graph was
    compiled for, which is what came first and may be far from what it is called with from then on."""
    known = dict(script.symbols) if script is not None else {}
    inputs = artifacts.fx_after.placeholders if artifacts.fx_after is not None else ()
    if runs is None or artifacts.code is None or runs.given != len(inputs):
        return known
    seen = {inputs[position].name: round(mean) for position, mean in runs.sizes if position < len(inputs)}
    return known | _named(artifacts.code, artifacts.fx_after, seen)


def _named(code: OutputCode, fx: FxGraph | None, values: Mapping[str, int]) -> dict[str, int]:
    """Symbol -> its value, by the `values` of a graph's inputs."""
    named: dict[str, int] = {}
    # Sym(s77)
    for node in fx.placeholders if fx else ():
        symbol = (node.annotation or "").removeprefix("Sym(").removesuffix(")")
        if node.name in values and _SYMBOL.match(symbol):
            named[symbol] = values[node.name]
    # s47 = primals_11, s77 = s47
    for step in code.steps:
        if isinstance(step, Alias) and step.kind == "symbol":
            value = values.get(step.source, named.get(step.source))
            if value is not None:
                named[step.name] = value
    return named


class Memory:
    """What is known of every buffer of a graph: elements, item size, and whose storage it is."""

    def __init__(
        self,
        artifacts: GraphArtifacts,
        leaves: Mapping[str, SchedulerNode],
        linkage: Linkage,
        symbols: Mapping[str, int] | None = None,
    ) -> None:
        hints = symbol_hints(artifacts.code, artifacts.fx_after)
        hints.update(symbols or {})
        self.reader = IndexReader(hints)
        self._shapes: dict[str, tuple[tuple[Size, ...], str]] = {}
        self._empty: set[str] = set()
        self._viewing: set[str] = set()
        """What is taken apart of a view is memory of what it views."""
        self._target: dict[str, str] = {}
        self.outputs: dict[str, None] = {}
        self.inputs: set[str] = set()
        self.changed: set[str] = set()
        self._numel: dict[str, int | None] = {}
        for leaf in leaves.values():
            self._learn_node(leaf)
        if artifacts.code is not None:
            self._learn_code(artifacts.code)
            self._learn_parts(artifacts.code, artifacts.fx_after, linkage)
        self._learn_fx(artifacts.fx_after)
        made = {buffer.name for leaf in leaves.values() for buffer in leaf.outputs}
        for leaf in leaves.values():
            self.inputs.update(dep.buffer for dep in leaf.reads if dep.buffer not in made)
            if is_nop(leaf) and any(buffer.name in self.outputs for buffer in leaf.outputs):
                # A concatenation that is a result: whoever fills a part of it writes a result.
                self.outputs.update(dict.fromkeys(dep.buffer for dep in leaf.reads))

    def _learn_node(self, leaf: SchedulerNode) -> None:
        if moves_nothing(leaf):
            self._viewing.update(buffer.name for buffer in leaf.outputs)
        for name, layout in leaf.layouts:
            self._learn(name, layout)
        for buffer in leaf.outputs:
            if buffer.layout is not None:
                self._learn(buffer.name, buffer.layout)
            if buffer.mutations:
                self._target[buffer.name] = buffer.mutations[0]
                self.changed.update(buffer.mutations)
            if any(user.node == "OUTPUT" for user in buffer.users):
                self.outputs[buffer.name] = None

    def _learn(self, name: str, layout: Layout) -> None:
        if layout.kind in _WITHOUT_TENSOR:
            self._empty.add(name)
        elif layout.size is not None and layout.dtype is not None:
            self._shapes.setdefault(name, (layout.size, layout.dtype))

    def _learn_code(self, code: OutputCode) -> None:
        for example in code.example_inputs:
            if example.size is not None and example.dtype is not None:
                self._shapes.setdefault(example.name, (example.size, example.dtype))
        for step in code.steps:
            if isinstance(step, Allocation):
                self._shapes.setdefault(step.name, (step.size, step.dtype))
            elif isinstance(step, Alias) and step.kind == "unpack":
                # torch 2.4 prints no layout of a call whose tensors are unpacked.
                self._empty.add(step.source)

    def _learn_parts(self, code: OutputCode, graph: FxGraph | None, linkage: Linkage) -> None:
        """Shapes that the IR leaves out: of unpacked tensors (``buf7 = buf5[1]``), from the FX node that
        takes the same part, and of buffers that take over another's memory."""
        parts = {
            (node.inputs[0], _part_number(node.text)): node.meta
            for node in (graph.nodes if graph else ())
            if node.kind == "getitem" and node.inputs and node.meta is not None
        }
        fx = {link.call: link.fx for link in linkage.calls}
        makers = {name: fx.get(call.index, ()) for call in code.calls for name in call.outputs}
        for step in code.steps:
            if isinstance(step, Alias) and step.kind == "unpack":
                for maker in makers.get(step.source, ()):
                    meta = parts.get((maker, _part_number(step.text)))
                    if meta is not None:
                        self._shapes.setdefault(step.name, (meta.shape, meta.dtype))
            elif isinstance(step, Alias) and step.kind == "reuse" and step.source in self._shapes:
                # Memory is only reused by a buffer of the same size (codegen/wrapper.py: buffer_reuse_key).
                self._shapes.setdefault(step.name, self._shapes[step.source])

    def _learn_fx(self, graph: FxGraph | None) -> None:
        for node in graph.placeholders if graph else ():
            if node.meta is not None:
                self._shapes.setdefault(node.name, (node.meta.shape, node.meta.dtype))

    def root(self, name: str) -> str:
        """The buffer whose storage `name` is, through any number of in-place changes."""
        seen = {name}
        while (target := self._target.get(name)) is not None and target not in seen:
            name = target
            seen.add(name)
        return name

    def of_view(self, leaf: SchedulerNode) -> bool:
        """Whether a leaf is the tensor that a view left to ATen gives, and so writes nothing."""
        read = [dep.buffer for dep in leaf.reads]
        return leaf.inner[:1] == ("MultiOutput",) and bool(read) and self._viewing.issuperset(read)

    def is_mutation(self, name: str) -> bool:
        return self.root(name) != name

    def numel(self, name: str) -> int | None:
        """Elements of a buffer, 0 where it holds no tensor of its own."""
        if name not in self._numel:
            # A write into a part of another's memory has the part's layout, and its readers read the whole.
            shape = self._shapes.get(self.root(name)) or self._shapes.get(name)
            if shape is not None:
                self._numel[name] = self.reader.numel(shape[0])
            else:
                self._numel[name] = 0 if name in self._empty else None
        return self._numel[name]

    def item_bytes(self, name: str) -> int | None:
        shape = self._shapes.get(name) or self._shapes.get(self.root(name))
        if shape is None:
            return 0 if name in self._empty else None
        return ITEM_BYTES.get(shape[1])

    def tensor_bytes(self, meta: TensorMeta) -> int:
        """Bytes of a tensor's elements; 0 where they are not known."""
        return (self.reader.numel(meta.shape) or 0) * ITEM_BYTES.get(meta.dtype, 0)

    def whole(self, name: str) -> int | None:
        """Bytes of a whole buffer."""
        count, item = self.numel(name), self.item_bytes(name)
        return None if count is None or item is None else count * item

    def access(self, buffer: str, dependencies: Iterable[Dependency]) -> Access:
        """What several dependencies on one buffer, or on one storage, move together."""
        regions: list[Region] = []
        memory = self.root(buffer)
        whole = self.whole(buffer)
        numel, item = self.numel(buffer), self.item_bytes(buffer)
        for dep in dependencies:
            region = None
            if dep.kind == "memory" and dep.index is not None:
                region = self.reader.region(dep.index, dep.ranges)
            if region is None:
                basis: Basis = "whole" if whole is not None else "unknown"
                if dep.kind == "memory" and whole is not None:
                    basis = "bound"
                return Access(buffer, memory, whole, basis)
            regions.append(region)
        if item is None or not regions:
            return Access(buffer, memory, None, "unknown")
        touched = union(regions, numel)
        if touched.elements == numel:
            return Access(buffer, memory, touched.elements * item, "whole" if touched.exact else "bound")
        return Access(buffer, memory, touched.elements * item, "region" if touched.exact else "bound")


def _part_number(text: str) -> str:
    """`1` of ``buf7 = buf5[1]`` and of ``getitem_1: "f32[4, 64]" = attention[1]``."""
    return text.rsplit("[", 1)[-1].split("]", 1)[0]


def is_nop(leaf: SchedulerNode) -> bool:
    """A node that launches nothing: memory that others fill (torch/_inductor/ir.py: NopKernel)."""
    return leaf.cls.startswith("Nop")


def moves_nothing(leaf: SchedulerNode) -> bool:
    """A nop, or a view that is left to ATen, as of complex numbers: it reads and writes nothing."""
    return is_nop(leaf) or (leaf.kernel is not None and operator(leaf.kernel) in VIEWS)


def read_by(leaf: SchedulerNode) -> Iterable[Dependency]:
    """The dependencies that a leaf reads. One on a whole buffer that its loop body does not name only orders
    it after whoever wrote that: a write in place (torch/_inductor/scheduler.py: compute_dependencies)."""
    body = "\n".join(leaf.body.lines) if leaf.body is not None and leaf.outputs else None
    return (dep for dep in leaf.reads if dep.kind != "star" or body is None or f"'{dep.buffer}'" in body)


def reads_of(leaves: Iterable[SchedulerNode], memory: Memory, inside: frozenset[str]) -> tuple[Access, ...]:
    """Distinct reads of some nodes from outside `inside`, each storage once."""
    return _accesses(
        (
            dep
            for leaf in leaves
            if not moves_nothing(leaf)
            for dep in read_by(leaf)
            if dep.buffer not in inside
        ),
        memory,
    )


def writes_of(leaves: Iterable[SchedulerNode], memory: Memory) -> tuple[Access, ...]:
    """Writes of some nodes, each storage once."""
    own = (leaf for leaf in leaves if not moves_nothing(leaf) and not memory.of_view(leaf))
    return _accesses((dep for leaf in own for dep in leaf.writes), memory)


def _accesses(dependencies: Iterable[Dependency], memory: Memory) -> tuple[Access, ...]:
    by_storage: dict[str, list[Dependency]] = {}
    for dep in dependencies:
        if dep.buffer:
            by_storage.setdefault(memory.root(dep.buffer), []).append(dep)
    return tuple(memory.access(deps[0].buffer, deps) for deps in by_storage.values())


def minimum_bytes(leaves: Mapping[str, SchedulerNode], memory: Memory) -> int | None:
    """The least that any fusion could move: each input that is used read once, each output written once.

    An input that the graph changes in place is an output too: its new value has to be written. An
    output that only views an input costs nothing.
    """
    reads = _accesses(
        (
            dep
            for leaf in leaves.values()
            if not moves_nothing(leaf)
            for dep in read_by(leaf)
            if dep.buffer in memory.inputs
        ),
        memory,
    )
    results = set(memory.outputs)
    deps: dict[str, list[Dependency]] = {}
    for leaf in leaves.values():
        if is_nop(leaf):
            continue
        for dep in leaf.writes:
            root = memory.root(dep.buffer)
            if dep.buffer in results or root in memory.inputs:
                deps.setdefault(root, []).append(dep)
    writes = [memory.access(same[0].buffer, same) for same in deps.values()]
    result = 0
    for access in (*reads, *writes):
        if access.bytes is None:
            return None
        result += access.bytes
    return result
