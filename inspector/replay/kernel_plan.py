"""What the child must know of a graph's kernel calls, as plain JSON: the parent's reading of its artifacts.

The child has torch and the kernels, the parent the readers and the linkage; this is all that passes
between them. Buffers are named as the wrapper names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inspector.analysis.linkage import link_graph
from inspector.analysis.traffic import Memory, reads_of, symbol_hints, writes_of
from inspector.model.code import Alias, KernelCall
from inspector.model.fusion import total
from inspector.model.links import Linkage
from inspector.model.run import GraphArtifacts
from inspector.model.schedule import Layout, Schedule, SchedulerNode

_WITHOUT_TENSOR = frozenset({"MultiOutputLayout", "NoneLayout", "CommBufferLayout"})


def kernel_plan(artifacts: GraphArtifacts, symbols: Mapping[str, int] | None = None) -> dict[str, Any]:
    """The request's ``kernels`` of one graph; without calls where there is no wrapper.

    ``calls``: index, kernel, kind, line, outputs, buffers, entries, fx, bytes. ``leaves``: the
    schedule's nodes in execution order with their loop bodies and buffers. ``layouts``: size and
    stride of each buffer, numbers or symbolic texts. ``aliases``: names that share memory. ``symbols``:
    hints for symbolic sizes.
    """
    code = artifacts.code
    if code is None:
        return {"calls": []}
    hints = {**(symbols or {}), **symbol_hints(code, artifacts.fx_after)}
    linkage = link_graph(artifacts)
    leaves = {leaf.name: leaf for leaf in artifacts.post.leaves()} if artifacts.post is not None else {}
    memory = Memory(artifacts, leaves, linkage, hints)
    links = {link.call: link for link in linkage.calls}
    return {
        "calls": [
            {
                "index": call.index,
                "kernel": call.kernel,
                "kind": call.kind,
                "line": call.span.first,
                "outputs": call.outputs,
                "buffers": call.buffers,
                "entries": links[call.index].entries,
                "fx": links[call.index].fx,
                "bytes": _bytes(call, _leaves_of(call, linkage, artifacts.post), memory),
            }
            for call in code.calls
        ],
        "leaves": _leaves(artifacts.post),
        "layouts": _layouts(artifacts.post),
        "aliases": [
            {"kind": step.kind, "name": step.name, "source": step.source, "text": step.text}
            for step in code.steps
            if isinstance(step, Alias) and step.kind != "symbol"
        ],
        "inputs": code.inputs,
        "outputs": code.outputs,
        "symbols": hints,
    }


def _leaves_of(call: KernelCall, linkage: Linkage, post: Schedule | None) -> list[SchedulerNode]:
    names = next((link.entries for link in linkage.calls if link.call == call.index), ())
    entries = [node for name in names if post is not None and (node := post.find(name)) is not None]
    return [leaf for entry in entries for leaf in entry.leaves()]


def _bytes(call: KernelCall, leaves: Sequence[SchedulerNode], memory: Memory) -> int | None:
    """What one launch reads from outside and writes for others, each element once; None where unknown."""
    if not leaves:
        return None
    made = frozenset(buffer.name for leaf in leaves for buffer in leaf.outputs)
    handed = set(call.buffers) | {memory.root(name) for name in call.buffers}
    reads = tuple(
        access
        for access in reads_of(leaves, memory, made)
        if len(leaves) == 1 or access.buffer in handed or memory.root(access.buffer) in handed
    )
    outputs = set(call.outputs) | {memory.root(name) for name in call.outputs}
    writes = tuple(
        access
        for access in writes_of(leaves, memory)
        if access.buffer in outputs or memory.root(access.buffer) in outputs
    )
    read, written = total(reads), total(writes)
    return None if read is None or written is None or not writes else read + written


def _leaves(post: Schedule | None) -> list[dict[str, Any]]:
    found = []
    for entry in post.nodes if post is not None else ():
        for leaf in entry.leaves():
            found.append(
                {
                    "name": leaf.name,
                    "entry": entry.name,
                    "inner": leaf.inner,
                    "kernel": leaf.kernel,
                    "body": "\n".join(leaf.body.lines) if leaf.body is not None else None,
                    "outer": len(leaf.sizes[0]) if leaf.sizes is not None else None,
                    "reads": sorted({dep.buffer for dep in leaf.reads}),
                    "writes": sorted({dep.buffer for dep in leaf.writes}),
                    "buffers": [
                        {"name": buffer.name, "mutations": buffer.mutations, "aliases": buffer.aliases}
                        for buffer in leaf.outputs
                    ],
                }
            )
    return found


def _layouts(post: Schedule | None) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}

    def learn(name: str, layout: Layout | None) -> None:
        if layout is None or layout.size is None or layout.kind in _WITHOUT_TENSOR or name in found:
            return
        found[name] = {
            "size": layout.size,
            "stride": layout.stride,
            "dtype": layout.dtype,
            "device": layout.device,
        }

    for leaf in post.leaves() if post is not None else ():
        for buffer in leaf.outputs:
            learn(buffer.name, buffer.layout)
        for name, layout in leaf.layouts:
            learn(name, layout)
    return found
