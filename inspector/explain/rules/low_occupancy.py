"""A Triton kernel with too few loads on their way: registers or shared memory leave room for few warps.

Looks at: kernels whose time was measured, how many of their warps a multiprocessor holds, and how many bytes
each thread has asked for before it waits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from inspector.analysis.lowering import LoweredKernel
from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launch
from inspector.explain.least import Machine, least_of, machine_of
from inspector.explain.rule import Rule, Stage, how_timed, severity_of, source_evidence, timed
from inspector.hardware.occupancy import Occupancy
from inspector.model.account import Interval
from inspector.model.explain import Evidence, Finding, Trial
from inspector.units import percent

LATENCY_S = (270e-9, 550e-9)
"""Of a load from device memory: 479 clocks of an idle H100 (Luo and others, Benchmarking and Dissecting the
Nvidia Hopper GPU Architecture, 2024), and about twice that under load."""
_THREADS = 32
"""Of a warp, on every NVIDIA GPU."""
# DeviceProperties(type='cuda', index=0, multi_processor_count=132, cc=90, ...)
_COUNT = re.compile(r"multi_processor_count=(\d+)")


def find(case: Case) -> Iterable[Finding]:
    """One finding for each such launch. By Little's law a rate is what is on its way over its time."""
    if not case.gpu or case.lowered is None:
        return
    machine = machine_of(case)
    for graph, launch in case.launches():
        over = _over(machine, graph, launch)
        item = case.lowered(graph.name, launch.call.index) if over is not None else None
        held = item.occupancy if item is not None else None
        ms = _lost(graph, launch, item, held, over) if item and held and over else None
        if ms is None or item is None or held is None:
            continue
        stage = item.stage("sass") or item.stage("ptx")
        yield Finding(
            rule="low_occupancy",
            severity=severity_of(case.share(ms[0])),
            title=(
                f"{launch.name}: a multiprocessor holds {held.warps} of {held.most} warps "
                f"({percent(held.share)}), as it has no more {held.limits}: too few loads on their way; "
                f"{timed(launch, graph.ms(launch))}"
            ),
            graph=graph.name,
            cost_ms=ms[1],
            claims=(on_launch(graph, launch, ms, "estimated"),),
            evidence=(
                graph.launch_evidence(launch, launch.name),
                *([Evidence(stage.path, None, _resources(item))] if stage is not None else []),
                *(source_evidence(case, place) for place in launch.sources[:2]),
            ),
            advice="let Inductor look for smaller blocks or more warps: coordinate_descent_tuning=True",
            how=how_timed([launch]),
            share=case.share(ms[1]),
            trial=Trial(config=(("coordinate_descent_tuning", True),)),
        )


def _over(machine: Machine, graph: GraphCase, launch: Launch) -> Interval | None:
    """What it takes over the least; None where nobody timed it, or it is as fast as such kernels are."""
    if machine.peaks is None or not (launch.measured and graph.runs) or launch.role != "generated":
        return None
    (low, high), _ = least_of(machine, graph, launch)
    return (launch.ms - high, launch.ms - low) if launch.ms > high else None


def _lost(
    graph: GraphCase, launch: Launch, item: LoweredKernel, held: Occupancy, over: Interval
) -> Interval | None:
    """Per steady call: what loading takes longer than with all the warps that a multiprocessor can hold."""
    processors = _COUNT.search(dict(item.kernel.metadata).get("triton_meta", ""))
    waiting = _asked_for(item)
    read = sum(access.bytes or 0 for group in graph.groups_of(launch) for access in group.reads)
    if held.limits not in ("registers", "shared memory") or processors is None or not waiting or not read:
        return None
    on_its_way = int(processors[1]) * held.warps * _THREADS * waiting
    usual, least = launch.ms - over[0], launch.ms - over[1]
    takes = [read / on_its_way * latency * 1e3 for latency in LATENCY_S]
    low = min(takes[0] - max(takes[0] * held.share, usual), over[0])
    high = min(takes[1] - max(takes[1] * held.share, least), over[1])
    return (low * graph.runs, high * graph.runs) if low > 0 else None


def _asked_for(item: LoweredKernel) -> int:
    """Bytes that a thread loads before it waits, at the most: of the loop with most, else of the whole."""
    stage = item.stage("sass") or item.stage("ptx")
    facts = item.facts(stage.name) if stage is not None else None
    if facts is None:
        return 0
    loads: Mapping[int, int] = {
        access.line: access.bits // 8
        for access in facts.accesses
        if access.space == "global" and not access.writes
    }
    loops = (
        sum(size for line, size in loads.items() if loop.first <= line <= loop.last) for loop in facts.loops
    )
    return max(loops, default=0) or sum(loads.values())


def _resources(item: LoweredKernel) -> str:
    folder = item.folder
    registers = folder.registers if folder is not None else None
    seen = item.recorded.registers if item.recorded is not None else None
    shared = folder.shared_bytes if folder is not None else None
    registers = registers if registers is not None else seen
    return f"{registers} registers a thread, {shared} B of shared memory a block"


RULE = Rule("low_occupancy", Stage.CODE, find)
