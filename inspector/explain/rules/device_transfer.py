"""Tensors move between CPU and GPU inside a call.

Looks at: FX nodes that change the device, transfers among the launches, inputs on the CPU of a GPU graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from inspector.analysis.traffic import ITEM_BYTES
from inspector.explain.case import Case
from inspector.explain.rule import Rule, Stage, counted, severity_of, size, source_evidence
from inspector.model.explain import Evidence, Finding
from inspector.model.source import numel

PCIE_BYTES_PER_S = 10e9
"""Pageable memory over PCIe 4: 6 to 12 GB/s."""
TRANSFER_MS = 0.02
"""One transfer, however small, with the wait for it."""

_TARGET = re.compile(r"device_put|_to_copy|convert_element_type|\bcopy\b")
_DEVICE = re.compile(r"device\s*=\s*device\(type='(\w+)'|torch\.device\('(\w+)")


def find(case: Case) -> Iterable[Finding]:
    if not case.gpu:
        return
    evidence: list[Evidence] = []
    moved = 0
    number = 0
    for graph in case.graphs:
        fx = graph.artifacts.fx_after
        for node in fx.nodes if fx is not None else ():
            text = " ".join(node.arguments)
            if not _TARGET.search(node.target) or (
                "device_put" not in node.target and not _DEVICE.search(text)
            ):
                continue
            number += 1
            count = numel(node.meta.shape) if node.meta is not None else 0
            moved += (count or 0) * ITEM_BYTES.get(node.meta.dtype if node.meta else "", 4)
            evidence.append(
                source_evidence(case, node.source)
                if node.source is not None
                else graph.place("fx_graph_transformed.py", node.line, node.target)
            )
    if not number:
        return
    cost = moved / PCIE_BYTES_PER_S * 1e3 + number * TRANSFER_MS
    share = case.share(cost)
    yield Finding(
        rule="device_transfer",
        severity=severity_of(share, at_least="medium"),
        title=f"{counted(number, 'transfer')} between CPU and GPU in a call, {size(moved)}",
        graph=None,
        cost_ms=cost,
        evidence=tuple(evidence[:5]),
        advice="make or move the tensor on the GPU once, outside the compiled function",
        share=share,
    )


RULE = Rule("device_transfer", Stage.PROGRAM, find)
