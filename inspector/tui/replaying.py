"""Starting and stopping a replay from the screen; the work itself is `inspector.replay`'s."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from inspector.model.replay import GraphReplay, ReplayResult
from inspector.readers.graph import CompiledGraph
from inspector.readers.run import Run

QUESTION = "Replay runs this folder's code on this machine."
REMARK = "Only replay what you trust. While it runs, x stops it."


def can_replay(graph: CompiledGraph) -> bool:
    """A graph out of a trace, or one that was never generated, has no code on disk to run."""
    return graph.folder is not None and "output_code.py" in graph.files


def replay(
    run: Run,
    graphs: Sequence[CompiledGraph],
    tell: Callable[[str, GraphReplay | None], object],
    should_stop: Callable[[], bool],
) -> ReplayResult | None:
    """One graph after the other, so that each result shows at once; None where none was finished.

    `tell` hears what is being done and each result. A capture keeps what was measured, older results too.
    """
    from inspector.replay.plan import GraphFiles, ReplayOptions
    from inspector.replay.spawn import replay_graphs
    from inspector.replay.store import save_result

    def progress(text: str) -> None:
        tell(f"replay: {text}", None)

    def finished(graph: GraphReplay) -> None:
        tell("", graph)

    files = [GraphFiles.of_graph(graph) for graph in graphs if graph.folder is not None]
    result = replay_graphs(
        files,
        ReplayOptions(),
        on_progress=progress,
        should_stop=should_stop,
        on_result=finished,
    )
    if not result.graphs:
        return None
    if run.kind == "capture" and os.access(run.root, os.W_OK):
        save_result(result, run.root)
    return result


def earlier_replays(run: Run) -> dict[str, GraphReplay]:
    """The newest result of each graph that earlier replays left in the run."""
    from inspector.replay.store import load_results

    found: dict[str, GraphReplay] = {}
    for result in load_results(run.root) if run.root.is_dir() else ():
        found.update({graph.name: graph for graph in result.graphs})
    return found
