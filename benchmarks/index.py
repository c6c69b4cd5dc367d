"""An index of many runs: what it costs, that a kill loses and doubles nothing, that its answers are right.

    python benchmarks/index.py --runs 10000 [--jobs 2 | --dask 2] [--into FOLDER]

Runs are copies of sample runs, those of one program on ten days, with planted differences: command, day,
host, times of calls, archives that are none. Every answer is known from how they were planted. Files that
don't differ are hard links. Prints what it saw, for benchmarks/results/index.txt; exits with 1 for a wrong
answer.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from common import machine

from inspector.index.query import ask
from inspector.library import open as open_run

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ("stories/small_softmax", "stories/first_call", "stories/old_gpu", "breaks")
TIMED = (0, 1)
"""Of these the samples with calls that were timed beside a baseline."""
PLANTED = "baseline/compiled/record"
DAYS = 10
DAY = 86_400.0
BEGAN = 1_700_000_000.0
SLOWER, EVERY = 1.5, 7
"""Each so manieth program that is timed takes so much longer on the last day."""
HOSTS = ("node0", "node1", "node2")
BAD = 101
"""In place of each so manieth run there is an archive that is none."""


@dataclass
class Planted:
    """What was planted, as the questions should tell it."""

    runs: int = 0
    hosts: Counter[str] = field(default_factory=Counter)
    samples: Counter[int] = field(default_factory=Counter)
    bad: set[str] = field(default_factory=set)
    slower: set[str] = field(default_factory=set)
    days: Counter[int] = field(default_factory=Counter)


def unpack(folder: Path) -> list[Path]:
    for name in SAMPLES:
        with tarfile.open(ROOT / "sample_runs" / name / "run.tar.xz") as tar:
            tar.extractall(folder, filter="data")
    return [folder / Path(name).name for name in SAMPLES]


def plant(folder: Path, samples: list[Path], count: int) -> Planted:
    planted = Planted()
    for number in range(count):
        program, day = divmod(number, DAYS)
        which = program % len(samples)
        target = folder / f"day{day}" / f"program{program}"
        planted.runs += 1
        planted.days[day] += 1
        if number % BAD == BAD - 1:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.with_suffix(".tar.gz").write_bytes(b"cut off")
            planted.bad.add(str(target.with_suffix(".tar.gz")))
            continue
        host = HOSTS[program % len(HOSTS)]
        slower = which in TIMED and program % EVERY == 0 and day == DAYS - 1
        command = ["python", f"program{program}.py"]
        copy(samples[which], target, command, BEGAN + day * DAY, host, SLOWER if slower else 1.0)
        planted.hosts[host] += 1
        planted.samples[which] += 1
        if slower:
            planted.slower.add(" ".join(command))
    return planted


def copy(sample: Path, target: Path, command: list[str], started: float, host: str, factor: float) -> None:
    for folder, _, files in os.walk(sample):
        inside = target / Path(folder).relative_to(sample)
        inside.mkdir(parents=True)
        for name in files:
            if not (inside == target and name == "inspector.json") and PLANTED not in folder:
                os.link(Path(folder) / name, inside / name)
    manifest = json.loads((sample / "inspector.json").read_text())
    manifest |= {"command": command, "started": started, "host": host}
    (target / "inspector.json").write_text(json.dumps(manifest))
    for record in sample.glob("baseline/compiled/record/*.jsonl"):
        text = re.sub(r'"steady_ms":\[[^]]*\]', lambda match: scaled(match[0], factor), record.read_text())
        (target / record.relative_to(sample)).write_text(text)


def scaled(text: str, factor: float) -> str:
    name, _, times = text.partition(":")
    return f"{name}:{json.dumps([round(ms * factor, 6) for ms in json.loads(times)])}"


def questions(planted: Planted, samples: list[Path]) -> Iterator[tuple[str, Any]]:
    """Ten questions, each with its answer as rows, or as a set of the last column."""
    each = [open_run(sample) for sample in samples]

    def times(count_of: Any) -> int:
        return sum(planted.samples[number] * count_of(run) for number, run in enumerate(each))

    good = planted.runs - len(planted.bad)
    yield "select count(*), count(distinct path) from runs", [(planted.runs, planted.runs)]
    yield (
        "select host, count(*) from runs where error is null group by host order by host",
        sorted(planted.hosts.items()),
    )
    yield "select path from runs where error is not null", planted.bad
    yield "select slower, command from (from got) where slower > 1.4", planted.slower
    yield "select count(*) from breaks", [(times(lambda run: len(run.breaks)),)]
    yield "select count(*) from recompiles", [(times(lambda run: len(run.recompiles)),)]
    yield (
        "select count(*), sum(launches) from kernels",
        [
            (
                times(lambda run: len(run.kernels)),
                times(lambda run: sum(kernel.launches for kernel in run.kernels)),
            )
        ],
    )
    yield "select count(*) from findings", [(times(lambda run: len(run.findings)),)]
    yield (
        "select count(*) from graphs where launches > 0",
        [(times(lambda run: sum(bool(row.launches) for row in run.graphs.rows())),)],
    )
    yield (
        "select count(distinct command), count(distinct started) from runs where error is null",
        [(len({number // DAYS for number in range(planted.runs)}), len(planted.days))],
    )
    assert good == sum(planted.samples.values())


def check(index: Path, planted: Planted, samples: list[Path]) -> bool:
    right = True
    for sql, expected in questions(planted, samples):
        began = time.perf_counter()
        if "from got" in sql:
            answer = ask(index, "got-slower")
            rows = [(row[0], row[answer.columns.index("command")]) for row in answer.rows if row[0] > 1.4]
            sql = "got-slower"
        else:
            rows = list(ask(index, sql).rows)
        took = time.perf_counter() - began
        same = {row[-1] for row in rows} == expected if isinstance(expected, set) else rows == expected
        right &= same
        print(f"  {'right' if same else 'WRONG'}  {took * 1e3:6.0f} ms  {sql}")
        if not same:
            print(f"         {rows[:5]} instead of {list(expected)[:5]}")
    return right


def run(words: list[str], index: Path, until: float | None = None) -> tuple[float, float]:
    """(seconds, most MB of all that this script started); killed where so many sources are in the index."""
    began, most, seen = time.perf_counter(), 0.0, 0
    command = [sys.executable, "-m", "inspector", "index", *words, "-o", str(index)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    while process.poll() is None:
        time.sleep(0.2)
        most = max(most, sum(map(resident, psutil.Process().children(recursive=True))) / 1e6)
        parts = list(index.glob("part-*"))
        if until is not None and len(parts) != seen:
            seen = len(parts)
            if ask(index, "select count(*) from sources").rows[0][0] >= until:
                os.kill(process.pid, signal.SIGKILL)
    said = process.communicate()[1].strip().splitlines()
    print(f"  {'killed' if process.returncode == -signal.SIGKILL else said[-1]}", flush=True)
    return time.perf_counter() - began, most


def resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


@contextmanager
def readers(jobs: int, workers: int) -> Iterator[list[str]]:
    """What `inspector index` is told of those that read."""
    if not workers:
        yield ["--jobs", str(jobs)]
        return
    from distributed import LocalCluster

    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster:
        yield ["--dask", cluster.scheduler_address]


def read_in_two(words: list[str], index: Path, runs: int) -> None:
    """Killed at 40 %, and gone on with."""
    first, most = run(words, index, 0.4 * runs)
    kept = ask(index, "select count(*) from sources").rows[0][0]
    second, more = run(words, index)
    print(f"  {first:.0f} s until the kill, {kept:,} kept; {second:.0f} s for the others")
    print(f"  {max(most, more):.0f} MB in all its processes at most", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--dask", type=int, default=0, help="workers of a local cluster that reads in their place"
    )
    parser.add_argument("--into", type=Path, help="where runs and indexes lie, and stay")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="inspector-index-") as name:
        place = (options.into or Path(name)).resolve()
        samples = unpack(place / "samples")
        planted = plant(place / "runs", samples, options.runs)
        how = f"a local cluster of {options.dask} workers" if options.dask else f"{options.jobs} processes"
        print(f"{machine()}; {planted.runs:,} runs of {len(SAMPLES)} programs' kinds, {len(planted.bad)} bad")
        print(f"read by {how}, killed at 40 % and gone on with", flush=True)
        with readers(options.jobs, options.dask) as words:
            words, index = [str(place / "runs"), *words], place / "index"
            read_in_two(words, index, planted.runs)
            print("read again, nothing new")
            again, _ = run(words, index)
        size = sum(file.stat().st_size for file in index.rglob("*.parquet")) / 1e6
        print(f"  {again:.0f} s; the index has {size:.1f} MB")
        right = check(index, planted, samples)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
