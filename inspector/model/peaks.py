"""What a machine can do at most, bytes and floating-point operations a second, and what its host pays around
kernels; and where that is from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, field
from typing import Literal, NamedTuple

from inspector.frozen import dataclass

from .codec import Malformed, from_data, to_data


class CacheRate(NamedTuple):
    """Bytes a second while the memory that is touched, `size` bytes in all, stays in a cache."""

    size: int
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of the host for one of each, None where it was not measured.

    `graph_s`: guards, AOTAutograd's wrapper and the generated one of a compiled graph, less its kernels'
    launches. `launch_s`: one launch from the wrapper, with its result's allocation. `cuda_graph_s`: a call of
    a graph with mode="reduce-overhead". `sync_s`: reading a value that a kernel makes. `copy_s`: a copy of a
    few bytes from pageable memory; more of them move at `copy_bytes_per_s` beside. `subnormal_times` is no
    time: how much longer a CPU multiplies matrices of subnormal numbers than of others, as a factor.
    `division_s` is a GPU's: its time for one of many divisions of 64-bit integers, both of which fit into 32
    bits, and `wide_division_s` where they don't.
    """

    graph_s: float | None = None
    launch_s: float | None = None
    cuda_graph_s: float | None = None
    sync_s: float | None = None
    copy_s: float | None = None
    copy_bytes_per_s: float | None = None
    subnormal_times: float | None = None
    division_s: float | None = None
    wide_division_s: float | None = None


@dataclass(frozen=True, slots=True)
class Peaks:
    """The roofs of one device.

    `bytes_per_s` is main (device) memory's, reads and writes together. `flops_per_s` is by kind of
    arithmetic: a torch dtype's name (``float32``, ``bfloat16``, ``float8_e4m3fn``), or ``tf32``; dense
    matrix products. `source` tells `measured` on the device (a copy and a matrix product reach that) from
    `datasheet` (nothing does); `reference` is the day of the measurement or the datasheet's name.
    `cache_rates`: smaller working sets first, rates never rising with size; empty where only the size of
    the cache is known. `threads`: CPU threads used, None for a GPU.
    """

    device: str
    source: Literal["measured", "datasheet"]
    bytes_per_s: float
    flops_per_s: Mapping[str, float] = field(default_factory=dict)
    cache_bytes: int | None = None
    cache_rates: tuple[CacheRate, ...] = ()
    reference: str = ""
    torch: str = ""
    threads: int | None = None
    busy_cpus: float = 0.0
    """CPUs that other programs kept busy meanwhile: the peaks are then too low."""
    costs: Costs | None = None
    """None where nobody tried to measure them."""

    def to_json(self) -> dict[str, object]:
        """Plain JSON data, the value of ``machine.peaks.DEVICE`` in a replay's result."""
        return to_data(self)

    @classmethod
    def from_json(cls, data: object) -> Peaks | None:
        """The inverse of `to_json`; None where `data` is not that, or has a rate that cannot be."""
        try:
            peaks = from_data(cls, data, ignore_unknown=True)
        except Malformed:
            return None
        rates = (peaks.bytes_per_s, *peaks.flops_per_s.values(), *(r.bytes_per_s for r in peaks.cache_rates))
        costs = [cost for cost in astuple(peaks.costs) if cost is not None] if peaks.costs is not None else []
        known = all(0 < rate < float("inf") for rate in rates)
        return peaks if known and all(0 <= cost < float("inf") for cost in costs) else None
