"""Small models made by hand, for tests of logic."""

from __future__ import annotations

from inspector.model.code import Alias, Kernel, KernelCall, KernelKind, OutputCode, Step
from inspector.model.fx import FxGraph, FxKind, FxNode
from inspector.model.logs import FusionCandidate, FusionLog
from inspector.model.provenance import Provenance
from inspector.model.run import GraphArtifacts
from inspector.model.schedule import Buffer, Dependency, Schedule, SchedulerNode
from inspector.model.source import LineSpan, SourceLocation

SPAN = LineSpan(1, 1)


def node(
    name: str,
    *,
    writes: str = "",
    mutates: str = "",
    kernel: str | None = None,
    inner: str = "ComputedBuffer",
    cls: str | None = None,
    device: str = "cpu",
    members: tuple[SchedulerNode, ...] = (),
) -> SchedulerNode:
    """A scheduler node that writes the buffers named in `writes`, separated by spaces."""
    outputs = tuple(Buffer(buffer, inner, mutations=tuple(mutates.split())) for buffer in writes.split())
    return SchedulerNode(
        name=name,
        cls=cls
        or ("FusedSchedulerNode" if members else "ExternKernelSchedulerNode" if kernel else "SchedulerNode"),
        inner=tuple("SchedulerNode" for _ in members) or (inner,),
        span=SPAN,
        writes=tuple(Dependency("star", buffer.name, "") for buffer in outputs),
        outputs=outputs,
        members=members,
        kernel=kernel,
        device=None if kernel else device,
    )


def call(
    index: int,
    kernel: str,
    kind: KernelKind,
    *,
    outputs: str = "",
    reads: str = "",
    handle: int | None = None,
) -> KernelCall:
    """A launch on line `100 + index`."""
    names = (*reads.split(), *outputs.split())
    line = LineSpan(100 + index, 100 + index)
    return KernelCall(index, kernel, kind, names, names, tuple(outputs.split()), line, "", handle=handle)


def code(
    *steps: Step,
    kernels: tuple[Kernel, ...] = (),
    inputs: tuple[str, ...] = (),
    outputs: tuple[str, ...] = (),
) -> OutputCode:
    return OutputCode("output_code.py", "0_inference", kernels, steps, inputs, outputs, (), "")


def unpack(name: str, source: str) -> Alias:
    return Alias("unpack", name, source, "", SPAN)


def fx_node(name: str, target: str, inputs: str = "", line: int | None = None) -> FxNode:
    kind: FxKind = "call" if target else "placeholder"
    source = SourceLocation("model.py", line) if line else None
    arguments = tuple(inputs.split())
    return FxNode(name, kind, target, arguments, arguments, (), None, None, source, 1, "")


def fx_graph(*nodes: FxNode, outputs: tuple[str, ...] = ()) -> FxGraph:
    return FxGraph("fx_graph_transformed.py", "GraphModule", nodes, outputs, "")


def origins(**names: str) -> FusionLog:
    """A fusion log whose candidate lines give each node its FX origins."""
    candidates = tuple(
        FusionCandidate(name, "SchedulerNode", (), tuple(fx.split()), 1, 1) for name, fx in names.items()
    )
    return FusionLog("0/0", 0, "model__0_inference_0.0", (), (), candidates, ())


def artifacts(
    post: tuple[SchedulerNode, ...] = (),
    output: OutputCode | None = None,
    fx: FxGraph | None = None,
    before: FxGraph | None = None,
    provenance: dict[str, tuple[str, ...]] | None = None,
    fusion: FusionLog | None = None,
) -> GraphArtifacts:
    mapping = Provenance("p.json", {}, {}, provenance, {}) if provenance is not None else None
    schedule = Schedule("ir_post_fusion.txt", "post", post, "") if post else None
    name = "model__0_inference_0.0"
    return GraphArtifacts(
        name, name, "inference", "0/0", None, (), (), before, fx, None, schedule, output, mapping, fusion
    )
