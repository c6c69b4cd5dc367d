"""How much of every captured run is understood, per torch version: lines, links to nodes, links to FX.

    python benchmarks/linkage.py [FOLDER ...]

Without arguments: the runs of tests/data. A folder is searched for runs as `inspector open` does it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from common import ROOT, corpus

from inspector.analysis.linkage import link_graph
from inspector.model.links import Linkage
from inspector.readers.locate import runs_at
from inspector.readers.run import Run

sys.path.insert(0, str(ROOT / "tests"))

from build import coverage

HEADINGS = (
    "torch",
    "runs",
    "graphs",
    "IR lines",
    "not parsed",
    "calls",
    "to nodes",
    "of those to FX",
    "problems",
)


def measure(folders: list[Path]) -> None:
    rows: dict[str, dict[str, int]] = {}
    linkages: dict[str, list[Linkage]] = {}
    for folder in folders:
        for located in runs_at(folder):
            run = Run(located)
            version = (run.torch_version or "unknown").split("+")[0]
            version += " GPU" if run.devices and run.devices != ("cpu",) else " CPU"
            row = rows.setdefault(
                version, dict.fromkeys(("runs", "graphs", "lines", "unparsed", "problems"), 0)
            )
            row["runs"] += 1
            for graph in run.graphs:
                artifacts = graph.artifacts()
                row["graphs"] += 1
                row["problems"] += len(artifacts.problems)
                for schedule in (artifacts.pre, artifacts.post):
                    if schedule is not None:
                        row["lines"] += sum(1 for line in schedule.text.splitlines() if line.strip())
                        row["unparsed"] += len(schedule.unparsed)
                linkages.setdefault(version, []).append(link_graph(artifacts))
    print("  ".join(f"{heading:>14}" for heading in HEADINGS))
    for version in sorted(rows):
        row = rows[version]
        calls, nodes, fx = coverage(linkages.get(version, []))
        cells = (
            version, row["runs"], row["graphs"], row["lines"], row["unparsed"], calls,
            percent(nodes, calls), percent(fx, nodes), row["problems"],
        )  # fmt: skip
        print("  ".join(f"{cell!s:>14}" for cell in cells))


def percent(part: int, whole: int) -> str:
    return f"{part}/{whole} {100 * part / whole:.1f}%" if whole else "-"


if __name__ == "__main__":
    if sys.argv[1:]:
        measure([Path(argument) for argument in sys.argv[1:]])
    else:
        with corpus() as folder:
            measure([folder])
