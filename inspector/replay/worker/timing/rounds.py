"""Timing: eager and compiled in turns, so that a drifting clock or a busy neighbour hits both.

CPU: the host's clock over blocks of calls. GPU: *device* time by events around single calls, after a
write that clears the L2 cache and lets the host run ahead (as triton.testing.do_bench does), and
*wall* time per call over blocks of calls with one synchronisation at the end.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from inspector.model.replay import Timing

Report = Callable[[str, list[float]], None]
"""Called with a timing's name and its rounds so far, in milliseconds."""

_MIN_ROUNDS = 5

_CALLS_PER_ROUND = 10
"""Device-timed calls in one round on a GPU; the round counts as their median."""

FLUSH_BYTES = 256 << 20
"""More than the L2 cache of any GPU at hand (H200: 50 MB)."""


@dataclass
class Candidate:
    """What is timed: `call` runs it once; `restore` puts changed inputs back, outside the clock. `renew` puts
    back what each call counts up, as the place in a cache that it fills: from call to call, or later calls
    would write beyond its end. What that takes is taken off."""

    name: str
    call: Callable[[], object]
    restore: Callable[[], None]
    renew: Callable[[], None] | None = None
    rounds: list[float] = field(default_factory=list)
    wall_rounds: list[float] = field(default_factory=list)


def timing_of(samples: list[float]) -> Timing:
    """Median and inter-quartile range; the range of a single sample is 0."""
    low, high = 0.0, 0.0
    if len(samples) > 1:
        low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Timing(statistics.median(samples), high - low, len(samples))


def rounds_that_fit(wanted: int, round_s: float, budget_s: float) -> int:
    """`wanted`, or as many rounds of `round_s` seconds as the budget allows, but 5 at least."""
    if round_s <= 0:
        return wanted
    return min(wanted, max(_MIN_ROUNDS, int(budget_s / round_s)))


def measure(
    candidates: list[Candidate],
    device: str,
    *,
    rounds: int,
    warmup: int,
    min_block_ms: float,
    budget_s: float,
    report: Report,
) -> int:
    """Times the candidates and reports after every round from the third on; returns the rounds made."""
    cuda = device.startswith("cuda")
    for candidate in candidates:
        for _ in range(max(1, warmup)):
            candidate.restore()
            candidate.call()
        synchronise(device)
    repeats = [_repeats(candidate, min_block_ms, device) for candidate in candidates]
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device=device) if cuda else None
    done, total = 0, rounds
    collecting = gc.isenabled()
    gc.disable()
    try:
        while done < total:
            started = time.perf_counter()
            # Whoever goes second finds the caches as the first left them.
            order = list(zip(candidates, repeats, strict=True))
            for candidate, count in order if done % 2 == 0 else order[::-1]:
                if flush is not None:
                    candidate.restore()
                    before = _both(candidate.renew, flush.zero_)
                    times = event_times(candidate.call, _CALLS_PER_ROUND, before)
                    candidate.rounds.append(statistics.median(times))
                    candidate.wall_rounds.append(_block_ms(candidate, count, device))
                else:
                    candidate.rounds.append(_block_ms(candidate, count, device))
            done += 1
            if done == 1:
                total = rounds_that_fit(rounds, time.perf_counter() - started, budget_s)
            if done >= min(3, total):
                for candidate in candidates:
                    report(candidate.name, candidate.rounds)
                    if candidate.wall_rounds:
                        report(f"{candidate.name}_wall", candidate.wall_rounds)
    finally:
        if collecting:
            gc.enable()
    return done


def synchronise(device: str) -> None:
    """Waits for what a GPU has been given to do."""
    if device != "cpu":
        torch.cuda.synchronize()


def _repeats(candidate: Candidate, min_block_ms: float, device: str) -> int:
    """Calls that fill a block."""
    once_ms = min(_block_ms(candidate, 1, device) for _ in range(3))
    return max(1, min(10_000, math.ceil(min_block_ms / max(once_ms, 1e-4))))


def _block_ms(candidate: Candidate, count: int, device: str) -> float:
    candidate.restore()
    renew = candidate.renew
    if renew is None:
        return _each_ms(candidate.call, count, device)
    whole = _each_ms(_both(renew, candidate.call), count, device)
    return max(whole - _each_ms(renew, count, device), 0.0)


def _each_ms(action: Callable[[], object], count: int, device: str) -> float:
    synchronise(device)
    started = time.perf_counter()
    for _ in range(count):
        action()
    synchronise(device)
    return (time.perf_counter() - started) * 1e3 / count


def _both(first: Callable[[], object] | None, second: Callable[[], object]) -> Callable[[], object]:
    if first is None:
        return second

    def both() -> None:
        first()
        second()

    return both


def event_times(
    action: Callable[[], object], count: int, before: Callable[[], object] | None = None
) -> list[float]:
    """Device milliseconds of each of `count` calls, one behind the other; `before` runs ahead of each."""
    pairs = []
    for _ in range(count):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if before is not None:
            before()
        start.record()
        action()
        end.record()
        pairs.append((start, end))
    torch.cuda.synchronize()
    return [float(start.elapsed_time(end)) for start, end in pairs]
