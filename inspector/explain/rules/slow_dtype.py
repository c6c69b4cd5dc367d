"""Half precision that this machine computes more slowly than float32.

Looks at: a replay that timed the same library call on the same values in float32, before and after its own
(inspector/replay/worker/timing/wider.py). Nothing is said without: which dtype is slow where, nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterable

from inspector.analysis.dataflow import operator
from inspector.explain.case import Case
from inspector.explain.claims import on_launches
from inspector.explain.estimate import memory_ms, peak
from inspector.explain.in_force import autocast
from inspector.explain.rule import Rule, Stage, severity_of, source_evidence
from inspector.model.explain import Finding
from inspector.units import duration, plural

_WIDENING = 1.5
"""Traffic of converting to float32 and back, over that of the call: reads half of it, writes all of it."""


def find(case: Case) -> Iterable[Finding]:
    costly = []
    for graph, launch in case.launches():
        if launch.of_float32 is None:
            continue
        device = peak(case.facts.devices, graph.gpu, case.threads)
        converting = memory_ms(int((launch.bytes or 0) * _WIDENING), device, graph.gpu) * graph.runs
        ms = graph.ms(launch)
        if (saved := ms * (1 - launch.of_float32) - converting) > 0:
            costly.append((saved, ms, graph, launch))
    if not costly:
        return
    costly.sort(key=lambda item: -item[0])
    cost = sum(saved for saved, _, _, _ in costly)
    _, ms, graph, launch = costly[0]
    share = case.share(cost)
    whole, wide = (sum(item[1] * (item[3].of_float32 or 1.0) ** power for item in costly) for power in (0, 1))
    evidence = []
    for _, each, owner, call in costly[:3]:
        text = f"{duration(each)}, and {duration(each * (call.of_float32 or 1.0))} in float32: {call.name}"
        evidence += [source_evidence(case, place) for place in call.sources[:1]]
        evidence.append(owner.launch_evidence(call, text))
    name = operator(launch.name)
    where = f" at {launch.sources[0].short}" if launch.sources else ""
    out_of = (
        "leave these layers out of autocast: with torch.autocast(device, enabled=False) around them"
        if autocast(case)
        else "keep these layers in float32: their weights by .float(), their inputs too"
    )
    yield Finding(
        rule="slow_dtype",
        severity=severity_of(share),
        title=(
            f"{plural(len(costly), 'library call')} ({name}{where}) in half precision take "
            f"{duration(whole)} a call, and {duration(wide)} in float32 on this machine"
        ),
        graph=graph.name,
        cost_ms=cost,
        evidence=tuple(evidence),
        advice=out_of,
        how="replayed",
        share=share,
        claims=on_launches(((owner, call, saved) for saved, _, owner, call in costly), "replayed", cost),
    )


RULE = Rule("slow_dtype", Stage.CODE, find, other_work=True)
