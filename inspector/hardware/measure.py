"""The child that measures what a device can do: a copy for bytes, a matrix product per dtype for operations.

Its arguments are ``cpu`` or ``cuda``, and the descriptor to which it writes `Peaks` as plain JSON data; it
takes less than 30 s. Rates are those of the fastest repetition, because a peak that a busy neighbour held
down would flatter every kernel. Standard library and torch only: it runs in the environment that replays.
"""

from __future__ import annotations

import glob
import json
import os
import sys
import time
from collections.abc import Callable

import torch

from inspector.hardware.costs import measure_costs
from inspector.hardware.load import Neighbours

Clock = Callable[[Callable[[], object], int], float]
"""Seconds of one call, from so many calls in a row."""

_CPU_COPY_BYTES, _GPU_COPY_BYTES = 64 << 20, 1 << 30
"""One side of the copy that stands for memory; on a CPU at least twice what its last cache holds."""

_WORKING_SETS = tuple(1 << power for power in range(15, 30, 2))
"""Bytes of both sides of the copies that stand for caches, as far as the last cache reaches."""

_LONGEST_SIDE = {"cpu": 1024, "cuda": 8192}
_DTYPES = ("float32", "float64", "bfloat16", "float16", "int8", "float8_e4m3fn")
_BUDGET_S = 0.2
"""Seconds for each copy and for each matrix product; five times that for the copy that stands for memory."""
_PRODUCT_S = 0.05
"""Longest product that is tried: some dtypes have no fast one on a CPU."""


def main(device: str, descriptor: int) -> None:
    measured = measure(device)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(measured, file)


def measure(device: str) -> dict[str, object]:
    """The object that `inspector.model.peaks.Peaks.from_json` reads."""
    neighbours = Neighbours()
    clock = _gpu_seconds if device == "cuda" else _cpu_seconds
    gpu = torch.cuda.get_device_properties(0) if device == "cuda" else None
    cache = last_level_cache() if gpu is None else int(getattr(gpu, "L2_cache_size", 0))
    side = max(_CPU_COPY_BYTES, 2 * cache) if gpu is None else _GPU_COPY_BYTES
    copy = _copy(side, device)
    memory = 2 * side / min(_best(copy, clock, 5 * _BUDGET_S), _fastest(copy, clock))
    flops = {dtype: rate for dtype in _DTYPES if (rate := _product_rate(dtype, device, clock))}
    if device == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False):
        # The same generations that have bfloat16 units have those for TF32.
        torch.backends.cuda.matmul.allow_tf32 = True
        rate = _product_rate("float32", device, clock)
        if rate:
            flops["tf32"] = rate
    return {
        "device": torch.cuda.get_device_name(0) if device == "cuda" else "cpu",
        "source": "measured",
        "bytes_per_s": memory,
        "flops_per_s": flops,
        "cache_bytes": cache or None,
        "cache_rates": _cache_rates(cache, clock) if device == "cpu" else [],
        "reference": time.strftime("measured %Y-%m-%d"),
        "torch": torch.__version__,
        "threads": torch.get_num_threads() if device == "cpu" else None,
        "busy_cpus": (neighbours.cpus() or 0.0) if device == "cpu" else 0.0,
        "costs": measure_costs(device, lambda action: _best(action, _host_seconds, _BUDGET_S / 2)),
    }


def _copy(size: int, device: str) -> Callable[[], object]:
    source = torch.ones(max(1, size // 4), dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def _cache_rates(cache: int, clock: Clock) -> list[tuple[int, float]]:
    """Rates of copies whose two sides fit the last cache.

    A call's own cost is taken off, as it is not the memory's. What a larger set reached, a smaller one
    can: rates never rise with size.
    """
    overhead = _best(_copy(4, "cpu"), clock)
    rates: list[tuple[int, float]] = []
    for working_set in _WORKING_SETS:
        if working_set > cache:
            break
        seconds = _fastest(_copy(working_set // 2, "cpu"), clock)
        rates.append((working_set, working_set / max(seconds - overhead, seconds / 4)))
    best = 0.0
    for index in reversed(range(len(rates))):
        best = max(best, rates[index][1])
        rates[index] = (rates[index][0], best)
    return rates


def _product_rate(dtype: str, device: str, clock: Clock) -> float | None:
    """Operations a second of a square product; None where torch has none for the dtype here."""
    side, rate = 256, None
    while side <= _LONGEST_SIDE[device]:
        try:
            seconds = _fastest(_product(dtype, side, device), clock)
        except (RuntimeError, TypeError, AttributeError):
            # torch knows no such dtype, or no product of it here.
            return rate
        rate = max(rate or 0.0, 2 * side**3 / seconds)
        if seconds * 8 > _PRODUCT_S:
            return rate
        side *= 2
    return rate


def _product(dtype: str, side: int, device: str) -> Callable[[], object]:
    kind = getattr(torch, dtype)
    if dtype == "int8":
        left, right = (torch.ones(side, side, dtype=kind, device=device) for _ in range(2))
        return lambda: torch._int_mm(left, right)
    left, right = (torch.randn(side, side, device=device).to(kind) for _ in range(2))
    if dtype.startswith("float8"):
        scale = torch.ones((), device=device)
        return lambda: torch._scaled_mm(left, right.t(), scale, scale, out_dtype=torch.bfloat16)
    return lambda: torch.mm(left, right)


def _fastest(action: Callable[[], object], clock: Clock) -> float:
    """Seconds of one call on a CPU, by one thread or by all, whichever is faster: small work is not worth
    sharing, and shared work waits for the slowest where other programs want the CPUs too."""
    threads = torch.get_num_threads()
    seconds = float("inf")
    try:
        for count in sorted({1, threads}):
            torch.set_num_threads(count)
            seconds = min(seconds, _best(action, clock, _BUDGET_S / 2))
    finally:
        torch.set_num_threads(threads)
    return seconds


def _best(action: Callable[[], object], clock: Clock, budget_s: float = _BUDGET_S) -> float:
    """Seconds of one call in the fastest of several blocks, each of at least a millisecond."""
    action()
    repeats = max(1, min(10_000, round(1e-3 / max(clock(action, 1), 1e-7))))
    best, end = float("inf"), time.perf_counter() + budget_s
    blocks = 0
    while blocks < 3 or time.perf_counter() < end:
        best = min(best, clock(action, repeats))
        blocks += 1
    return best


def _cpu_seconds(action: Callable[[], object], repeats: int) -> float:
    started = time.perf_counter()
    for _ in range(repeats):
        action()
    return (time.perf_counter() - started) / repeats


def _host_seconds(action: Callable[[], object], repeats: int) -> float:
    """By the host's clock; a GPU has nothing to do when it begins."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return _cpu_seconds(action, repeats)


def _gpu_seconds(action: Callable[[], object], repeats: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(repeats):
        action()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) * 1e-3 / repeats


def last_level_cache() -> int:
    """Bytes of the last level of cache, all instances that this process's CPUs have; 0 where unknown."""
    levels: dict[int, dict[str, int]] = {}
    for cpu in os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ():
        for folder in glob.glob(f"/sys/devices/system/cpu/cpu{cpu}/cache/index*"):
            try:
                level = int(_read(f"{folder}/level"))
                kind, size = _read(f"{folder}/type"), _read(f"{folder}/size")
                shared = _read(f"{folder}/shared_cpu_list")
            except (OSError, ValueError):
                continue
            if kind != "Instruction" and size.endswith("K"):
                levels.setdefault(level, {})[shared] = int(size[:-1]) << 10
    return sum(levels[max(levels)].values()) if levels else 0


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read().strip()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
