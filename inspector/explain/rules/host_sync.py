"""The host waits for the device in the middle of a call, to see a value.

Looks at: scalars read inside the graph (``_local_scalar_dense``, ``.item()`` in the wrapper), outputs whose
size depends on data (nonzero, masks), and graph breaks that ``.item()`` and its like make.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from inspector.analysis.side_totals import SYNC
from inspector.explain.case import Case
from inspector.explain.claims import on_part
from inspector.explain.rule import Rule, Stage, severity_of, source_evidence
from inspector.model.account import HOST
from inspector.model.code import OtherStep
from inspector.model.explain import Evidence, Finding
from inspector.model.source import users_place
from inspector.units import plural

_TARGET = re.compile(r"_local_scalar_dense|aten\.item|\bnonzero\b|masked_select|_unique|\.item\b")
_REASON = re.compile(r"\.item\(\)|\.tolist\(\)|\.numpy\(\)|_local_scalar_dense|nonzero")


def find(case: Case) -> Iterable[Finding]:
    evidence: list[Evidence] = []
    number = 0.0
    for graph in case.graphs:
        fx = graph.artifacts.fx_after or graph.artifacts.fx_before
        inside = [node for node in (fx.nodes if fx else ()) if _TARGET.search(node.target)]
        code = graph.artifacts.code
        steps = [
            step
            for step in (code.steps if code else ())
            if isinstance(step, OtherStep) and ".item()" in step.text
        ]
        # A graph of another size, or of the first calls, reads nothing in a steady one.
        number += max(len(inside), len(steps)) * graph.runs
        if not graph.runs:
            continue
        for node in inside[:2]:
            line = source_evidence(case, node.source) if node.source is not None else None
            evidence.append(line or graph.place("fx_graph_transformed.py", node.line, node.target))
        for step in steps[:2]:
            evidence.append(graph.place("output_code.py", step.span.first, step.text.strip()))
    # Each compilation of a line tells of its break, and a call passes it once at least.
    places = {
        str(place): place
        for broken in case.facts.graph_breaks
        if _REASON.search(broken.reason)
        and (place := users_place(broken.location, broken.frames)) is not None
    }
    number += len(places)
    evidence += [source_evidence(case, place) for place in list(places.values())[:2]]
    if not evidence:
        return
    times = max(round(number), 1)
    waited = _waited_ms(case)
    cost = waited if waited is not None else number * case.costs.sync_ms
    share = case.share(cost)
    yield Finding(
        rule="host_sync",
        severity=severity_of(share),
        title=f"a tensor's value is read on the host {plural(times, 'time')} in a call",
        graph=None,
        cost_ms=cost,
        claims=(on_part(HOST, cost, case.costs.how("sync_ms") if waited is None else "profiled"),),
        evidence=tuple(evidence[:5]),
        advice="keep the value a tensor (torch.where, masks); read it after the call, and not in every one",
        how="estimated" if waited is None else "measured",
        share=share,
    )


def _waited_ms(case: Case) -> float | None:
    """What a profiled call waits for the GPU; None where nobody looked."""
    totals = case.sides.joined.compiled if case.sides is not None else None
    return dict(totals.host).get(SYNC, 0.0) if totals is not None and totals.device else None


RULE = Rule("host_sync", Stage.PROGRAM, find)
