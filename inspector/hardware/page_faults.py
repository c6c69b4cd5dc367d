"""What it costs this machine to hand a page of memory to a process: fresh memory touched, and given back."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import threading
import time

from inspector.hardware.host import usable_cpus

_SIZES = (1 << 20, 1 << 22, 1 << 24, 1 << 26)
"""Bytes: pages that the system has just taken back come sooner than others, and what is larger than the
caches is written to memory twice, by the system that clears it and by the program."""
_REPEATS = 5


def fault_us() -> tuple[float, float] | None:
    """Microseconds of one page fault, the least and the most: of several sizes, touched by one thread, and by
    all, which share it. By the clock, as threads that wait for one another in the kernel use no CPU. About
    0.3 s; None where the system has no such memory."""
    threads = usable_cpus() or 1
    try:
        alone = [_cost(size, 1) for size in _SIZES]
        shared = [_cost(size, threads) for size in _SIZES]
    except (ImportError, AttributeError, OSError):
        return None
    least = min(*alone, *shared)
    return (least * 1e6, max(*alone, *shared) * 1e6) if least > 0 else None


def _cost(size: int, threads: int) -> float:
    """Seconds of one, of the fastest repetition, less what touching the same memory again takes."""
    import resource

    fresh = again = float("inf")
    faults = 1
    for _ in range(_REPEATS):
        before, started = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.perf_counter()
        with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            # A large page would be one fault for many of the small ones.
            with contextlib.suppress(AttributeError, OSError):
                memory.madvise(mmap.MADV_NOHUGEPAGE)
            first = _touch(memory, size, threads)
            second = _touch(memory, size, threads)
        took = time.perf_counter() - started - second
        if took < fresh:
            fresh, faults = took, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        again = min(again, first, second)
    return (fresh - again) / max(faults, size // mmap.PAGESIZE)


def _touch(memory: mmap.mmap, size: int, threads: int) -> float:
    """Seconds in which so many threads write all of it, each its part."""
    part = size // threads
    whole = (ctypes.c_char * size).from_buffer(memory)
    start = ctypes.addressof(whole)
    workers = [
        threading.Thread(target=ctypes.memset, args=(start + number * part, 1, part))
        for number in range(1, threads)
    ]
    started = time.perf_counter()
    for worker in workers:
        worker.start()
    ctypes.memset(start, 1, part)
    for worker in workers:
        worker.join()
    return time.perf_counter() - started
