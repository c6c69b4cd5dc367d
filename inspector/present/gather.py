"""What several views tell of a run beyond its facts: compile time, and where its ranks differ."""

from __future__ import annotations

from inspector.analysis.compile_time import compile_times, merge
from inspector.analysis.ranks import divergence
from inspector.model.compile_time import CompileTime
from inspector.model.ranks import Divergence
from inspector.readers.run import Run


def compile_time(run: Run) -> CompileTime | None:
    """Of all processes; None without a trace."""
    if not run.traces:
        return None
    times = []
    for file in run.traces:
        spans = file.timeline.spans
        # Only without timed sections are the metrics needed, which takes reading all events.
        times.append(compile_times(spans, () if spans else file.content.compilations))
    return merge(times)


def differences(run: Run) -> tuple[Divergence, ...]:
    """Between ranks, or processes whose rank is not known; none for a single process. Reads all graphs."""
    if len(run.traces) < 2 and len({graph.process for graph in run.graphs}) < 2:
        return ()
    from inspector.readers.ranks import rank_facts

    return divergence(rank_facts(run, [file.content for file in run.traces]))
