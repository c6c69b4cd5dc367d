"""Tensors move between CPU and GPU inside a call.

Looks at: FX nodes that change the device; where calls and kernels were timed, how long the GPU waited.
"""

from __future__ import annotations

from collections.abc import Iterable

from inspector.explain.case import Case
from inspector.explain.rule import Rule, Stage, severity_of, source_evidence
from inspector.explain.transfers import Transfer, transfers, waiting_ms
from inspector.model.explain import Evidence, Finding
from inspector.units import plural, size


def find(case: Case) -> Iterable[Finding]:
    moved = transfers(case)
    if not moved:
        return
    cost, measured = waiting_ms(case)
    share = case.share(cost)
    # Where nothing says what a call waits for, that it waits for these is worth a look.
    profiled = case.sides is not None and case.sides.joined.compiled is not None
    amount = size(sum(item.bytes for item in moved))
    yield Finding(
        rule="device_transfer",
        severity=severity_of(share, at_least="low" if profiled else "medium"),
        title=f"{plural(len(moved), 'transfer')} between CPU and GPU in a call, {amount}",
        graph=None,
        cost_ms=cost,
        evidence=tuple(_evidence(case, item) for item in moved[:5]),
        advice="make or move the tensor on the GPU once, outside the compiled function",
        how="replayed" if measured else "estimated",
        share=share,
    )


def _evidence(case: Case, item: Transfer) -> Evidence:
    if item.node.source is not None:
        return source_evidence(case, item.node.source)
    return item.graph.place("fx_graph_transformed.py", item.node.line, item.node.target)


RULE = Rule("device_transfer", Stage.PROGRAM, find)
