"""Triton kernels that keep more values than there are registers, and put them into memory.

Looks at: spilled registers as the recorder, the trace or a replay saw them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launch
from inspector.explain.least import Machine, least_of, machine_of
from inspector.explain.rule import Rule, Stage, how_timed, severity_of, source_evidence, timed
from inspector.model.account import Claim
from inspector.model.explain import Finding, Trial

LEAST_SPILLS = 8
"""torch/_inductor/runtime/triton_heuristics.py skips configurations that spill more than 16."""
SAVED = 0.3
_ARRAY = 8
"""Of 4 bytes: the array that ``sin``, ``cos`` and ``tan`` index for large arguments (Payne and Hanek), which
lies in local memory too, counts as spilled, and costs nothing where no argument is large."""
# Triton draws normal numbers by a sine and a cosine (triton/language/random.py: pair_uniform_to_normal).
_INDEXES = re.compile(r"\b(?:(?:libdevice|tl_math)\.(?:sin|cos|tan)|tl\.randn)\(")


def find(case: Case) -> Iterable[Finding]:
    known = dict(case.spilled)
    machine = machine_of(case)
    costly = []
    for graph, launch in case.launches():
        spills = launch.spills if launch.spills is not None else known.get(launch.name, 0)
        if spills >= LEAST_SPILLS and _INDEXES.search(launch.source):
            spills -= _ARRAY
        if spills >= LEAST_SPILLS:
            costly.append((_claim(case, machine, graph, launch), spills, graph, launch))
    if not costly:
        return
    costly.sort(key=lambda item: -item[2].ms(item[3]))
    cost = sum(claim.ms[1] for claim, _, _, _ in costly)
    sure = sum(claim.ms[0] for claim, _, _, _ in costly)
    _, spills, graph, launch = costly[0]
    evidence = [
        owner.launch_evidence(kernel, f"{count} registers spilled, {timed(kernel, owner.ms(kernel))}")
        for _, count, owner, kernel in costly[:3]
    ]
    evidence += [source_evidence(case, place) for place in launch.sources[:2]]
    yield Finding(
        rule="register_spills",
        severity=severity_of(case.share(sure)),
        title=f"{launch.name} spills {spills} registers into memory",
        graph=graph.name,
        cost_ms=cost,
        claims=tuple(claim for claim, _, _, _ in costly),
        evidence=tuple(evidence),
        advice=(
            "let Inductor look for a smaller block: coordinate_descent_tuning=True; or split the expression"
        ),
        how=how_timed(kernel for _, _, _, kernel in costly),
        share=case.share(cost),
        trial=Trial(config=(("coordinate_descent_tuning", True),)),
    )


def _claim(case: Case, machine: Machine, graph: GraphCase, launch: Launch) -> Claim:
    """Of a kernel whose time was measured and whose instructions are there at least the part of them that
    only moves spilled registers, and at most all that it takes over the least; else a guess."""
    item = case.lowered(graph.name, launch.call.index) if case.lowered is not None else None
    facts = item.facts("sass") if item is not None else None
    moves = sum(access.space == "local" for access in facts.accesses) if facts is not None else 0
    if facts is None or not (moves and launch.measured):
        return on_launch(graph, launch, graph.ms(launch) * SAVED, "estimated")
    (least, _), _ = least_of(machine, graph, launch)
    most = launch.ms - least
    low = min(launch.ms * moves / facts.instructions, most)
    return on_launch(graph, launch, (low * graph.runs, most * graph.runs), "counted")


RULE = Rule("register_spills", Stage.CODE, find)
