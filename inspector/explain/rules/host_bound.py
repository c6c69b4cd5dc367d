"""The kernels are shorter than what it takes to get to them: guards, wrapper, launches.

Looks at: one call's wall time less its kernels; without times, the size of what the kernels do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from inspector.analysis.nothing import SWITCHES
from inspector.explain.case import Case
from inspector.explain.estimate import CUDA_GRAPH_MS
from inspector.explain.ledger import host_part_ms
from inspector.explain.rule import Rule, Stage, about
from inspector.explain.transfers import waiting_ms
from inspector.model.explain import Evidence, Finding, FindingHow, Severity, Trial
from inspector.units import duration, percent, plural

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
LEAST_GAIN = 0.1
"""Of the wall time: CUDA graphs that win less are not worth their memory and their restrictions."""


def find(case: Case) -> Iterable[Finding]:
    if not case.graphs or case.unread or case.in_eager:
        return
    usual = case.host_ms
    wall, kernels = case.wall_ms, case.kernels_ms
    measured = case.times.compiled_ms is not None and case.kernels_measured
    if measured:
        gap = host_part_ms(case)
    else:
        gap = min(wall - kernels - waiting_ms(case)[0], usual * MOST_OVER_ESTIMATE)
    lost = _lost_to_host(case, gap)
    share = gap / wall if wall else 0.0
    if lost is None and share < LOW:
        return
    faster = case.times.ratio is not None and case.times.ratio >= FASTER
    severity: Severity = "medium" if faster else "high"
    launches = round(sum(len(graph.launches) * graph.runs for graph in case.graphs))
    how: FindingHow = "replayed" if measured else "estimated"
    if measured and case.sides is not None and case.sides.joined.launches:
        how = "measured"
    advice, trial, saved = _advice(case, gap)
    largest = max(case.graphs, key=lambda graph: len(graph.launches))
    first = largest.launches[0] if largest.launches else None
    evidence = (
        largest.launch_evidence(
            first,
            f"{plural(launches, 'kernel')} launched a call, {about(kernels, how)} in all",
        )
        if first is not None
        else Evidence(largest.folder, None, "nothing to launch"),
    )
    work = f"guards, wrapper and launching {plural(launches, 'kernel')}"
    if share >= LOW_WHERE_SLOWER or lost is None:
        title = f"{about(gap, how)} of {duration(wall)} per call ({percent(share)}) is {work}"
    else:
        title = f"a call takes {duration(lost)} more than in eager, about what {work} usually costs"
    yield Finding(
        rule="host_bound",
        severity=severity,
        title=title,
        graph=largest.name if len(case.graphs) == 1 else None,
        cost_ms=saved,
        evidence=evidence,
        advice=advice,
        how="measured" if trial is not None and trial.environment else how,
        share=case.share(saved),
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
    if max(gap, lost) < LOW_WHERE_SLOWER * times.compiled_ms:
        return None
    if case.sides is not None and case.sides.ledger is not None:
        # Both sides were measured: what is no block's is the host's, and nothing needs to be supposed.
        host = sum(item.ms for item in case.sides.ledger.differences if item.block is None)
        return lost if host >= 0.5 * lost else None
    return lost if gap >= 0.5 * lost or lost <= MOST_OVER_USUAL * case.host_ms else None


def _advice(case: Case, gap: float) -> tuple[str, Trial | None, float]:
    """(what to do, how to try it, what it would save)."""
    remark = ""
    if case.gpu and not any(graph.cuda_graphs for graph in case.graphs):
        saved = case.wall_ms - _with_cuda_graphs(case)
        if saved >= LEAST_GAIN * case.wall_ms:
            advice = 'use mode="reduce-overhead" (CUDA graphs), or a larger batch'
            return advice, Trial(mode="reduce-overhead"), saved
        remark = (
            '; mode="reduce-overhead" (CUDA graphs) would not help: its own work for a call is no shorter'
        )
    times = case.times
    lost = (times.compiled_ms or 0.0) - (times.eager_ms or math.inf)
    return (
        "give each call more work (a larger batch, several steps in one compiled function), "
        f"or leave it eager{remark}",
        Trial(environment=((SWITCHES[0], "1"),)) if lost > 0 else None,
        lost if lost > 0 else gap,
    )


def _with_cuda_graphs(case: Case) -> float:
    """What a call would take with mode="reduce-overhead": kernels back to back, one launch for all."""
    recorded = [
        graph.replay.cudagraph.median_ms for graph in case.graphs if graph.replay and graph.replay.cudagraph
    ]
    runs = sum(graph.runs for graph in case.graphs)
    return CUDA_GRAPH_MS * max(runs, 1.0) + (sum(recorded) or case.kernels_ms)


RULE = Rule("host_bound", Stage.BOUND, find, place_only=True)
