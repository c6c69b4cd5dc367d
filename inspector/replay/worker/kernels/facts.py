"""What is known of a graph before any of its kernels runs, and what all that look at its launches share."""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from inspector.replay import protocol
from inspector.replay.protocol import KernelPlan, PlannedCall, Request
from inspector.replay.worker.code.fx import FxProgram, GraphError
from inspector.replay.worker.code.generated import GeneratedCode
from inspector.replay.worker.events import Failure, NotRunnable, Reporter, describe
from inspector.replay.worker.inputs.arguments import Inputs, TensorSpec, promote
from inspector.replay.worker.reference.body import UnknownIr
from inspector.replay.worker.reference.buffers import (
    Chain,
    Leaf,
    Meaning,
    Meanings,
    call_node,
    flat_memory,
    link_externs,
    read_leaf,
)
from inspector.replay.worker.reference.eager_strides import NodeLayouts, eager_layouts
from inspector.replay.worker.reference.evaluate import record
from inspector.replay.worker.reference.layouts import Layouts
from inspector.replay.worker.reference.noise import Noise
from inspector.replay.worker.reference.operator import NotRepeatable
from inspector.replay.worker.reference.philox import Drawing
from inspector.replay.worker.reference.subgraph import NotComputable, Subgraph

EXPECTED_ERRORS = (
    NotComputable,
    NotRepeatable,
    NotRunnable,
    UnknownIr,
    RuntimeError,
    TypeError,
    ValueError,
    IndexError,
    LookupError,
)
"""What evaluating a reference may end in; the kernel is then unverifiable, with the error as the reason."""

_SCAN = re.compile(r"(?<![a-z])(logcumsumexp|cumsum|cumprod|cummax|cummin)(?![a-z])")

# async_compile.triton('triton_poi_fused_rand_0', 3 quotes ... triton_helpers.rand4x(
_BY_FOUR = re.compile(r"async_compile\.triton\('(\w+)'(?:(?!async_compile\.)[\s\S])*?\brandn?4x\(")

_WHOLE_OPERATORS = frozenset({"extern", "fallback", "template"})
"""Kinds of launches that do all of an FX node's arithmetic."""


@dataclass
class GraphFacts:
    """What is known of the graph before any kernel runs."""

    subgraph: Subgraph
    leaves: Sequence[Leaf]
    layouts: Layouts
    meanings: Mapping[str, Sequence[Meaning]]
    scan_kinds: Mapping[str, tuple[str, ...]]
    """By entry of the schedule the scans that its launch may do."""
    nodes: Mapping[int, str | None]
    """The FX node of each extern, fallback or template call, by index."""
    calls: Sequence[PlannedCall]
    by_four: Set[str]
    """Triton kernels that draw random numbers by four."""
    libdevice: bool = False
    """Whether the kernels were made for a GPU."""
    in_eager: Mapping[str, NodeLayouts] = field(default_factory=dict)
    """By node its tensors' layouts in eager, as far as they are known."""

    def noise(self, seed: int, ends: bool = False) -> Noise:
        return Noise(seed, self.libdevice, ends)

    def drawing(self, call: PlannedCall) -> Drawing:
        """How the launch draws random numbers."""
        if call.kind == "cpp":
            return "cpp"
        return "triton by four" if call.kernel in self.by_four else "triton"

    def dtype_of(self, name: str) -> torch.dtype | None:
        """The dtype that the node has in eager; None where it was not seen."""
        results = self.subgraph.recording.results
        own = results.get(name)
        if own is not None:
            return own[0] if len(own) == 1 else None
        node = self.subgraph.program.node(name)
        if node is not None and node.index is not None and node.inputs:
            owner = results.get(node.inputs[0], [])
            return owner[node.index] if node.index < len(owner) else None
        return None

    def flops_of(self, call: PlannedCall) -> int | None:
        """Of the launch's own operators: a kernel beside a matrix product may have it among its origins."""
        known = self.subgraph.recording.flops
        if call.kind in {"triton", "cpp", "user"}:
            others = (item for item in self.calls if item.kind in _WHOLE_OPERATORS)
            done = {name for item in others for name in item.fx}
            known = {name: flops for name, flops in known.items() if name not in done}
        node = self.nodes.get(call.index)
        names = {name for name in call.fx if name in known} or ({node} & known.keys() if node else set())
        return sum(known[name] for name in names) or None


@dataclass
class Context:
    """One graph's launches and what each part of looking at them needs. `device`: ``cpu`` or ``cuda:N``."""

    request: Request
    plan: KernelPlan
    reporter: Reporter
    code: GeneratedCode
    program: FxProgram
    inputs: Inputs
    device: str

    @property
    def made_for(self) -> str:
        """The device that the kernels were made for, also where Triton's interpreter stands in for it."""
        return self.device if self.code.on_cpu is None else "cuda"

    def give_up(self, call: PlannedCall, error: Exception) -> None:
        """Raises Failure where the device's context is lost: the parent then starts another child, which
        goes on behind this call."""
        if self.device == "cpu" or isinstance(error, torch.cuda.OutOfMemoryError) or "CUDA" not in str(error):
            return
        self.reporter.send(protocol.KernelLost(describe(error)))
        raise Failure(f"{call.kernel} (call {call.index}) failed: {describe(error)}") from error

    def work_out(self) -> GraphFacts:
        """Evaluates the FX graph and the loops in float64, and says which buffer is which node."""
        program = self.linked_program
        module = self.program.module
        _, _, recording = record(program, self.inputs, module)
        subgraph = Subgraph(program, module, recording)
        leaves = [read_leaf(item) for item in self.plan.leaves]
        arguments = dict(zip(program.placeholders, self.inputs.promoted(), strict=True))
        symbols: dict[str, object] = {**self.plan.symbols}
        for name, value in zip(self.plan.inputs, self.inputs.specs, strict=False):
            if not isinstance(value, TensorSpec):
                symbols[name] = value
        targets = {name: target for leaf in leaves for name, target in leaf.mutations.items()}
        layouts = Layouts(self.plan.layouts, symbols, targets, self._views())
        nodes = {call.index: call_node(call, subgraph) for call in self.plan.calls}
        linked, keep = link_externs(self.plan, leaves, subgraph)
        meanings = Meanings()
        values: dict[str, object] = {}

        def see(name: str, value: object) -> None:
            meanings.see_node(name, value)
            if name in keep:
                values[name] = value

        scan_kinds = self._scan_kinds()
        try:
            subgraph.walk(arguments, keep, see)
            for name, value in zip(self.plan.inputs, self.inputs.promoted(), strict=False):
                if isinstance(value, Tensor) and value.numel():
                    meanings.see_buffer(name, value)
            for name, value in vars(self.code.module).items():
                if isinstance(value, Tensor) and value.numel():
                    meanings.see_buffer(name, promote(value))
            externs = {
                name: values[node] for name, node in linked.items() if isinstance(values.get(node), Tensor)
            }
            self._chain(leaves, layouts, arguments, scan_kinds).run(externs, meanings)
        except EXPECTED_ERRORS as error:
            traceback.print_exc()
            self.reporter.note(f"buffers are not matched with FX nodes: {describe(error)}")
        try:
            in_eager: Mapping[str, NodeLayouts] = eager_layouts(
                program, self.inputs, module, recording.layouts
            )
        except EXPECTED_ERRORS as error:
            traceback.print_exc()
            self.reporter.note(f"eager's strides are not known: {describe(error)}")
            in_eager = {}
        by_four = frozenset(_BY_FOUR.findall(self.request.files.output_code.read_text(errors="replace")))
        parts = (subgraph, leaves, layouts, meanings.of, scan_kinds, nodes, self.plan.calls)
        return GraphFacts(*parts, by_four, self.made_for != "cpu", in_eager)

    @cached_property
    def linked_program(self) -> FxProgram:
        """The graph whose node names the linkage speaks of: after the passes. Else the one at hand."""
        path = self.request.files.fx_transformed
        if path is not None and path != self.program.path:
            try:
                program = FxProgram(path, "decomposed FX graph after Inductor's passes")
            except (GraphError, OSError):
                return self.program
            if len(program.placeholders) == len(self.program.placeholders):
                return program
        return self.program

    def _chain(
        self,
        leaves: Sequence[Leaf],
        layouts: Layouts,
        arguments: Mapping[str, object],
        scans: Mapping[str, tuple[str, ...]],
    ) -> Chain:
        memories: dict[str, Tensor] = {}
        for name, value in zip(self.plan.inputs, arguments.values(), strict=False):
            if isinstance(value, Tensor):
                memories[name] = flat_memory(value).clone()
        for name, value in vars(self.code.module).items():
            if isinstance(value, Tensor):
                memories[name] = promote(flat_memory(value)).clone()
        return Chain(leaves, layouts, memories, scans)

    def _views(self) -> dict[str, tuple[str, int]]:
        """Buffers that are a part of another, with its name and the offset in elements."""
        views = {}
        for alias in self.plan.aliases:
            view = re.search(r"reinterpret_tensor\((\w+), .*, (\d+)\)", alias.text)
            if alias.kind == "view" and view and alias.name in self.plan.layouts:
                views[alias.name] = (view[1], int(view[2]))
        return views

    def _scan_kinds(self) -> dict[str, tuple[str, ...]]:
        kinds: dict[str, tuple[str, ...]] = {}
        for call in self.plan.calls:
            names = " ".join([*call.fx, call.kernel])
            scans = tuple(dict.fromkeys(_SCAN.findall(names)))
            if scans:
                kinds.update(dict.fromkeys(call.entries, scans))
        return kinds
