"""Whether measuring a program with thirty graphs ends within its announced time.

    python benchmarks/measure_budget.py OUT [--seconds S]

Captures programs/thirty_graphs.py into OUT/thirty_graphs, unless it is there, and replays its graphs as
`explain --measure` does, which announces some 500 s for as many; with --seconds in less.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import time
from pathlib import Path

from common import CLI, PYTHON, ROOT, machine

from inspector.readers.run import Run
from inspector.replay.budget import announced_s, measure

PROGRAM = ROOT / "benchmarks" / "programs" / "thirty_graphs.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float)
    options = parser.parse_args()
    run = options.out / "thirty_graphs"
    if not run.exists():
        subprocess.run([*CLI, "capture", "-q", "-o", str(run), "--", PYTHON, str(PROGRAM)], check=True)
    graphs = [graph for graph in Run.open(run).graphs if graph.folder is not None and graph.files]
    announced = announced_s(len(graphs))
    seconds = options.seconds or announced
    print(f"{machine()}; load {os.getloadavg()[0]:.1f}", flush=True)
    told: list[str] = []
    start = time.monotonic()
    result, left = measure(graphs, seconds, told.append)
    took = time.monotonic() - start
    timed = sum(graph.compiled is not None for graph in result.graphs)
    print(
        f"{len(graphs)} graphs, {announced:.0f} s announced, {seconds:.0f} s given: took {took:.1f} s, "
        f"{timed} timed, {len(left)} left for want of time; "
        f"{len(told)} lines of progress, the last: {told[-1]}"
    )


if __name__ == "__main__":
    main()
