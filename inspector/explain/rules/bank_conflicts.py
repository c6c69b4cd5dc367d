"""A Triton kernel whose loop waits for shared memory because its lanes want words of the same bank.

Looks at: kernels whose time was measured, and of those the addresses in shared memory, as far as PTX tells.
"""

from __future__ import annotations

from collections.abc import Iterable

from inspector.analysis.bank_conflicts import Conflicts
from inspector.analysis.lowering import LoweredKernel
from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launch
from inspector.explain.least import Machine, least_of, machine_of
from inspector.explain.rule import Rule, Stage, how_timed, severity_of, source_evidence, timed
from inspector.model.account import Interval
from inspector.model.explain import Evidence, Finding, Trial

_CONVERTS = "ttg.convert_layout"


def find(case: Case) -> Iterable[Finding]:
    """One finding for each such launch."""
    if not case.gpu or case.lowered is None:
        return
    machine = machine_of(case)
    for graph, launch in case.launches():
        over = _over(machine, graph, launch)
        item = case.lowered(graph.name, launch.call.index) if over is not None else None
        seen = item.conflicts if item is not None else None
        if over is None or item is None or seen is None or seen.lost <= 0:
            continue
        # The part of its time that its rounds make.
        low, high = min(launch.ms * seen.surely_lost, over[0]), min(launch.ms * seen.lost, over[1])
        ms = (low * graph.runs, high * graph.runs)
        severity = severity_of(case.share(ms[0]))
        if severity == "low":
            # Many kernels have some: below what two runs differ by, they are not worth a line.
            continue
        generated = item.kernel.kind == "triton"
        yield Finding(
            rule="bank_conflicts",
            severity=severity,
            title=(f"{launch.name}: {seen.told}; {timed(launch, graph.ms(launch))}"),
            graph=graph.name,
            cost_ms=ms[1],
            claims=(on_launch(graph, launch, ms, "estimated"),),
            evidence=(
                graph.launch_evidence(launch, launch.name),
                *_conversions(item, seen),
                *(source_evidence(case, place) for place in launch.sources[:2]),
            ),
            advice=(
                "let Inductor look for another block shape, which has other layouts: "
                "coordinate_descent_tuning=True"
                if generated
                else "another block shape or number of warps has other layouts: try some (triton.autotune, "
                'mode="max-autotune"); operands of tl.dot that tensor cores read lie without conflicts'
            ),
            how=how_timed([launch]),
            share=case.share(ms[1]),
            trial=Trial(config=(("coordinate_descent_tuning", True),)) if generated else None,
        )


def _over(machine: Machine, graph: GraphCase, launch: Launch) -> Interval | None:
    """What it takes over what such kernels do, where that is known, and over the least of its bytes; None
    where nobody timed it, or that is nothing."""
    if machine.peaks is None or not (launch.measured and graph.runs) or launch.kernel is None:
        return None
    (least, usual), _ = least_of(machine, graph, launch)
    low = launch.ms - (usual if launch.role == "generated" else least)
    return (low, launch.ms - least) if low > 0 else None


def _conversions(item: LoweredKernel, seen: Conflicts) -> Iterable[Evidence]:
    """The conversion between layouts at the line of the access that loses most rounds."""
    ptx, ttgir = item.stage("ptx"), item.stage("ttgir")
    worst = item.origin(ptx.places[seen.worst[0] - 1]) if ptx is not None else None
    if ttgir is None or worst is None or worst.line is None:
        return
    for row, (text, place) in enumerate(zip(ttgir.lines, ttgir.places, strict=True), 1):
        origin = item.origin(place) if _CONVERTS in text else None
        if origin is not None and origin.line == worst.line:
            yield Evidence(ttgir.path, row, "the conversion between layouts that goes through it")
            return


RULE = Rule("bank_conflicts", Stage.CODE, find)
