"""Verdicts of every kernel call of captured CPU runs, untouched: none should be blamed.

    python benchmarks/replay_kernels.py [RUN ...]
    python benchmarks/replay_kernels.py --before CHECKOUT [--rounds N] [RUN ...]

Without RUN: the runs of tests/data that this machine's torch version captured on a CPU. ``--before``: seconds
of a replay by this checkout and by an older one in turn, N times each, kernels alone, with warm caches of
their compilers; and the same less what a replay of no kernel takes.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from common import PYTHON, ROOT, corpus, describe, machine, pairs

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


_REPLAY = """
import sys
from pathlib import Path
from inspector.readers.run import Run
from inspector.replay.plan import graph_files
from inspector.replay.protocol import ReplayOptions
from inspector.replay.spawn import replay_graph
run, cache, kernels = sys.argv[1:]
options = ReplayOptions(whole=False, time_kernels=False, kernels=kernels == "True", cache_dir=Path(cache))
for graph in Run.open(Path(run)).graphs:
    if "output_code.py" in graph.files:
        replay_graph(graph_files(graph), options)
"""


def beside(before: Path, runs: Sequence[Path], rounds: int, cache: Path) -> None:
    """Prints seconds a kernel of both checkouts, and their ratios; the median over the runs' pairs."""
    ratios: dict[str, list[float]] = {"replay": [], "less its start": []}
    for run in runs:
        graphs = [graph for graph in Run.open(run).graphs if "output_code.py" in graph.files]
        calls = sum(len(files.kernels.calls) for graph in graphs if (files := graph_files(graph)).kernels)
        sides = []
        for kernels in (True, False):
            commands = [
                [
                    "env",
                    f"PYTHONPATH={tree}",
                    PYTHON,
                    "-c",
                    _REPLAY,
                    str(run),
                    str(cache / name),
                    str(kernels),
                ]
                for name, tree in (("before", before.resolve()), ("now", ROOT))
            ]
            sides.append(pairs(commands[0], commands[1], rounds))
        old, new = sides[0]
        starts = [statistics.median(times) for times in sides[1]]
        own = [(ours - starts[1]) / (theirs - starts[0]) for theirs, ours in zip(old, new, strict=True)]
        whole = [ours / theirs for theirs, ours in zip(old, new, strict=True)]
        ratios["replay"] += whole
        ratios["less its start"] += own
        print(f"{run.name:<12} {calls} kernels: before {describe(old)}, now {describe(new)}, ", end="")
        print(f"start {starts[0]:.2f} s and {starts[1]:.2f} s; ", end="")
        print(f"{statistics.median(whole):.2f}x, less its start {statistics.median(own):.2f}x", flush=True)
    for what, values in ratios.items():
        print(f"{what}: {statistics.median(values):.2f}x ({min(values):.2f} to {max(values):.2f})")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(machine())
    total: Counter[str] = Counter()
    with corpus() as folder, TemporaryDirectory() as cache:
        options = ReplayOptions(whole=False, time_kernels=False, cache_dir=Path(cache))
        here = version("torch").split("+")[0].rsplit(".", 1)[0]
        runs = given.runs or [
            run for run in sorted(folder.glob(f"cpu-torch{here}*/*")) if any(run.rglob("output_code.py"))
        ]
        if given.before is not None:
            beside(given.before, runs, given.rounds, Path(cache))
            return
        for run in runs:
            total += replayed(run, replace(options, seed=1))
    calls = sum(total.values())
    print(f"{calls} kernel calls: " + ", ".join(f"{count} {verdict}" for verdict, count in total.items()))
    if calls:
        print(f"unverifiable: {100 * (total['unverifiable'] + total['not run']) / calls:.1f} %")


if __name__ == "__main__":
    main()
