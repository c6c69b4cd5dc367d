"""What the fusion pane waits for, once the files are parsed.

    python benchmarks/fusion.py [NODES [LINES]]

A made-up graph (800 scheduler nodes in groups of four, a library call every tenth) with a fusion log of
20,000 lines: links, groups, traffic, decisions, misses and lanes, each as the best and the median of several
runs. Then the lanes of 10,000 nodes alone, and the largest real graph of tests/data.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from common import ROOT, corpus, machine

from inspector.analysis.fusion import analyse_fusion
from inspector.analysis.lanes import kinds_by_row, lay_out
from inspector.analysis.linkage import link_graph
from inspector.contract.fusions import to_json
from inspector.model.decision import Decision
from inspector.model.logs import FusionLog
from inspector.present.fusion_lanes import LANES
from inspector.readers.run import Run

sys.path.insert(0, str(ROOT / "tests"))
import build

_T = TypeVar("_T")
_REASONS = (
    "no shared data",
    "intermediate nodes between node1 & node2",
    "memory deps did not match",
    "numel/rnumel mismatch (reduce) (64, 1), (1, 4096)",
    "node1 must go before node2",
)


def made_up(nodes: int, lines: int) -> build.GraphArtifacts:
    """A schedule of `nodes` nodes, its wrapper, and a log of `lines` decisions about neighbours."""
    source = random.Random(1)
    leaves = []
    for number in range(nodes):
        reads = [build.dep(f"arg{source.randrange(nodes // 4)}_1", "64*c0 + c1", c0=128, c1=64)]
        for back in {1, source.randrange(1, 9)}:
            if number >= back:
                index = "c0 + 128*c1" if source.random() < 0.2 else "64*c0 + c1"
                reads.append(build.dep(f"buf{number - back}", index, c0=128, c1=64))
        kernel = "extern_kernels.mm" if number % 10 == 9 else None
        inputs = tuple((dep.buffer, build.layout(128, 64)) for dep in reads)
        leaves.append(build.computed(f"op{number}", tuple(reads), (128, 64), kernel=kernel, inputs=inputs))
    post: list[build.SchedulerNode] = []
    group: list[build.SchedulerNode] = []
    for leaf in leaves:
        group.append(leaf)
        if leaf.kernel or len(group) == 4:
            merged = group[:-1] if leaf.kernel else group
            post += [build.fused(*merged)] if len(merged) > 1 else merged
            post += [leaf] if leaf.kernel else []
            group = []
    post += group
    calls = [
        build.call(number, f"kernel_{number}", "cpp", outputs=" ".join(b.name for b in entry.outputs[-1:])
                   or entry.name.replace("op", "buf").rsplit("_", 1)[-1])
        for number, entry in enumerate(post)
    ]  # fmt: skip
    names = [entry.name for entry in post]
    decisions = []
    for line in range(lines):
        first = source.randrange(len(names) - 9)
        pair = (names[first], names[first + source.randrange(1, 9)])
        decisions.append(Decision(*pair, 1 + line * 3 // lines, "rejected", source.choice(_REASONS), line))
    log = FusionLog("0/0", 0, "model__0_inference_0.0", (), tuple(decisions), (), ())
    return build.scheduled(tuple(leaves), tuple(post), build.code(*calls), log)


def timed(what: str, function: Callable[[], _T], rounds: int = 7) -> _T:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        result = function()
        times.append(1000 * (time.perf_counter() - start))
    print(f"  {what}: best {min(times):.0f} ms, median {statistics.median(times):.0f} ms")
    return result


def measure(artifacts: build.GraphArtifacts) -> None:
    linkage = timed("links", lambda: link_graph(artifacts))
    report = timed("groups, traffic, decisions, misses", lambda: analyse_fusion(artifacts, linkage))
    lanes = timed("lanes", lambda: lay_out(report))
    timed("the cells that are drawn", lambda: kinds_by_row(lanes, len(report.nodes), LANES))
    timed("all of it", lambda: lay_out(analyse_fusion(artifacts)))
    timed("as JSON", lambda: to_json([report]))
    print(f"  {len(report.groups)} groups, {len(report.decisions)} decisions, {len(report.missed)} misses")


def main() -> None:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 800
    lines = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
    print(machine())
    print(f"made-up graph, {nodes} nodes, {lines} lines of log:")
    measure(made_up(nodes, lines))
    print("lanes of 10,000 nodes:")
    large = analyse_fusion(made_up(10_000, 0))
    lanes = timed("lay out", lambda: lay_out(large))
    timed("the cells that are drawn", lambda: kinds_by_row(lanes, len(large.nodes), LANES))
    print(f"  {len(lanes)} lanes")
    with corpus() as folder:
        for name in ("resnet50", "llama_infer"):
            for graph in Run.open(folder / "h200-torch2.11" / name).graphs[:2]:
                print(f"{name} {graph.name}:")
                measure(graph.artifacts())


if __name__ == "__main__":
    main()
