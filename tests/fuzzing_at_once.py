"""Runs `fuzzing.py` in many processes, each on seeds of its own, and adds up what they say.

    python tests/fuzzing_at_once.py --seed N --processes 30 --seconds 500 --out FOLDER

FOLDER gets sums.txt, a line for each process and one for all, and failures.txt: every crash and every look of more
than 2 s, by class, with its seed, what was damaged, and the stack of the first few. A process that dies is told.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SEEDS = 1_000_000
"""Of each process: more than one gets through in a night."""
STACKS = 3
"""Told of each class; of further ones the seed and what was damaged."""
LATE_S = 60
"""A process that goes on for longer than it was given is ended."""
_LINE = re.compile(
    r"^\s*\d+ to\s+\d+\s+([\d,]+)\s+([\d,]+)\s+([\d,]+)\s+(\d+) in\s+\d+\s+(\d+)\s+([\d.]+) s", re.M
)
_NAMED = re.compile(r"^\s*(\d+)  named by a boundary: (.*)$", re.M)


def started(number: int, first: int, seconds: float, folder: Path) -> subprocess.Popen[bytes]:
    # A library of linear algebra takes address space for each core, of which a process has MEMORY.
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, str(HERE / "fuzzing.py"), "--seed", str(first), "--cases", str(SEEDS)]
    more = ["--seconds", str(seconds), "--failures", str(folder / f"{number}.jsonl")]
    with (folder / f"{number}.txt").open("wb") as output:
        return subprocess.Popen(
            [*command, *more], stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **one}
        )


def told(failures: list[dict[str, Any]]) -> str:
    """All failures, those of a class together."""
    classes: dict[str, list[dict[str, Any]]] = {}
    for failure in failures:
        classes.setdefault(failure["where"], []).append(failure)
    text = []
    for where, items in sorted(classes.items(), key=lambda item: -len(item[1])):
        text.append(f"==== {len(items)} x {where}\n")
        for number, item in enumerate(items):
            text.append(f"seed {item['seed']}, {item['seconds']:.1f} s: {item['detail']}\n")
            text.append(f"{item['trace']}\n" if number < STACKS else "")
    return "".join(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=500, help="of each process, its start included")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="fuzz-at-once-"))
    begun = time.monotonic()
    firsts = [given.seed + number * SEEDS for number in range(given.processes)]
    processes = [started(number, first, given.seconds, folder) for number, first in enumerate(firsts)]
    rows, sums, named = [], Counter[str](), Counter[str]()
    slowest = 0.0
    failures: list[dict[str, Any]] = []
    for number, (first, process) in enumerate(zip(firsts, processes, strict=True)):
        try:
            process.wait(max(1.0, given.seconds + LATE_S - (time.monotonic() - begun)))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        text = (folder / f"{number}.txt").read_text(errors="replace")
        if (match := _LINE.search(text)) is None:
            rows.append(f"{first:>10}  died with {process.returncode}: {text[-600:]}")
            sums["processes that died"] += 1
        else:
            counts = [int(item.replace(",", "")) for item in match.groups()[:5]]
            sums.update(dict(zip(("cases", "looks", "seconds", "crashes", "slow"), counts, strict=True)))
            slowest = max(slowest, float(match[6]))
            rows.append(match[0].strip())
            named.update({where: int(count) for count, where in _NAMED.findall(text)})
        if (path := folder / f"{number}.jsonl").exists():
            failures += map(json.loads, path.read_text().splitlines())
    seconds = time.monotonic() - begun
    head = f"Python {platform.python_version()}, {given.processes} processes on {os.cpu_count()} cores"
    line = (
        f"all: {sums['cases']:,} cases, {sums['looks']:,} looks, {seconds:,.0f} s of the clock, {sums['crashes']} crashes, "
        f"{sums['slow']} slow, slowest {slowest:.1f} s, {sums['processes that died']} processes died"
    )
    kept = [f"{count:>7}  named by a boundary: {where}" for where, count in named.most_common(80)]
    (given.out / "sums.txt").write_text("\n".join([head, line, *rows, *kept]) + "\n")
    (given.out / "failures.txt").write_text(told(failures))
    print(head, line, sep="\n")
    return 1 if failures or sums["processes that died"] else 0


if __name__ == "__main__":
    sys.exit(main())
