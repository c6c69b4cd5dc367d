"""Triton kernels that keep more values than there are registers, and put them into memory.

Looks at: spilled registers as the recorder, the trace or a replay saw them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from inspector.explain.case import Case
from inspector.explain.claims import on_launches
from inspector.explain.rule import Rule, Stage, severity_of, source_evidence, timed
from inspector.model.explain import Finding, Trial

LEAST_SPILLS = 8
"""torch/_inductor/runtime/triton_heuristics.py skips configurations that spill more than 16."""
SAVED = 0.3
_ARRAY = 8
"""Of 4 bytes: the array that ``sin``, ``cos`` and ``tan`` index for large arguments (Payne and Hanek), which
lies in local memory too, counts as spilled, and costs nothing where no argument is large."""
_INDEXES = re.compile(r"\b(?:libdevice|tl_math)\.(?:sin|cos|tan)\(")


def find(case: Case) -> Iterable[Finding]:
    known = dict(case.spilled)
    costly = []
    for graph, launch in case.launches():
        spills = launch.spills if launch.spills is not None else known.get(launch.name, 0)
        spills -= _ARRAY if _INDEXES.search(launch.source) else 0
        if spills >= LEAST_SPILLS:
            costly.append((graph.ms(launch), spills, graph, launch))
    if not costly:
        return
    costly.sort(key=lambda item: -item[0])
    cost = sum(ms for ms, _, _, _ in costly) * SAVED
    share = case.share(cost)
    _, spills, graph, launch = costly[0]
    evidence = [
        owner.launch_evidence(kernel, f"{count} registers spilled, {timed(kernel, ms)}")
        for ms, count, owner, kernel in costly[:3]
    ]
    evidence += [source_evidence(case, place) for place in launch.sources[:2]]
    yield Finding(
        rule="register_spills",
        severity=severity_of(share),
        title=f"{launch.name} spills {spills} registers into memory",
        graph=graph.name,
        cost_ms=cost,
        claims=on_launches(((owner, kernel, ms) for ms, _, owner, kernel in costly), "estimated", cost),
        evidence=tuple(evidence),
        advice=(
            "let Inductor look for a smaller block: coordinate_descent_tuning=True; or split the expression"
        ),
        share=share,
        trial=Trial(config=(("coordinate_descent_tuning", True),)),
    )


RULE = Rule("register_spills", Stage.CODE, find)
