"""What Nsight Compute measured of kernels: time, throughput, stalls, and samples by instruction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from inspector.frozen import dataclass


@dataclass(frozen=True, slots=True)
class NcuKernel:
    """One profiled launch. `grid` is its blocks in x, y and z. `throughput`: percent of what the device
    sustains at most, by what (``DRAM``, ``multiprocessors``). `stalls`: by reason the part of the time
    between two instructions of a warp that it waits for that, 0 to 1. `samples`: (address
    in the kernel, warps that stood at that instruction)."""

    name: str
    grid: tuple[int, ...]
    ms: float | None = None
    registers: int | None = None
    occupancy: float | None = None
    """Warps that were resident over the most, 0 to 1."""
    throughput: Mapping[str, float] = field(default_factory=dict)
    stalls: Mapping[str, float] = field(default_factory=dict)
    conflicts: int | None = None
    """Of shared memory's banks."""
    samples: tuple[tuple[int, int], ...] = ()
    source: str = ""
    """The file that it is from."""

    @property
    def blocks(self) -> int:
        result = 1
        for extent in self.grid:
            result *= extent
        return result
