"""Whether code of a run may run unasked: only what this user's own captures left, as `inspector.seal` shows.

The same goes for replaying, measuring, trying, editing and writing a repro, on the command line and in the
browser. Nothing that a run says of itself counts, and an archive never does.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from inspector.readers.graph import CompiledGraph
from inspector.readers.run import Run
from inspector.text import clean


def foreign(run: Run, graphs: Sequence[CompiledGraph] = (), repeats: bool = False) -> str | None:
    """Why the run is not known to be the user's own, as half a sentence; None where it is.

    `graphs`: these are about to be run, and are looked at as they were read, which is what runs.
    `repeats`: its command is.
    """
    if run.located.unpacked:
        return "it came as an archive"
    from inspector.seal import why_broken

    folders = [graph.folder for graph in run.graphs if graph.folder is not None]
    texts = {path: text for graph in graphs for path, text in graph.sources.items()}
    why = why_broken(run.root, folders, texts, run.manifest, repeats)
    if why is not None and run.manifest is not None and run.manifest.host not in (None, platform.node()):
        return clean(f"it was captured on {run.manifest.host}")
    return clean(why) if why is not None else None


_MOST_NAMED = 12


def what_runs(graphs: Sequence[CompiledGraph], python: str | None = None) -> str:
    """What replaying the graphs executes, where and with which interpreter."""
    files = [str(Path(graph.ident) / "output_code.py") for graph in graphs]
    named = ", ".join(files[:_MOST_NAMED])
    more = f" and those of {len(files) - _MOST_NAMED} more graphs" if len(files) > _MOST_NAMED else ""
    return clean(
        f"Replay executes {named}{more} in {graphs[0].run.root.absolute()}, the FX graphs beside it, and "
        "where they call operators of other libraries the modules that they name; with "
        f"{python or sys.executable}, in a folder of its own."
    )
