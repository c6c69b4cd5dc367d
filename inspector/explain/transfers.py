"""Tensors that a call moves between CPU and GPU, and how long the call waits for that."""

from __future__ import annotations

import re

from inspector.analysis.traffic import meta_bytes
from inspector.frozen import dataclass
from inspector.model.fx import FxNode

from .case import Case, GraphCase
from .estimate import FAR_OFF

_TARGET = re.compile(r"device_put|_to_copy|convert_element_type|\bcopy\b")
_DEVICE = re.compile(r"device\s*=\s*device\(type='(\w+)'|torch\.device\('(\w+)")


@dataclass(frozen=True, slots=True)
class Transfer:
    """An FX node that changes the device."""

    graph: GraphCase
    node: FxNode
    bytes: int


def transfers(case: Case) -> tuple[Transfer, ...]:
    """In the order of the graphs; none on a CPU."""
    moved = []
    for graph in case.graphs if case.gpu else ():
        fx = graph.artifacts.fx_after
        for node in fx.nodes if fx is not None else ():
            if not _TARGET.search(node.target):
                continue
            if "device_put" in node.target or _DEVICE.search(" ".join(node.arguments)):
                moved.append(Transfer(graph, node, meta_bytes(node)))
    return tuple(moved)


def waiting_ms(case: Case) -> tuple[float, bool]:
    """(milliseconds of a steady call, whether measured): by size, or what the GPU waited for the host beyond
    what the host usually takes, where that is longer and both sides were timed."""
    moved = transfers(case)
    if not moved:
        return 0.0, False
    by_size = sum(item.bytes for item in moved) / case.costs.bytes_per_s * 1e3
    by_size += len(moved) * case.costs.transfer_ms
    if case.times.compiled_ms is None or not case.kernels_measured:
        return by_size, False
    idle = max(case.times.compiled_ms - case.kernels_ms, 0.0)
    # A host that takes longer waits: to memory touched first, a copy is several times as slow as PCIe.
    if idle > FAR_OFF * case.host_ms:
        return idle - case.host_ms, True
    return min(by_size, idle), False
