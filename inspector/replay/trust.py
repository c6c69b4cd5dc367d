"""Whether a run's code may be run without asking: it may where it was made on this machine."""

from __future__ import annotations

import os
import platform
import re
import tempfile
from pathlib import Path

from inspector.model.source import is_library
from inspector.readers.run import Run
from inspector.readers.run_files import RunFiles

# # File: /home/user/train.py:12 in forward, code: ...
_SOURCE = re.compile(r"^\s*# File: (?P<path>[^\n:]+):\d+ in ", re.MULTILINE)


def foreign(run: Run) -> str | None:
    """Why the run counts as another machine's, as half a sentence; None where it was made here.

    A capture's manifest names its machine. A bare folder has none: it counts as this machine's where it
    is no archive, belongs to this user, and names a Python source file that is here.
    """
    if run.manifest is not None and run.manifest.host:
        here = run.manifest.host == platform.node()
        return None if here else f"it was captured on {run.manifest.host}"
    if run.manifest is not None:
        return "its manifest does not say where it was captured"
    if not run.located.path.exists() or is_unpacked(run):
        return "it came as an archive"
    if hasattr(os, "getuid") and run.root.stat().st_uid != os.getuid():
        return "it belongs to another user"
    for graph in run.graphs:
        text = graph.text("fx_graph_readable.py") or graph.text("fx_graph_transformed.py") or ""
        if any(_is_users(match["path"]) for match in _SOURCE.finditer(text)):
            return None
    return "no source file that it names is here"


def is_unpacked(run: RunFiles) -> bool:
    """Unpacked by `readers.archive`: what the user named is not where the files are."""
    return Path(run.shown).absolute() != run.root.absolute() and str(run.root).startswith(
        tempfile.gettempdir()
    )


def _is_users(path: str) -> bool:
    """A source file that is here and is no library's, whose path is the same on many machines."""
    return not is_library(path) and Path(path).is_file()
