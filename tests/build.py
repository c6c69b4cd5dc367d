"""Small models made by hand, for tests of logic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from inspector.model.code import Alias, Kernel, KernelCall, KernelKind, OutputCode, Step
from inspector.model.decision import Decision
from inspector.model.fx import FxGraph, FxKind, FxNode
from inspector.model.links import Linkage
from inspector.model.logs import FusionCandidate, FusionLog
from inspector.model.provenance import Provenance
from inspector.model.record import GraphRecord
from inspector.model.run import GraphArtifacts
from inspector.model.schedule import Buffer, BufferUser, Dependency, Layout, Schedule, SchedulerNode
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


def fx_graph(*nodes: FxNode, outputs: tuple[str | None, ...] = ()) -> FxGraph:
    return FxGraph("fx_graph_transformed.py", nodes, outputs, "")


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


def dep(buffer: str, index: str = "c0", **ranges: int | str) -> Dependency:
    """A MemoryDep; without ranges a StarDep: the whole buffer."""
    if not ranges:
        return Dependency("star", buffer, "")
    return Dependency("memory", buffer, "", index, tuple(ranges.items()))


def layout(*size: int | str, dtype: str = "float32", device: str = "cpu") -> Layout:
    return Layout("FixedLayout", "", device, dtype, size, None)


def computed(
    name: str,
    reads: tuple[Dependency, ...],
    size: tuple[int | str, ...],
    *,
    write: Dependency | None = None,
    users: str = "",
    reduce: tuple[int | str, ...] = (),
    device: str = "cpu",
    kernel: str | None = None,
    mutates: str = "",
    inputs: tuple[tuple[str, Layout], ...] = (),
) -> SchedulerNode:
    """Node `opN` that writes `bufN`, a float32 buffer of that size; `users` may name OUTPUT.

    `inputs` are layouts of buffers that it reads. With `kernel` it is a library call.
    """
    buffer = name.replace("op", "buf")
    own = Buffer(
        buffer,
        "ExternKernelOut" if kernel else "ComputedBuffer",
        layout(*size, device=device),
        tuple(BufferUser(user, False, False) for user in users.split()),
        tuple(mutates.split()),
    )
    return SchedulerNode(
        name=name,
        cls="ExternKernelSchedulerNode" if kernel else "SchedulerNode",
        inner=(own.kind,),
        span=SPAN,
        writes=(write or dep(buffer),),
        unmet=tuple(item for item in reads if item.buffer.startswith("buf")),
        met=tuple(item for item in reads if not item.buffer.startswith("buf")),
        outputs=(own,),
        device=None if kernel else device,
        sizes=None if kernel else (size, reduce),
        kernel=kernel,
        layouts=inputs,
    )


def fused(*members: SchedulerNode, cls: str = "FusedSchedulerNode") -> SchedulerNode:
    return node("_".join(member.name for member in members), members=members, cls=cls)


def fusion_log(*decisions: tuple[str, str, str | None], part: int = 0) -> FusionLog:
    """A fusion log of (first, second, reason) lines in one round; no reason: fused."""
    lines = tuple(
        Decision(first, second, 1, "fused" if reason is None else "rejected", reason, 10 + number)
        for number, (first, second, reason) in enumerate(decisions)
    )
    return FusionLog("0/0", 0, "model__0_inference_0.0", (), lines, (), (), part)


def graph_record(*decisions: Decision) -> GraphRecord:
    return GraphRecord("model__0_inference_0.0", None, None, "0/0", 0, True, (), decisions, (), ())


def scheduled(
    pre: tuple[SchedulerNode, ...],
    post: tuple[SchedulerNode, ...],
    output: OutputCode | None = None,
    fusion: FusionLog | None = None,
) -> GraphArtifacts:
    """Artifacts with both schedules."""
    whole = artifacts(post, output, fusion=fusion)
    return replace(whole, pre=Schedule("ir_pre_fusion.txt", "pre", pre, ""))


def coverage(linkages: Iterable[Linkage]) -> tuple[int, int, int]:
    """(calls, calls linked to scheduler nodes, of those linked to FX nodes)."""
    total = nodes = fx = 0
    for linkage in linkages:
        for link in linkage.calls:
            total += 1
            nodes += bool(link.entries)
            fx += bool(link.entries and link.fx)
    return total, nodes, fx
