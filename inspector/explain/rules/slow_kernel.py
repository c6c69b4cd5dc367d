"""One generated kernel takes far longer than its memory traffic and arithmetic ask for.

Looks at: a replayed kernel's share of the roofline; without a replay, one that takes nearly all of its
graph's time in the run.
"""

from __future__ import annotations

from collections.abc import Iterable

from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launches
from inspector.explain.launches import gathers
from inspector.explain.rule import Rule, Stage, about, how_timed, severity_of, source_evidence, timed
from inspector.model.explain import Finding, Trial
from inspector.units import percent, size

SLOW_FRACTION = 0.3
"""Of what the roofline allows; generated pointwise and reduction kernels reach 0.5 to 0.9 of it."""
SLOW_ESTIMATE = 0.25
"""Of what bytes and arithmetic are estimated to take: estimates are within a factor of 2, mostly."""
NEARLY_ALL = 0.8
"""Of its graph's time in the run: what is left of it for other launches can't be what is slow."""
LEAST_MS = 0.02
"""A shorter kernel is mostly its own start."""

_GATHERS = ", as it fetches elements by index"
_GATHER_ADVICE = (
    "sort the indices, or fetch whole rows: one element is used of each cache line or memory sector"
)


def find(case: Case) -> Iterable[Finding]:
    slow = [
        (graph.ms(launch) * (1 - least / launch.ms), graph, launch)
        for graph, launch in case.launches()
        if (least := _least_ms(graph, launch)) is not None
    ]
    if not slow:
        return
    cost, graph, launch = max(slow, key=lambda item: item[0])
    share = case.share(cost)
    ms = graph.ms(launch)
    least = ms - cost
    if launch.measured:
        how = f"{percent(least / ms)} of what the machine allows"
    else:
        how = f"{ms / least:.0f} times what its bytes and arithmetic ask for"
    by_index = any(map(gathers, launch.leaves))
    evidence = [
        graph.launch_evidence(launch, f"{timed(launch, ms)}, {size(launch.bytes or 0)}: {launch.name}")
    ]
    evidence += [source_evidence(case, place) for place in launch.sources[:2]]
    yield Finding(
        rule="slow_kernel",
        severity=severity_of(share),
        title=f"{launch.name} takes {about(ms, how_timed([launch]))}, {how}{_GATHERS if by_index else ''}",
        graph=graph.name,
        cost_ms=cost,
        claims=on_launches([(graph, launch, cost)], how_timed([launch]), cost),
        evidence=tuple(evidence),
        advice=_GATHER_ADVICE if by_index else _advice(case),
        how=how_timed([launch]),
        share=share,
        trial=None if by_index else _trial(case),
    )


def _least_ms(graph: GraphCase, launch: Launch) -> float | None:
    """What a slow generated kernel should take; None for one that is not slow, or whose time is a guess.

    A replay says how near the roofline it came, which knows of bytes only; arithmetic is estimated, and has
    to be exceeded too. Without a replay the time of the graph in the run is shared among its launches, which
    says enough about one that takes nearly all of it.
    """
    if launch.role not in ("generated", "copy") or launch.ms < LEAST_MS:
        return None
    expected = launch.expected_ms or 0.0
    if launch.measured:
        fraction = launch.roofline_fraction
        if fraction is None or fraction >= SLOW_FRACTION or expected >= SLOW_FRACTION * launch.ms:
            return None
        return max(fraction * launch.ms, expected)
    known = graph.in_process_ms is not None and launch.ms >= NEARLY_ALL * graph.in_process_ms
    return expected if known and 0 < expected < SLOW_ESTIMATE * launch.ms else None


def _advice(case: Case) -> str:
    if case.gpu:
        return 'try mode="max-autotune" or coordinate_descent_tuning, and see the kernel: inspector replay'
    return "replay it alone (inspector replay), and write the line with an operator that has a library kernel"


def _trial(case: Case) -> Trial | None:
    return Trial(config=(("coordinate_descent_tuning", True),)) if case.gpu else None


RULE = Rule("slow_kernel", Stage.CODE, find, place_only=True)
