"""Whether code of a run may run unasked: only what this user's own captures left, as `inspector.seal` shows.

The same goes for replaying, measuring, trying, editing and writing a repro, on the command line and in the
browser. Nothing that a run says of itself counts, and an archive never does.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

from inspector.readers.graph import CompiledGraph
from inspector.readers.run import Run
from inspector.seal import why_broken
from inspector.text import clean, joined


def foreign(run: Run) -> str | None:
    """Why the run is not known to be the user's own, as half a sentence; None where it is."""
    if run.located.unpacked:
        return "it came as an archive"
    why = why_broken(run.root, [graph.folder for graph in run.graphs if graph.folder is not None])
    if why is not None and run.manifest is not None and run.manifest.host not in (None, platform.node()):
        return clean(f"it was captured on {run.manifest.host}")
    return clean(why) if why is not None else None


def what_runs(graphs: Sequence[CompiledGraph]) -> str:
    """What replaying the graphs executes, as a sentence."""
    files = [str(Path(graph.ident) / "output_code.py") for graph in graphs]
    return clean(
        f"Replay executes {joined(files, 3)}, the FX graphs beside it, and where they call operators of "
        "other libraries the modules that they name."
    )
