"""The host waits for the device in the middle of a call, to see a value.

Looks at: scalars read inside the graph (``_local_scalar_dense``, ``.item()`` in the wrapper), outputs whose
size depends on data (nonzero, masks), and graph breaks that ``.item()`` and its like make.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from inspector.explain.case import Case
from inspector.explain.rule import Rule, Stage, severity_of, source_evidence
from inspector.model.code import OtherStep
from inspector.model.explain import Evidence, Finding
from inspector.units import plural

GPU_SYNC_MS = 0.05
"""Draining the queue and starting again: 20 to 100 us."""
CPU_SYNC_MS = 0.002
"""On a CPU nothing is waited for; only fusion ends there."""

_TARGET = re.compile(r"_local_scalar_dense|aten\.item|\bnonzero\b|masked_select|_unique|\.item\b")
_REASON = re.compile(r"\.item\(\)|\.tolist\(\)|\.numpy\(\)|_local_scalar_dense|nonzero")


def find(case: Case) -> Iterable[Finding]:
    evidence: list[Evidence] = []
    number = 0
    for graph in case.graphs:
        fx = graph.artifacts.fx_after or graph.artifacts.fx_before
        inside = [node for node in (fx.nodes if fx else ()) if _TARGET.search(node.target)]
        code = graph.artifacts.code
        steps = [
            step
            for step in (code.steps if code else ())
            if isinstance(step, OtherStep) and ".item()" in step.text
        ]
        number += max(len(inside), len(steps))
        for node in inside[:2]:
            place = source_evidence(case, node.source) if node.source is not None else None
            evidence.append(place or graph.place("fx_graph_transformed.py", node.line, node.target))
        for step in steps[:2]:
            evidence.append(graph.place("output_code.py", step.span.first, step.text.strip()))
    broken = [broken for broken in case.facts.graph_breaks if _REASON.search(broken.reason)]
    number += len(broken)
    evidence += [source_evidence(case, item.location) for item in broken[:2] if item.location is not None]
    if not number:
        return
    cost = number * (GPU_SYNC_MS if case.gpu else CPU_SYNC_MS)
    share = case.share(cost)
    yield Finding(
        rule="host_sync",
        severity=severity_of(share, at_least="medium"),
        title=f"a tensor's value is read on the host {plural(number, 'time')} in a call",
        graph=None,
        cost_ms=cost,
        evidence=tuple(evidence[:5]),
        advice="keep the value a tensor (torch.where, masks); read it after the call, and not in every one",
        share=share,
    )


RULE = Rule("host_sync", Stage.PROGRAM, find)
