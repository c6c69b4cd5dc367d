"""Nothing worth changing, and what bounds the program then: memory, a library's arithmetic, or the host."""

from __future__ import annotations

from inspector.explain.case import Case
from inspector.explain.rule import timed
from inspector.model.explain import Evidence, Finding
from inspector.units import percent, size

OF_KERNELS = 0.5
"""Share of the kernels' time that names what bounds a program."""
UNREAD = "launches of kernels could not be read, see problems: inspector summary"


def healthy(case: Case) -> Finding:
    """The finding where no other one is high or medium."""
    evidence = []
    for graph in case.graphs[:1]:
        if graph.launches:
            largest = max(graph.launches, key=lambda launch: launch.ms)
            text = f"the longest kernel, {timed(largest, largest.ms)}: {largest.name}"
            evidence.append(graph.launch_evidence(largest, text))
    return Finding(
        rule="healthy",
        severity="low",
        title=f"nothing found, but {UNREAD}" if case.unread else f"nothing worth changing: {_bound(case)}",
        graph=None,
        cost_ms=0.0,
        evidence=tuple(evidence) or (Evidence(case.facts.root, None, "the run"),),
        advice="nothing; a smaller dtype or less work is what would make it faster",
        how="measured" if case.times.compiled_ms is not None else "estimated",
        share=0.0,
    )


def _bound(case: Case) -> str:
    """What a call can't be faster than, said of measured kernels; else that nobody measured it."""
    if not case.kernels_measured or case.times.compiled_ms is None:
        return "what bounds it was not measured"
    library, kernels, wall = case.role_ms("library"), case.kernels_ms, case.wall_ms
    if library >= OF_KERNELS * kernels and library:
        return f"bounded by library kernels, {percent(library / kernels)} of the kernels' time"
    if kernels and kernels >= OF_KERNELS * wall:
        moved = sum((launch.bytes or 0) * graph.runs for graph, launch in case.launches())
        return f"bounded by its kernels, which move {size(moved)} per call"
    return "bounded by the host: the kernels are short"
