"""Programs captured with both sides profiled: what their blocks and their two-sided ledger say.

    python benchmarks/two_sides.py OUT [--jobs N] [--try NAME ...] [--seconds S] PROGRAM ...

Each PROGRAM, a path with its arguments in quotes, is run as its user runs it, under `inspector capture
--baseline`, into OUT/NAME. Of each is told how compiled compares with eager, what share of either side
(the device, on a CPU the operators themselves) belongs to a block, what stays unexplained of the larger wall,
the size of the profiles and what making them adds to the capture, whether the blocks' times by kernel
are those of a count of the trace's own JSON, and the first findings. With --try the first finding's advice
is tried. `--jobs` above 1 is for shares, not for times.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import shlex
import subprocess
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from common import CLI, PYTHON

from inspector.explain.engine import explain
from inspector.model.explain import Explanation
from inspector.model.two_sides import Joined, Side, SideTotals
from inspector.readers.run import Run


def captured(words: list[str], run: Path, seconds: float, fresh: bool = True) -> str:
    """Captures, unless the run is there; how long it took, or why there is none."""
    if run.exists():
        return "-"
    more = () if fresh else ("--no-fresh",)
    command = [*CLI, "capture", "--baseline", *more, "-o", str(run), "--", PYTHON, *words]
    start = time.perf_counter()
    with run.with_suffix(".log").open("w") as log:
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            # It ends the program that it runs, too.
            child.terminate()
            child.wait()
            return f"not done after {seconds:.0f} s"
    return f"{time.perf_counter() - start:.0f} s"


SIDES: tuple[Side, ...] = ("eager", "compiled")


def side(totals: SideTotals | None) -> str:
    return f"{totals.attributed:.1%} of {totals.work_ms:.3g} ms" if totals is not None else "not profiled"


def counted(trace: Path) -> dict[str, float]:
    """Milliseconds by name: of the device's events, without any each operator's own time."""
    with gzip.open(trace) as file:
        events = [event for event in json.load(file)["traceEvents"] if event.get("ph") == "X"]
    times: dict[str, float] = defaultdict(float)
    device = [event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    for event in device:
        times[event["name"]] += event["dur"] / 1e3
    threads: dict[object, list[dict[str, Any]]] = defaultdict(list)
    for event in events if not device else ():
        if event.get("cat") in ("cpu_op", "user_annotation"):
            threads[event["tid"]].append(event)
    for own in threads.values():
        around: list[dict[str, Any]] = []
        for event in sorted(own, key=lambda event: (event["ts"], -event["dur"])):
            while around and around[-1]["ts"] + around[-1]["dur"] <= event["ts"]:
                around.pop()
            if around:
                times[around[-1]["name"]] -= event["dur"] / 1e3
            times[event["name"]] += event["dur"] / 1e3
            around.append(event)
    return times


def checked(run: Path, name: Side, joined: Joined) -> str:
    """The blocks' times by kernel beside that count: the largest difference, and what no block holds."""
    trace = run / "profile" / f"{name}.json.gz"
    totals: SideTotals | None = getattr(joined, name)
    if totals is None or not trace.exists():
        return f"{name}: not profiled"
    by_count: dict[str, float] = defaultdict(float)
    for kernel, ms in counted(trace).items():
        by_count[re.sub(r"^graph_\w*?_?(?=cpp_)", "", kernel)] += ms / totals.calls
    held: dict[str, float] = defaultdict(float)
    for block in joined.blocks:
        for kernel in getattr(block, f"{name}_kernels"):
            held[re.sub("^mem(set|cpy): ", "", kernel.name)] += kernel.ms
    apart = max((abs(ms - by_count[kernel]) for kernel, ms in held.items()), default=0.0)
    rest = {
        kernel: ms for kernel, ms in by_count.items() if kernel not in held and ms > 0.0005 * totals.work_ms
    }
    largest = sorted(rest.items(), key=lambda item: -item[1])[:5]
    others = ", ".join(f"{kernel[:40]} {ms:.3g}" for kernel, ms in largest)
    return f"{name}: {len(held)} names, at most {apart:.1g} ms apart; in no block: {others or 'nothing'}"


def profiling_ratio(run: Path) -> str:
    """What both profiled runs add to the whole capture, by the times of its five runs."""
    manifest = json.loads((run / "inspector.json").read_text())
    baseline = manifest.get("baseline", {}).values()
    without = manifest["seconds"] + sum(entry["seconds"] for entry in baseline)
    profiled = sum(entry.get("profile", {}).get("seconds", 0.0) for entry in baseline)
    return f"{(without + profiled) / without:.2f} of a capture without profiles"


def row(name: str, took: str, run: Path, explanation: Explanation) -> str:
    sides = explanation.sides
    profiles = sum(path.stat().st_size for path in (run / "profile").glob("*")) / 1e6
    lines = [
        f"{name}: {took}, {profiling_ratio(run)}; profiles {profiles:.2f} MB; {explanation.quality}",
        explanation.verdict,
    ]
    if sides is not None:
        joined, ledger = sides.joined, sides.ledger
        lines.append(f"in blocks: eager {side(joined.eager)}, compiled {side(joined.compiled)}")
        lines += [f"counted, {checked(run, one, joined)}" for one in SIDES]
        if ledger is not None:
            wall = max(ledger.eager_ms, ledger.compiled_ms)
            parts = (ledger.unexplained_eager_ms, ledger.unexplained_compiled_ms)
            lines.append(
                f"{ledger.source}: {ledger.eager_ms:.4g} -> {ledger.compiled_ms:.4g} ms, unexplained: "
                + " and ".join(f"{part:.3g} ms ({abs(part) / wall:.1%})" for part in parts)
            )
        lines += [f"note: {note}" for note in sides.notes]
    for finding in explanation.findings[:3]:
        cost = "" if finding.cost_ms is None else f" {finding.cost_ms:.4g} ms"
        lines.append(f"{finding.severity} {finding.rule}{cost}: {finding.title}")
    return "\n    ".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument(
        "--no-fresh", action="store_true", help="the user's caches, which saves compiling twice"
    )
    parser.add_argument("--try", dest="tried", nargs="*", default=())
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    def one(program: str) -> tuple[str, str]:
        words = shlex.split(program)
        name = "-".join([Path(words[0]).stem, *(word.strip("-") for word in words[1:])])
        return name, captured(words, options.out / name, options.seconds, not options.no_fresh)

    with ThreadPoolExecutor(options.jobs) as pool:
        for name, took in pool.map(one, options.programs):
            run = options.out / name
            try:
                print(row(name, took, run, explain(Run.open(run))), flush=True)
            except Exception as error:
                print(f"{name}: {took}: {type(error).__name__}: {error}", flush=True)
    for name in options.tried:
        words = [*CLI, "explain", str(options.out / name), "--try", "first"]
        print(subprocess.run(words, capture_output=True, text=True).stdout, flush=True)


if __name__ == "__main__":
    main()
