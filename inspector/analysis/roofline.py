"""The roofline: the least time that a machine allows for bytes and operations, and how near a kernel came.

A kernel has to move its bytes and to do its operations; at the machine's peak rates the longer of the two
is the least time (Williams, Waterman, Patterson: Roofline, 2009). Of bytes, and of the operations of
generated loops, those count that the program asks for: what a kernel does in vain brings it no nearer. A
fraction over 1 happens and is told with its reason: a measured peak is a copy's or a product's, and not the
last word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from inspector.frozen import dataclass
from inspector.model.peaks import Peaks
from inspector.model.replay import KernelReplay

Bound = Literal["memory", "cache", "compute"]


@dataclass(frozen=True, slots=True)
class Roof:
    """Milliseconds. `bound` is what sets `least_ms`: main memory, a cache (the working set fits one that
    was measured), or arithmetic. `rate` is the peak behind it, bytes or operations a second."""

    least_ms: float
    bound: Bound
    rate: float


@dataclass(frozen=True, slots=True)
class Place:
    """A kernel against its roof. `above_ms` is what it takes beyond the least time, 0 where it is faster;
    `note` explains a `fraction` over 1, otherwise empty."""

    roof: Roof
    fraction: float
    above_ms: float
    note: str = ""


def roof(bytes_moved: int | None, flops: int | None, kind: str, peaks: Peaks) -> Roof | None:
    """The least time for `bytes_moved` and `flops` in arithmetic of `kind`; None where neither is known.

    Operations of a kind without a peak set no limit. On a CPU, bytes that fit a cache move at the rate
    that a copy of that size reached: calls are repeated, so the caches are warm.
    """
    roofs = []
    if bytes_moved:
        rate, bound = _memory_rate(bytes_moved, peaks)
        roofs.append(Roof(bytes_moved / rate * 1e3, bound, rate))
    if flops and kind in peaks.flops_per_s:
        rate = peaks.flops_per_s[kind]
        roofs.append(Roof(flops / rate * 1e3, "compute", rate))
    return max(roofs, key=lambda item: item.least_ms, default=None)


def _memory_rate(working_set: int, peaks: Peaks) -> tuple[float, Bound]:
    """Of the copies measured, the largest that is not larger than the working set; the smallest for less."""
    fitting = [rate for rate in peaks.cache_rates if rate.size <= working_set] or list(peaks.cache_rates[:1])
    if not fitting or (peaks.cache_bytes is not None and working_set > peaks.cache_bytes):
        return peaks.bytes_per_s, "memory"
    # A copy that fits the cache by less than it should is slowed by memory, and memory's is then the peak.
    rate = max(fitting[-1].bytes_per_s, peaks.bytes_per_s)
    return rate, "cache" if rate > peaks.bytes_per_s else "memory"


def place(kernel: KernelReplay, peaks: Peaks, tf32: bool = False) -> Place | None:
    """Where a kernel's measured time lies; None without a time, or where bytes and operations are unknown."""
    time = kernel.own_ms
    if time is None or time <= 0:
        return None
    limit = roof(kernel.useful_bytes, kernel.useful_flops, arithmetic(kernel, peaks, tf32), peaks)
    if limit is None:
        return None
    fraction = limit.least_ms / time
    note = _over(limit, kernel, peaks) if fraction > 1 else ""
    return Place(limit, fraction, max(0.0, time - limit.least_ms), note)


def _over(limit: Roof, kernel: KernelReplay, peaks: Peaks) -> str:
    if limit.bound == "compute":
        return "faster than the matrix product that was measured for the peak"
    if limit.bound == "memory" and peaks.cache_bytes and (kernel.useful_bytes or 0) <= peaks.cache_bytes:
        size = peaks.cache_bytes / (1 << 20)
        return f"what it touches fits the cache ({size:.0f} MiB), which is faster than memory"
    if limit.bound == "cache":
        return "what it touches fits a cache nearer than the one that the measured copy ran in"
    return "faster than the measured copy; bytes are an upper bound where not all of a buffer is touched"


_FLOATS = (
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "complex64",
    "complex128",
)


def arithmetic(kernel: KernelReplay, peaks: Peaks, tf32: bool = False) -> str:
    """The kind of arithmetic that a kernel's operations are counted in: its outputs' dtype.

    `tf32`: float32 matrix products run in TF32, as convolutions do wherever a GPU has it (cuDNN's default,
    torch.backends.cudnn.allow_tf32). A product of fp8 matrices has wider outputs, so its name decides
    (aten._scaled_mm). Generated loops compute halves in float32, without tensor cores
    (torch/_inductor/config.py: triton.codegen_upcast_to_fp32).
    """
    if kernel.flops_asked is not None:
        return "float64" if any(output.dtype.endswith("float64") for output in kernel.outputs) else "float32"
    if "scaled_mm" in kernel.name:
        return "float8_e4m3fn"
    dtypes = [output.dtype.removeprefix("torch.") for output in kernel.outputs]
    kind = next((dtype for dtype in dtypes if dtype in _FLOATS), dtypes[0] if dtypes else "float32")
    kind = {"complex64": "float32", "complex128": "float64", "int32": "int8"}.get(kind, kind)
    if kind == "float32" and "tf32" in peaks.flops_per_s and (tf32 or "convolution" in kernel.name):
        return "tf32"
    return kind


def with_fractions(
    kernels: Sequence[KernelReplay], peaks: Peaks, tf32: bool = False
) -> tuple[KernelReplay, ...]:
    """The same kernels with `roofline_fraction` filled where it can be told."""
    result = []
    for kernel in kernels:
        placed = place(kernel, peaks, tf32)
        result.append(replace(kernel, roofline_fraction=placed.fraction) if placed else kernel)
    return tuple(result)


@dataclass(frozen=True, slots=True)
class RankedKernel:
    """`share` is of the sum of all kernels' times, 0 to 1; `above_ms` None where there is no roof."""

    kernel: KernelReplay
    share: float | None
    above_ms: float | None


Order = Literal["time", "above", "order"]


def ranked(kernels: Iterable[KernelReplay], by: Order = "time") -> tuple[RankedKernel, ...]:
    """Where the time goes: the longest first, or what lies farthest above the roofline, or as launched.

    What has no time, or no roof, comes last.
    """
    kernels = list(kernels)
    total = sum(kernel.known_ms or 0.0 for kernel in kernels)
    rows = [
        RankedKernel(
            kernel,
            kernel.known_ms / total if kernel.known_ms is not None and total else None,
            above_ms(kernel),
        )
        for kernel in kernels
    ]
    if by == "order":
        return tuple(sorted(rows, key=lambda row: row.kernel.call))
    if by == "above":
        return tuple(sorted(rows, key=lambda row: (-(row.above_ms or -1.0), row.kernel.call)))
    return tuple(sorted(rows, key=lambda row: (-(row.share or -1.0), row.kernel.call)))


def above_ms(kernel: KernelReplay) -> float | None:
    """Milliseconds beyond the least time that the machine allows; None where either is unknown."""
    if kernel.own_ms is None or kernel.roofline_fraction is None:
        return None
    return max(0.0, kernel.own_ms * (1 - kernel.roofline_fraction))
