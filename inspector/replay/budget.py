"""Measuring a whole run within a time that is announced: the graphs that take longest first."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from inspector.model.replay import GraphReplay, ReplayResult
from inspector.readers.graph import CompiledGraph
from inspector.replay.plan import graph_files
from inspector.replay.protocol import ReplayOptions
from inspector.replay.spawn import replay_graphs

START_S, GRAPH_S, MOST_S = 60.0, 15.0, 900.0
"""For the first graph, whose headers and peaks the others share; for each; for all together."""
_TIMING_SHARE = 0.25
"""Of a graph's part: the rest goes to loading torch, to building kernels and to the reference."""
_LEAST_TIMING_S = 1.0
_HUNG_SHARE = 0.5
"""Of the whole: a graph that hangs leaves the others half of it."""
_USED_SHARE = 0.99
"""Of the whole: the rest is for ending the child that runs when time is up."""


_CUT = "stopped as the time for measuring was up"


def announced_s(graphs: int) -> float:
    """Seconds after which measuring so many graphs ends, whatever is left."""
    return min(START_S + GRAPH_S * graphs, MOST_S)


def measure(
    graphs: Sequence[CompiledGraph],
    seconds: float,
    on_progress: Callable[[str], object],
    options: ReplayOptions | None = None,
    profiled: Mapping[str, Mapping[int, float]] = MappingProxyType({}),
) -> tuple[ReplayResult, tuple[str, ...]]:
    """The replay of `graphs` for at most `seconds`, and the names of those for which no time was left; of the
    last one what there was of it. `profiled`: milliseconds of calls in the run's profile, by graph."""
    options = options or ReplayOptions()
    ends = time.monotonic() + seconds * _USED_SHARE
    timing = max(_LEAST_TIMING_S, seconds / max(len(graphs), 1) * _TIMING_SHARE)
    options = replace(
        options,
        timeout_s=min(options.timeout_s, seconds * _HUNG_SHARE if len(graphs) > 1 else seconds),
        max_time_s=min(options.max_time_s, timing),
    )
    ordered = costly_first(graphs)
    seen: dict[str, GraphReplay] = {}
    result = replay_graphs(
        [graph_files(graph, profiled.get(graph.ident)) for graph in ordered],
        options,
        on_progress=lambda text: on_progress(f"{text} · {max(ends - time.monotonic(), 0):.0f} s left"),
        should_stop=lambda: time.monotonic() >= ends,
        on_result=lambda graph: seen.update({graph.name: graph}),
    )
    done = {graph.name for graph in result.graphs}
    cut = [replace(graph, failure=_CUT) for name, graph in seen.items() if name not in done]
    result = replace(result, graphs=(*result.graphs, *cut))
    done.update(seen)
    return result, tuple(graph.ident for graph in ordered if graph.ident not in done)


def costly_first(graphs: Sequence[CompiledGraph]) -> list[CompiledGraph]:
    """By the time that all runs of a graph took in the program; those that nobody timed come last."""
    spent: dict[tuple[str, str], float] = {}
    for record in graphs[0].run.records if graphs else ():
        for runs in record.calls.graph_runs if record.calls is not None else ():
            if runs.ms:
                spent[runs.process, runs.graph] = runs.runs * statistics.median(runs.ms)
    return sorted(graphs, key=lambda graph: -spent.get((graph.process, graph.name), 0.0))
