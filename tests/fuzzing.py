"""Damages one file of a real run at a time and opens it with everything that looks at runs.

    python tests/fuzzing.py [--seed N] [--cases N] [--seconds S]      N cases from seed N on

A case is its seed: which run, which file, which damage, which command. Nothing but an `InspectorError` may
come of it, within SLOW_S. Runs in one process on copies in memory, some thousand cases a minute on one core.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import sys
import tarfile
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inspector.model.problem import InspectorError
from inspector.readers.run import Run

DATA = Path(__file__).parent / "data"
SAMPLES = Path(__file__).parents[1] / "sample_runs"
ARCHIVES = (
    DATA / "cpu-torch2.4.1.tar.xz", DATA / "cpu-torch2.6.0.tar.xz", DATA / "cpu-torch2.13.tar.xz",
    DATA / "cpu-torch2.15.0.tar.xz", DATA / "failed-runs.tar.xz", SAMPLES / "breaks" / "run.tar.xz",
    SAMPLES / "softmax" / "run.tar.xz", DATA / "profiled-runs.tar.xz",
)  # fmt: skip
SLOW_S = 2.0
MOST_RUN_BYTES = 1_000_000
"""Larger runs take too long for a case of each of their bytes to be met."""
MEMORY = 6 << 30

WORDS = [
    b"9" * 5000, b"-" + b"1" * 400, b"1e309", b"-1e400", b"Infinity", b"NaN", b"-1", b"0", b"1.5", b"null", b"true",
    b'""', b"[]", b"{}", b"[" * 100_000, b"(" * 3000, b"(" * 200, b'{"a":' * 50_000, b"[[[[[[[[[[", b"\0", b"\xff\xfe",
    b"x" * 5000, b"\n" * 3000, b" " * 100_000, b"\r", b"\xe2\x80\xae", b"\x1b]0;t\x07", b"'" * 999, b'"', b"\\", b"#" * 9999,
    b"s0", b"buf0", b"18446744073709551616", b"-9223372036854775809", b"00000000000000000001", b"1_0", b"\xc2\xb2",
    b"\xd9\xa3", b"../../etc/passwd", b"/dev/zero", b"a,b;c:d|e", b"lambda: 0", b"**" * 999, b"{0}{x!r:>{y}}", b"%s%d%n",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, "", "x", "9" * 4999, -1, 0, 1.5, 1e308, float("inf"), float("nan"), 10**25, [], {}, [[]], [None],
    {"a": 1}, "\0", "\x1b[2J", "x" * 5000, ["x"] * 3000, [1, "a"], {"line": "x"}, [[[[]]]], "1e309", -(10**400),
]  # fmt: skip


# -- what is looked at


def _lines(lines: Any) -> None:
    for line in lines:
        _ = line.text


def _json(data: Any) -> None:
    from inspector.cli.terminal import _finite

    json.dumps(_finite(data), ensure_ascii=False, allow_nan=False)


def see_summary(run: Run) -> None:
    from inspector.contract.summary import to_json
    from inspector.gather import summary_of
    from inspector.present.summary import lines

    result = summary_of(run)
    _lines(lines(result, 100))
    _json(to_json(result))


def see_fusions(run: Run) -> None:
    from inspector.contract.fusions import to_json
    from inspector.gather import fusion_of
    from inspector.present.drawing import to_dot, to_svg
    from inspector.present.fusion import lines

    reports = [fusion_of(item) for item in run.graphs if item.files]
    _lines(lines(reports, 100, True))
    _json(to_json(reports, True))
    for report in reports[:1]:
        to_dot(report), to_svg(report)


def see_explain(run: Run) -> None:
    from inspector.contract.explain import to_json
    from inspector.explain import explain
    from inspector.explain.profiles import load_profiles
    from inspector.hardware.host import this_host
    from inspector.present.explain import lines
    from inspector.replay.store import load_results

    explanation = explain(run, load_results(run.root), this_host(), load_profiles(run, None, None))
    _lines(lines(explanation, 100, True))
    _json(to_json(explanation))


def see_trace(run: Run) -> None:
    from inspector.contract.trace import to_json
    from inspector.gather import trace_report
    from inspector.present.trace import kinds_lines, lines
    from inspector.present.trace_detail import detail_lines, stages_lines

    report = trace_report(run, None)
    _lines(lines(report, 100))
    _json(to_json(report, None))
    for process in report.traces:
        _lines(kinds_lines(process.content.kinds, 100))
        for item in process.content.compilations[:5]:
            _lines(detail_lines(process, item, 100))
    with suppress(InspectorError):
        _lines(stages_lines(report.stages("dynamo_output_graph", None)))


def see_ir(run: Run) -> None:
    from inspector.present.ir_diff import lines

    for item in run.graphs:
        if item.files:
            _lines(lines(item.artifacts(), 100))


def see_plan(run: Run) -> None:
    from inspector.replay.plan import graph_files
    from inspector.replay.trust import foreign

    foreign(run)
    for item in run.graphs:
        if item.folder is not None and item.files:
            graph_files(item)


VIEWS: tuple[Callable[[Run], None], ...] = (
    see_summary,
    see_fusions,
    see_explain,
    see_trace,
    see_ir,
    see_plan,
)


# -- damage


def _spliced(data: bytes, rng: random.Random, other: bytes) -> bytes:
    a, b = rng.randrange(len(data) + 1), rng.randrange(len(other) + 1)
    return data[:a] + other[b : b + rng.choice([10, 300, 1 << 20])] + data[a + rng.choice([0, 50, 1 << 20]) :]


def _in_json(value: Any, rng: random.Random) -> Any:
    """With one value somewhere inside replaced, doubled or gone."""
    if isinstance(value, dict | list) and value and rng.random() < 0.85:
        keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = rng.choice(keys)
        copy: Any = value.copy()
        if rng.random() < 0.1:
            del copy[key]
        else:
            copy[key] = _in_json(value[key], rng)
        return copy
    return rng.choice([*VALUES, [value] * 50, {"a": value}])


def damaged(data: bytes, rng: random.Random, other: bytes) -> bytes:
    """Another content of a file; `other` is that of another run's file of the name."""
    kind = rng.randrange(12)
    at = rng.randrange(len(data) + 1)
    lines = data.split(b"\n")
    line = rng.randrange(len(lines))
    if kind == 0:
        return data[:at]
    if kind == 1:
        flipped = bytearray(data)
        for _ in range(rng.choice([1, 5, 100])):
            if flipped:
                flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
        return bytes(flipped)
    if kind == 2:
        return data[:at] + rng.choice(WORDS) + data[at:]
    if kind == 3:
        return _spliced(data, rng, other)
    if kind == 4:
        lines[line:line] = [lines[rng.randrange(len(lines))] for _ in range(rng.choice([1, 20, 1000]))]
        return b"\n".join(lines)
    if kind == 5:
        del lines[line : line + rng.choice([1, 3, 30])]
        return b"\n".join(lines)
    if kind == 6:
        other_line = rng.randrange(len(lines))
        lines[line], lines[other_line] = lines[other_line], lines[line]
        return b"\n".join(lines)
    if kind == 7:
        return data[:at] + data[at : at + rng.choice([1, 10, 1000])] * rng.choice([2, 50]) + data[at:]
    # A word of the line, a number most of the time, replaced.
    tokens = lines[line].replace(b",", b" , ").split(b" ") if kind == 8 else None
    if tokens:
        tokens[rng.randrange(len(tokens))] = rng.choice(WORDS)
        lines[line] = b" ".join(tokens)
        return b"\n".join(lines)
    for start in (0, max(lines[line].find(b"{"), 0)):
        with suppress(ValueError, RecursionError):
            whole = lines[line][start:] if start or kind == 9 else data
            changed = json.dumps(_in_json(json.loads(whole), rng)).encode()
            if whole is data:
                return changed
            lines[line] = lines[line][:start] + changed
            return b"\n".join(lines)
    import re

    numbers = list(re.finditer(rb"\d+", data))
    if numbers:
        number = rng.choice(numbers)
        return data[: number.start()] + rng.choice(WORDS) + data[number.end() :]
    return data + rng.choice(WORDS)


@contextmanager
def in_place_of(path: Path, rng: random.Random, other: bytes) -> Iterator[str]:
    """The file damaged, or something else in its place; as it was afterwards."""
    data = path.read_bytes()
    kind = rng.random()
    path.unlink()
    try:
        if kind < 0.94:
            path.write_bytes(damaged(data, rng, other))
        elif kind < 0.95:
            path.mkdir()
        elif kind < 0.96:
            os.mkfifo(path)
        elif kind < 0.97:
            path.symlink_to(rng.choice(["/dev/zero", "/nowhere", path.name, "/proc/self/mem", "/"]))
        elif kind < 0.98:
            path.write_bytes(data)
            os.truncate(path, 5 << 30)
        else:
            path.write_bytes(
                rng.choice([b"", b"\n", b"\0" * 4096, rng.randbytes(4096), b"\xef\xbb\xbf" + data])
            )
        yield path.name
    finally:
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
        path.write_bytes(data)


@dataclass(frozen=True)
class Failure:
    """`where` is the innermost line of the project's own, by function."""

    seed: int
    where: str
    detail: str
    seconds: float


class Fuzzer:
    """Runs unpacked into `folder`; a case by its seed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for number, archive in enumerate(ARCHIVES):
            with tarfile.open(archive) as tar:
                tar.extractall(folder / str(number), filter="data")
        manifests = sorted(path.parent for path in folder.rglob("torch_compile_debug"))
        self.runs = [run for run in manifests if _size(run) < MOST_RUN_BYTES]
        self.files = {
            run: sorted(p for p in run.rglob("*") if p.is_file() and "cache" not in p.relative_to(run).parts)
            for run in self.runs
        }

    def case(self, seed: int) -> Failure | None:
        rng = random.Random(seed)
        run = rng.choice(self.runs)
        # Large files no more often than small ones, and each kind as often as the others.
        kinds = sorted({(path.name if path.suffix != ".log" else ".log") for path in self.files[run]})
        kind = rng.choice(kinds)
        path = rng.choice([path for path in self.files[run] if kind in (path.name, path.suffix)])
        namesakes = [
            p for each in self.runs if each is not run for p in self.files[each] if p.name == path.name
        ]
        other = rng.choice(namesakes).read_bytes() if namesakes else b""
        view = rng.choice(VIEWS)
        # Of this process alone: other programs' work is no slowness of ours.
        started = time.process_time()
        where = detail = ""
        with in_place_of(path, rng, other):
            try:
                view(Run.open(run))
            except InspectorError:
                pass
            except Exception as error:
                where, detail = _place(error), f"{type(error).__name__}: {str(error)[:150]}"
            seconds = time.process_time() - started
        if not where and seconds > SLOW_S:
            where, detail = f"slow {view.__name__}", f"{seconds:.1f} s"
        shown = f"{view.__name__} {path.relative_to(self.folder)}: {detail}"
        return Failure(seed, where, shown, seconds) if where else None


def _size(run: Path) -> int:
    return sum(p.stat().st_size for p in run.rglob("*") if p.is_file() and "cache" not in p.parts)


def _place(error: Exception) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/inspector/" in f.filename]
    ours = frames[-1] if frames else traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {ours.filename.rpartition('/inspector/')[2]}:{ours.name}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir=memory))
    classes: Counter[str] = Counter()
    slowest, done, started = 0.0, 0, time.monotonic()
    try:
        fuzzer = Fuzzer(folder)
        for seed in range(given.seed, given.seed + given.cases):
            before = time.process_time()
            failure = fuzzer.case(seed)
            slowest = max(slowest, time.process_time() - before)
            done += 1
            if failure is not None:
                classes[failure.where] += 1
                if classes[failure.where] <= 2:
                    print(f"seed {failure.seed}: {failure.where}: {failure.detail}", flush=True)
            if time.monotonic() - started > given.seconds:
                break
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    seconds = time.monotonic() - started
    print(f"{done} cases from seed {given.seed} in {seconds:.0f} s: {sum(classes.values())} failures in "
          f"{len(classes)} classes; the slowest case took {slowest:.1f} s")  # fmt: skip
    for where, count in classes.most_common():
        print(f"{count:>6}  {where}")
    return 1 if classes else 0


if __name__ == "__main__":
    sys.exit(main())
