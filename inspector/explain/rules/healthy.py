"""Nothing worth changing, and what bounds the program then: memory, a library's arithmetic, or the host."""

from __future__ import annotations

from inspector.explain.case import Case
from inspector.model.explain import Evidence, Finding
from inspector.units import duration, percent, size

OF_KERNELS = 0.5
"""Share of the kernels' time that names what bounds a program."""
_UNREAD = "nothing found, but launches of kernels could not be read, see problems: inspector summary"


def healthy(case: Case) -> Finding:
    """The finding where no other one is high or medium."""
    library, kernels = case.role_ms("library"), case.kernels_ms
    moved = sum((launch.bytes or 0) * graph.runs for graph, launch in case.launches())
    wall = case.wall_ms
    if library >= OF_KERNELS * kernels and library:
        bound = f"bounded by library kernels, {percent(library / kernels)} of the kernels' time"
    elif kernels and (kernels >= OF_KERNELS * wall or moved > 1 << 20):
        bound = f"bounded by memory: {size(moved)} per call"
    else:
        bound = "bounded by the host: the kernels are short"
    evidence = []
    for graph in case.graphs[:1]:
        if graph.launches:
            largest = max(graph.launches, key=lambda launch: launch.ms)
            evidence.append(
                graph.launch_evidence(largest, f"the longest kernel, {duration(largest.ms)}: {largest.name}")
            )
    return Finding(
        rule="healthy",
        severity="low",
        title=_UNREAD if case.unread else f"nothing worth changing: {bound}",
        graph=None,
        cost_ms=0.0,
        evidence=tuple(evidence) or (Evidence(case.facts.root, None, "the run"),),
        advice="nothing; a smaller dtype or less work is what would make it faster",
        measured=case.times.compiled_ms is not None,
        share=0.0,
    )
