"""Triton kernels of GPU runs, checked in Triton's interpreter on the CPU: verdicts, run by run.

    python benchmarks/interpreter.py [--timeout SECONDS] [--only PATTERN] [FOLDER ...]

Without folders: the CUDA runs of tests/data, those of its `extra` included. `--only`: graphs whose
"run/graph" name the regular expression is found in. A kernel has a verdict if it is anything but
unverifiable; whatever is not a match is listed with its reason. No times: the interpreter's mean nothing.
On a machine with a GPU, too, kernels run in the interpreter.
"""

from __future__ import annotations

import argparse
import re
import tarfile
import tempfile
from collections import Counter
from importlib.metadata import version
from pathlib import Path

from common import DATA, corpus

from inspector.model.replay import KernelReplay
from inspector.readers.locate import runs_at
from inspector.readers.run import Run
from inspector.replay.plan import graph_files
from inspector.replay.protocol import ReplayOptions
from inspector.replay.spawn import replay_graph

HEADINGS = ("calls", "match", "compiled closer", "eager closer", "mismatch", "unverifiable", "whole grid")
VERDICTS = ("match", "compiled_closer", "eager_closer", "mismatch", "unverifiable")


def measure(folders: list[Path], options: ReplayOptions, only: str) -> None:
    print(f"{'':40}" + "".join(f"{heading:>16}" for heading in HEADINGS), flush=True)
    everything: list[KernelReplay] = []
    listed: list[str] = []
    for folder in folders:
        for located in runs_at(folder):
            run = Run(located)
            if not any("cuda" in device or "NVIDIA" in device for device in run.devices):
                continue
            for graph in run.graphs:
                name = f"{run.root.name}/{graph.ident}"
                if not re.search(only, name):
                    continue
                result = replay_graph(graph_files(graph), options)
                found = [kernel for kernel in result.kernels if kernel.method == "interpreter"]
                code = graph.code()
                wanted = {call.index for call in code.calls if call.kind in TRITON} if code else set()
                lost = wanted - {kernel.call for kernel in found}
                found += [KernelReplay(f"call {call}", call, "unverifiable", "not reached") for call in lost]
                everything += found
                print(row(name, found), flush=True)
                listed += [describe(name, kernel) for kernel in found if kernel.verdict != "match"]
                if result.failure:
                    listed.append(f"{name}: {result.failure}")
                outputs = Counter(check.verdict for check in result.outputs)
                listed.append(f"{name}: outputs {dict(outputs)}")
    print(row("all", everything))
    sure = sum(kernel.verdict != "unverifiable" for kernel in everything)
    share = percent(sure, len(everything))
    print(f"\nwith a verdict: {sure} of {len(everything)} Triton kernel calls, {share}\n")
    print("\n".join(listed))


TRITON = frozenset({"triton", "template", "user"})


def row(name: str, kernels: list[KernelReplay]) -> str:
    counts = Counter[str](kernel.verdict for kernel in kernels)
    whole = sum(kernel.programs is not None and kernel.programs == kernel.grid for kernel in kernels)
    cells = [len(kernels), *(counts[verdict] for verdict in VERDICTS), whole]
    return f"{name[-40:]:40}" + "".join(f"{cell:>16}" for cell in cells)


def describe(name: str, kernel: KernelReplay) -> str:
    return f"{name} call {kernel.call} {kernel.name[:60]}: {kernel.verdict}: {kernel.reason}"


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "none"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--timeout", type=float, default=3600.0)
    parser.add_argument("--only", default="")
    parser.add_argument("folders", nargs="*", type=Path)
    arguments = parser.parse_args()
    options = ReplayOptions(timeout_s=arguments.timeout, kernel_timeout_s=300.0, device="cpu")
    print(f"torch {version('torch')}, Triton {version('triton')}")
    if arguments.folders:
        measure(arguments.folders, options, arguments.only)
        return
    with corpus() as folder, tempfile.TemporaryDirectory(prefix="inspector-bench-") as extra:
        for archive in sorted((DATA / "extra").glob("*h200*.tar.xz")):
            with tarfile.open(archive) as tar:
                tar.extractall(extra, filter="data")
        measure([folder, Path(extra)], options, arguments.only)


if __name__ == "__main__":
    main()
