"""Commands timed in turns: without debug output and with what they compiled before, one run of each a round.

What a setting wins is often less than two runs of one command differ by; taken in turns, both sides meet the
same machine.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from inspector.capture.baseline import variant_environment
from inspector.capture.child import run_apart
from inspector.capture.command import resolve
from inspector.capture.environment import CaptureOptions
from inspector.capture.progress import Screen
from inspector.explain.times import steady_call_ms
from inspector.model.problem import InspectorError
from inspector.model.trial import ROUNDS, TIMED
from inspector.readers.variants import read_records

INTERRUPTED = "interrupted: the trial was given up, what it captured is kept in RUN/trials"


def time_in_turns(
    runs: Sequence[CaptureOptions],
    progress: Callable[[str], None] = lambda _: None,
    rounds: int | None = None,
) -> tuple[float | None, ...]:
    """Milliseconds of a steady call of each captured run, the median of `rounds` runs, else of ROUNDS; None
    where none ended well. Their caches, in OUT/cache, are used and kept. Raises InspectorError when it is
    interrupted."""
    rounds = rounds or ROUNDS
    measured: list[list[float]] = [[] for _ in runs]
    for number in range(1, rounds + 1):
        for index, options in enumerate(runs):
            progress(f"timing, round {number} of {rounds}: {index + 1} of {len(runs)}")
            ms = _once(options, number)
            if ms is not None:
                measured[index].append(ms)
    return tuple(statistics.median(times) if times else None for times in measured)


def _once(options: CaptureOptions, number: int) -> float | None:
    assert options.out is not None
    folder = options.out / TIMED / str(number)
    folder.mkdir(parents=True, exist_ok=True)
    environment = variant_environment(os.environ, folder, options.out / "cache", "compiled", options)
    command = resolve(options.command, environment.get("PATH"))
    screen = Screen(sys.stderr, live=False)
    result = run_apart(command.argv, environment, folder, screen, "timing", live=False)
    if result.interrupted:
        raise InspectorError(INTERRUPTED, exit_code=130)
    if result.exit_code:
        return None
    records = read_records(folder, str)
    return steady_call_ms([record.calls for record in records if record.calls is not None])


@contextmanager
def stdout_on_stderr() -> Iterator[None]:
    """What a program prints is not what the command prints: its output goes to standard error."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
