"""A run explained as the command line does it, but for the machine, which counts for nothing."""

from __future__ import annotations

from pathlib import Path

from inspector.explain import explain
from inspector.model.explain import Explanation
from inspector.readers.run import Run
from inspector.replay.store import load_results


def explained(path: Path) -> Explanation:
    run = Run.open(path)
    return explain(run, load_results(run.root))
