"""Shared by the benchmark scripts: the captured runs of tests/data, unpacked, and pairs of commands timed."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
CLI = (PYTHON, "-m", "inspector.cli")
DATA = ROOT / "tests" / "data"


@contextmanager
def corpus() -> Iterator[Path]:
    """A temporary folder with one sub-folder for each archive of tests/data."""
    with TemporaryDirectory(prefix="inspector-bench-") as folder:
        for archive in sorted(DATA.glob("*-torch*.tar.xz")):
            with tarfile.open(archive) as tar:
                tar.extractall(folder)
        yield Path(folder)


def seconds(command: list[str], **environment: str) -> float:
    """Wall time of one run of `command`, its output thrown away; raises where it fails."""
    start = time.perf_counter()
    subprocess.run(
        command,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )
    return time.perf_counter() - start


def pairs(first: list[str], second: list[str], rounds: int) -> tuple[list[float], list[float]]:
    """Both commands in turn, A B A B, after one uncounted run of each, so that drift hits both."""
    seconds(first)
    seconds(second)
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        times[0].append(seconds(first))
        times[1].append(seconds(second))
    return times


def describe(times: list[float]) -> str:
    """`0.412 s (0.398 to 0.455)`: median, minimum and maximum."""
    return f"{statistics.median(times):.3f} s ({min(times):.3f} to {max(times):.3f})"


def ratio(first: list[float], second: list[float]) -> str:
    """Median of the pairwise ratios, with the least and the largest."""
    ratios = [a / b for a, b in zip(first, second, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def installed(name: str) -> str | None:
    """The package's version, None where it is not there."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def machine() -> str:
    versions = ", ".join(
        f"{name} {there}" for name in ("textual", "torch", "tlparse") if (there := installed(name))
    )
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores, Python {platform.python_version()} on {platform.system()}, {versions}"
