"""Verdicts of every kernel call of captured CPU runs, untouched: none should be blamed.

    python benchmarks/replay_kernels.py [RUN ...]

Without RUN: the runs of tests/data that this machine's torch version captured on a CPU.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from common import corpus, machine

from inspector.readers.run import Run
from inspector.replay.plan import graph_files
from inspector.replay.protocol import ReplayOptions
from inspector.replay.spawn import replay_graph


def replayed(run: Path, options: ReplayOptions) -> Counter[str]:
    """Prints each graph's verdicts and what is not a match; the verdicts of the run."""
    total: Counter[str] = Counter()
    for graph in Run.open(run).graphs:
        if "output_code.py" not in graph.files:
            continue
        files = graph_files(graph)
        assert files.kernels is not None
        result = replay_graph(files, options)
        verdicts = Counter[str](kernel.verdict for kernel in result.kernels)
        verdicts["not run"] = len(files.kernels.calls) - len(result.kernels)
        total += verdicts
        shown = ", ".join(f"{count} {verdict}" for verdict, count in (+verdicts).items())
        print(f"{run.name:<12} {graph.name:<26} {shown} {result.failure or ''}", flush=True)
        for kernel in result.kernels:
            if kernel.verdict != "match":
                print(f"    call {kernel.call} {kernel.name}: {kernel.verdict}; {kernel.reason}"[:200])
    return total


def main() -> None:
    print(machine())
    total: Counter[str] = Counter()
    with corpus() as folder, TemporaryDirectory() as cache:
        options = ReplayOptions(whole=False, time_kernels=False, cache_dir=Path(cache))
        here = version("torch").split("+")[0].rsplit(".", 1)[0]
        runs = [Path(name) for name in sys.argv[1:]]
        for run in runs or sorted(folder.glob(f"cpu-torch{here}*/*")):
            if runs or any(run.rglob("output_code.py")):
                total += replayed(run, replace(options, seed=1))
    calls = sum(total.values())
    print(f"{calls} kernel calls: " + ", ".join(f"{count} {verdict}" for verdict, count in total.items()))
    if calls:
        print(f"unverifiable: {100 * (total['unverifiable'] + total['not run']) / calls:.1f} %")


if __name__ == "__main__":
    main()
