"""What the host pays around kernels, measured in the child that measures peaks: seconds of one of each, in
calls that follow one another with nothing else to do.

Standard library and torch only, as `inspector.hardware.measure`. What can't be had here (no compiler, no
Triton) is None, and estimated by who asks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch._dynamo.utils import counters

Clock = Callable[[Callable[[], object]], float]
"""Seconds of one call, the best of several blocks of them, by the host's clock."""

_LAUNCHES = 8
"""More of the larger graph than of the small one: what these take is their difference."""
_SIDE = 128
_SUBNORMAL = 1e-40
"""Of float32, as are its products with a half."""
_DIVIDED = 4 << 20
"""Elements: what they lie in fits into the cache of a large GPU."""
_DIVISIONS = 8
"""More of the longer chain than of the short one, as with launches."""
_FITS, _WIDE = 1 << 20, 1 << 40
"""Divisors: such numbers fit into 32 bits, with what is divided, or they don't."""
_COPIED = 16 << 20
"""Bytes of the copy that tells a rate: more than what is copied at once through a pinned buffer."""


def measure_costs(device: str, clock: Clock) -> dict[str, float | None]:
    """The object that `inspector.model.peaks.Costs` reads."""
    one = _seconds(partial(_compiled_s, 1, device, clock))
    if device != "cuda":
        return {
            "graph_s": _difference(one, _seconds(partial(_product_s, clock))),
            "subnormal_times": _seconds(partial(_subnormal_times, clock)),
        }
    several = _difference(_seconds(partial(_compiled_s, 1 + _LAUNCHES, device, clock)), one)
    launch = None if several is None else several / _LAUNCHES
    copy, large = (_seconds(partial(_copy_s, clock, size)) for size in (4, _COPIED))
    copying = _difference(large, copy)
    return {
        "graph_s": _difference(one, launch),
        "launch_s": launch,
        "cuda_graph_s": _seconds(partial(_compiled_s, 1, device, clock, "reduce-overhead")),
        "sync_s": _seconds(partial(_sync_s, clock)),
        "copy_s": copy,
        "copy_bytes_per_s": _COPIED / copying if copying else None,
        "division_s": _seconds(partial(_division_s, clock, _FITS)),
        "wide_division_s": _seconds(partial(_division_s, clock, _WIDE)),
    }


def _seconds(measure: Callable[[], float]) -> float | None:
    """None where torch can't do that here."""
    try:
        return measure()
    except Exception:  # noqa: BLE001 - whatever a backend raises, that cost is not known.
        return None


def _difference(more: float | None, less: float | None) -> float | None:
    return None if more is None or less is None else max(more - less, 0.0)


def _compiled_s(launches: int, device: str, clock: Clock, mode: str | None = None) -> float:
    """One call of a compiled function of so many kernels: a GPU is done with them before the next call. On a
    CPU the kernel is a library's, as compiling C++ takes a minute where it was never done before."""
    if device == "cuda":
        inputs = [torch.ones(8, device=device) for _ in range(launches)]
        # Nothing is shared, so that nothing fuses; all are one kernel's source.
        compiled = torch.compile(lambda *each: [item + 1 for item in each], mode=mode)
    else:
        inputs = [torch.ones(8, 8)] * 2
        compiled = torch.compile(torch.mm, mode=mode)
    with torch.no_grad():
        for _ in range(3):
            compiled(*inputs)
        if not counters["stats"]["unique_graphs"]:
            raise RuntimeError("torch.compile is switched off")
        return clock(lambda: compiled(*inputs))


def _product_s(clock: Clock) -> float:
    inputs = [torch.ones(8, 8)] * 2
    with torch.no_grad():
        return clock(lambda: torch.mm(*inputs))


def _subnormal_times(clock: Clock) -> float:
    """What a product of matrices takes of numbers below a float's usual form, over what others take.

    By one thread: several wait for the slowest of them, which on a busy machine is no measure of numbers.
    """
    others = torch.full((_SIDE, _SIDE), 0.5)
    small, made = torch.full_like(others, _SUBNORMAL), torch.empty_like(others)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            usual = clock(lambda: torch.mm(others, others, out=made))
            return clock(lambda: torch.mm(small, others, out=made)) / usual
    finally:
        torch.set_num_threads(threads)


def _division_s(clock: Clock, divisor: int) -> float:
    """One remainder of 64-bit integers by what no compiler knows, of a kernel with many for each element."""
    numbers = torch.arange(_DIVIDED, device="cuda") + 7 * divisor
    by = torch.full_like(numbers, divisor - 1)

    def chained(count: int) -> float:
        def divide(value: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
            for _ in range(count):
                # Each remainder is different, and the next number to be divided as large as the first.
                value = value % by + 5 * by
            return value

        compiled = torch.compile(divide)

        def run() -> None:
            compiled(numbers, by)
            torch.cuda.synchronize()

        run()
        return clock(run)

    with torch.no_grad():
        return max(chained(1 + _DIVISIONS) - chained(1), 0.0) / _DIVISIONS / _DIVIDED


def _sync_s(clock: Clock) -> float:
    """What reading a value takes beyond launching what makes it: draining the queue, and starting again."""
    value = torch.ones(1, device="cuda")
    launched = clock(lambda: value + 1)
    return max(clock(lambda: (value + 1).item()) - launched, 0.0)


def _copy_s(clock: Clock, size: int) -> float:
    """From pageable memory, as programs mostly have it."""
    source = torch.ones(size // 4)
    return clock(lambda: source.to("cuda"))
