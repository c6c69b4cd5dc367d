"""The kernels are shorter than what it takes to get to them: guards, wrapper, launches.

Looks at: one call's wall time less its kernels; without times, the size of what the kernels do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from inspector.analysis.nothing import SWITCHES
from inspector.explain.case import Case
from inspector.explain.rule import Rule, Stage, amount, counted, percent
from inspector.model.explain import Evidence, Finding, Severity, Trial

LOW = 0.4
"""Share of the wall time from which the host decides how long a call takes."""
LOW_WHERE_SLOWER = 0.15
SLOWER = 0.9
"""Eager over compiled: what eager does not need is then what matters, and most of it must be the host's."""
MOST_OVER_USUAL = 1.5
MOST_OVER_ESTIMATE = 4.0
"""Nothing measured the kernels: more than so many times the usual overhead is something else."""
FASTER = 1.2
"""Eager over compiled: compiling paid in spite of it."""


def find(case: Case) -> Iterable[Finding]:
    if not case.graphs:
        return
    usual = case.host_ms
    wall, kernels = case.wall_ms, case.kernels_ms
    gap = wall - kernels
    measured = case.times.compiled_ms is not None and case.kernels_measured
    if not measured:
        gap = min(gap, usual * MOST_OVER_ESTIMATE)
    lost = _lost_to_host(case, gap)
    if lost is not None:
        gap = max(gap, lost)
    share = gap / wall if wall else 0.0
    if share < (LOW if lost is None else LOW_WHERE_SLOWER):
        return
    faster = case.times.ratio is not None and case.times.ratio >= FASTER
    severity: Severity = "medium" if faster else "high"
    launches = sum(len(graph.launches) for graph in case.graphs)
    advice, trial, saved = _advice(case, gap)
    largest = max(case.graphs, key=lambda graph: len(graph.launches))
    first = largest.launches[0] if largest.launches else None
    evidence = (
        largest.launch_evidence(
            first,
            f"{counted(launches, 'kernel')} launched, {amount(kernels)} in all",
        )
        if first is not None
        else Evidence(largest.folder, None, "nothing to launch"),
    )
    yield Finding(
        rule="host_bound",
        severity=severity,
        title=(
            f"{amount(gap)} of {amount(wall)} per call ({percent(share)}) is guards, "
            f"wrapper and launching {counted(launches, 'kernel')} of {amount(max(wall - gap, 0.0))}"
        ),
        graph=largest.name if len(case.graphs) == 1 else None,
        cost_ms=saved,
        evidence=evidence,
        advice=advice,
        measured=measured,
        share=share,
        trial=trial,
    )


def _lost_to_host(case: Case, gap: float) -> float | None:
    """What a call takes longer than in eager, where the host's side is most of that; else None.

    Which it also is where no more was lost than compiled code usually costs the host, whatever the split of
    a few microseconds between kernels and wrapper came out as.
    """
    times = case.times
    if times.ratio is None or times.ratio >= SLOWER or times.compiled_ms is None or times.eager_ms is None:
        return None
    lost = times.compiled_ms - times.eager_ms
    return lost if gap >= 0.5 * lost or lost <= MOST_OVER_USUAL * case.host_ms else None


def _advice(case: Case, gap: float) -> tuple[str, Trial | None, float]:
    """(what to do, how to try it, what it would save)."""
    if case.gpu:
        recorded = [
            graph.replay.cudagraph.median_ms
            for graph in case.graphs
            if graph.replay and graph.replay.cudagraph
        ]
        saved = case.wall_ms - sum(recorded) if recorded else gap * 0.8
        if any("reduce-overhead" in mode or mode == "max-autotune" for mode in case.times.modes):
            return (
                "use a larger batch, or put more work into one compiled function",
                Trial(mode="max-autotune"),
                saved,
            )
        return (
            'use mode="reduce-overhead" (CUDA graphs), or a larger batch',
            Trial(mode="reduce-overhead"),
            saved,
        )
    times = case.times
    lost = (times.compiled_ms or 0.0) - (times.eager_ms or math.inf)
    return (
        (
            "give each call more work (a larger batch, several steps in one compiled function), "
            "or leave it eager"
        ),
        Trial(environment=((SWITCHES[0], "1"),)) if lost > 0 else None,
        lost if lost > 0 else gap,
    )


RULE = Rule("host_bound", Stage.BOUND, find)
