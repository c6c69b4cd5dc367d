"""A Triton kernel that fetches whole memory sectors and uses single elements of them.

Looks at: kernels whose time was measured, and of those the indices: where no combination of variables moves
one by a single element, what lies between is fetched in vain.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from inspector.analysis.roofline import roof
from inspector.analysis.sectors import Sparse, is_split_scan, sparse_accesses
from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launch
from inspector.explain.estimate import GPU_KERNEL_MS
from inspector.explain.launches import code_line
from inspector.explain.least import REACHED, Machine, least_of, machine_of
from inspector.explain.rule import Rule, Stage, how_timed, severity_of, source_evidence, timed
from inspector.model.account import Interval
from inspector.model.explain import Finding
from inspector.units import percent, size


class _Lost(NamedTuple):
    ms: Interval
    bytes: int
    access: Sparse
    graph: GraphCase
    launch: Launch


_ADVICE = (
    "keep what is read together side by side: a tensor of its own for the column or channel, made "
    "where the data comes from, not inside of the compiled function"
)
_SCAN_ADVICE = (
    "scan the last dimension, of a copy that has it side by side: x.transpose(...).contiguous().cumsum(-1)"
)


def find(case: Case) -> Iterable[Finding]:
    """One finding, of the kernel that loses most."""
    machine = machine_of(case)
    lost = [item for graph, launch in case.launches() if (item := _lost(machine, graph, launch)) is not None]
    if not lost:
        return
    lost.sort(key=lambda item: -item.ms[0])
    _, wasted, access, graph, launch = lost[0]
    cost = sum(item.ms[1] for item in lost)
    sure = sum(item.ms[0] for item in lost)
    evidence = [
        item.graph.place(
            "output_code.py",
            code_line(item.launch.kernel, item.access.row),
            f"every {item.access.step}th element: {item.access.text}",
        )
        for item in lost[:2]
    ]
    yield Finding(
        rule="strided_accesses",
        severity=severity_of(case.share(sure)),
        title=(
            f"{launch.name} uses {percent(access.used)} of what it fetches from one of its tensors, every "
            f"{access.step}th element: {size(wasted)} in vain, {timed(launch, graph.ms(launch))} in all"
        ),
        graph=graph.name,
        cost_ms=cost,
        claims=tuple(on_launch(item.graph, item.launch, item.ms, machine.how) for item in lost),
        evidence=(*evidence, *(source_evidence(case, place) for place in launch.sources[:2])),
        advice=_SCAN_ADVICE if launch.kernel is not None and is_split_scan(launch.kernel) else _ADVICE,
        how=how_timed(item.launch for item in lost),
        share=case.share(cost),
    )


def _lost(machine: Machine, graph: GraphCase, launch: Launch) -> _Lost | None:
    """What fetching in vain takes, per steady call: no more than the kernel is above its least."""
    kernel, peaks, moved = launch.kernel, machine.peaks, launch.useful_bytes
    if not (graph.gpu and launch.measured and graph.runs) or kernel is None or peaks is None or not moved:
        return None
    accesses = {
        parameter: (access, used)
        for parameter, access in sparse_accesses(kernel).items()
        if (used := _bytes_of(graph, launch, parameter))
    }
    wasted = sum(int(used / access.used) - used for access, used in accesses.values())
    as_asked, fetched = roof(moved, None, "", peaks), roof(moved + wasted, None, "", peaks)
    if not accesses or as_asked is None or fetched is None:
        return None
    own = replace(launch, bytes_asked=None, useful=1.0)
    (low, high), _ = least_of(machine, graph, own)
    beyond = fetched.least_ms - as_asked.least_ms
    if is_split_scan(kernel):
        # Less what turning it round takes, and back.
        beyond = max(beyond - 2 * as_asked.least_ms - 2 * GPU_KERNEL_MS, 0.0)
    ms = (min(beyond, launch.ms - high), min(beyond / REACHED, launch.ms - low))
    worst, _ = max(accesses.values(), key=lambda item: item[1] / item[0].used)
    if ms[1] <= 0:
        return None
    return _Lost((max(ms[0], 0.0) * graph.runs, ms[1] * graph.runs), wasted, worst, graph, launch)


def _bytes_of(graph: GraphCase, launch: Launch, parameter: str) -> int | None:
    """What a launch needs of the buffer that a parameter stands for."""
    assert launch.kernel is not None
    given = [each.name for each in launch.kernel.parameters if each.type != "constexpr"]
    place = given.index(parameter) if parameter in given else len(launch.call.arguments)
    buffer = launch.call.arguments[place] if place < len(launch.call.arguments) else None
    known = (access for group in graph.groups_of(launch) for access in (*group.reads, *group.writes))
    amounts = [access.bytes for access in known if buffer in (access.buffer, access.memory)]
    return max((amount for amount in amounts if amount is not None), default=None)


RULE = Rule("strided_accesses", Stage.CODE, find)
