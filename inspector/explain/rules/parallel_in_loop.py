"""A generated C++ kernel starts its threads inside of loops, once for each round of these.

Looks at: ``#pragma omp parallel`` in the body of loops of generated C++, and how often these go round. Torch
shares the loops that it takes for long enough, which need not be the outer ones
(torch/_inductor/codegen/cpp.py: LoopNest.max_parallel_depth).
"""

from __future__ import annotations

from collections.abc import Iterable

from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launch
from inspector.explain.cpp_loops import inner_regions
from inspector.explain.rule import Rule, Stage, severity_of, source_evidence, timed
from inspector.frozen import dataclass
from inspector.model.account import Interval
from inspector.model.explain import Finding, Trial

REGION_MS = (0.3e-3, 3e-3)
"""Of one region: two threads meet at a barrier within 0.3 us, those of many cores within a few."""
_ONE_THREAD = Trial(config=(("cpp.threads", 1),))


@dataclass(frozen=True, slots=True)
class _Costly:
    graph: GraphCase
    launch: Launch
    regions: int
    ms: Interval


def find(case: Case) -> Iterable[Finding]:
    if case.gpu or (case.threads or 2) < 2:
        return
    costly = sorted(_costly(case), key=lambda item: -item.ms[1])
    if not costly:
        return
    cost = case.within_call(sum(item.ms[1] for item in costly))
    share = case.share(cost)
    evidence = []
    for item in costly[:2]:
        text = f"{item.regions:,} regions a run, {timed(item.launch, item.launch.ms)}: {item.launch.name}"
        evidence.append(item.graph.launch_evidence(item.launch, text))
        evidence += [source_evidence(case, place) for place in item.launch.sources[:1]]
    regions = round(sum(item.regions * item.graph.runs for item in costly))
    yield Finding(
        rule="parallel_in_loop",
        severity=severity_of(share),
        title=f"threads are started and waited for {regions:,} times a call, inside of loops",
        graph=costly[0].graph.name,
        cost_ms=cost,
        claims=tuple(on_launch(item.graph, item.launch, item.ms, "estimated") for item in costly),
        evidence=tuple(evidence),
        advice="run generated code in one thread, torch._inductor.config.cpp.threads = 1 (libraries keep "
        "theirs), or give its outer dimension more rows",
        share=share,
        trial=_ONE_THREAD,
    )


def _costly(case: Case) -> Iterable[_Costly]:
    """Launches with such regions, and what these take a call."""
    for graph, launch in case.launches():
        regions, (low, high) = waiting(launch)
        if high * graph.runs > 0:
            yield _Costly(graph, launch, regions, (low * graph.runs, high * graph.runs))


def waiting(launch: Launch) -> tuple[int, Interval]:
    """(such regions of one run, milliseconds that they take of it): of what the kernel takes over its own
    work."""
    regions = inner_regions(launch.source) if launch.call.kind == "cpp" else 0
    most = max(launch.ms - (launch.expected_ms or 0.0), 0.0) if launch.measured else launch.ms
    low, high = (min(regions * each, most) for each in REGION_MS)
    return regions, (low, high)


RULE = Rule("parallel_in_loop", Stage.CODE, find)
