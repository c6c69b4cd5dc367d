"""A run explained as the command line does it, but for the machine, which counts for nothing."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from inspector.explain import explain
from inspector.explain.case import Case
from inspector.explain.times import Times
from inspector.model.explain import Explanation
from inspector.model.run import RunFacts
from inspector.readers.run import Run
from inspector.replay.store import load_results


@cache
def explained(path: Path) -> Explanation:
    """Once for each run in a process: nothing may change the runs of the corpus or of the samples."""
    run = Run.open(path)
    return explain(run, load_results(run.root))


def bare(times: Times | None = None) -> Case:
    """A case without anything else."""
    facts = RunFacts("run", "capture", None, (), 1, (), ())
    return Case(facts, (), times or Times(), (), {}, (), "", (), None, None, None)
