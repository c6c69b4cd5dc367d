"""Starting and stopping a replay from the screen; the work itself is `inspector.replay`'s."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from inspector.model.replay import GraphReplay, ReplayResult
from inspector.readers.graph import CompiledGraph
from inspector.readers.run import Run

QUESTION = "Replay runs this folder's code on this machine."
REMARK = "Only replay what you trust. It runs in a child process, and x stops it."


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
    from inspector.replay.driver import GraphFiles, ReplayOptions, replay_graphs
    from inspector.replay.store import save_result

    whole: ReplayResult | None = None
    for number, graph in enumerate(graphs, 1):
        if should_stop():
            break
        if graph.folder is None:
            continue
        tell_progress = partial(_tell_progress, tell, f"replay {number} of {len(graphs)}: ")
        part = replay_graphs(
            [GraphFiles.of_folder(graph.folder, graph.ident)],
            ReplayOptions(),
            on_progress=tell_progress,
            should_stop=should_stop,
        )
        for result in part.graphs:
            tell("", result)
        whole = part if whole is None else replace(whole, graphs=(*whole.graphs, *part.graphs))
    if whole is not None and whole.graphs and run.kind == "capture" and os.access(run.root, os.W_OK):
        save_result(whole, run.root)
    return whole


def _tell_progress(tell: Callable[[str, GraphReplay | None], object], prefix: str, text: str) -> None:
    if text:
        tell(f"{prefix}{text}", None)


def earlier_replays(run: Run) -> dict[str, GraphReplay]:
    """The newest result of each graph that earlier replays left in the run."""
    from inspector.replay.store import load_results

    found: dict[str, GraphReplay] = {}
    for result in load_results(run.root) if run.root.is_dir() else ():
        found.update({graph.name: graph for graph in result.graphs})
    return found
