"""The memory that an interpreted kernel may touch: which bytes are its arguments', which it wrote.

The interpreter dereferences raw addresses. A kernel that reads or writes past its arguments' ends would
end the process, or worse, change something else in it; here it is an error that names the argument.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


class OutOfBounds(Exception):
    """A kernel touches memory that is none of its arguments'; the message names the nearest argument."""


@dataclass
class Region:
    """One argument's storage: [start, end) in bytes. `written` marks elements of `itemsize` bytes."""

    start: int
    end: int
    names: list[str]
    itemsize: int
    written: np.ndarray | None = None

    def mark(self, addresses: np.ndarray) -> None:
        if self.written is None:
            self.written = np.zeros(max(1, (self.end - self.start) // self.itemsize), dtype=bool)
        self.written[(addresses - np.uint64(self.start)) // np.uint64(self.itemsize)] = True


class Memory:
    """The storages of one launch's tensors."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        """`tensors`: the launch's tensor arguments by parameter name."""
        regions: dict[int, Region] = {}
        for name, tensor in tensors.items():
            storage = tensor.untyped_storage()
            start = storage.data_ptr()
            if start in regions:
                regions[start].names.append(name)
            elif storage.nbytes():
                end = start + storage.nbytes()
                regions[start] = Region(start, end, [name], tensor.element_size())
        self.regions = sorted(regions.values(), key=lambda region: region.start)

    def check(
        self, addresses: np.ndarray, mask: np.ndarray, size: int, verb: str
    ) -> list[tuple[Region, np.ndarray]]:
        """The active addresses by region. Raises OutOfBounds for one outside all of them.

        `addresses` are uint64, `mask` is of the same shape, `size` the bytes of one element.
        """
        active = addresses.ravel() if mask.all() else addresses[np.broadcast_to(mask, addresses.shape)]
        if not active.size:
            return []
        low, high = int(active.min()), int(active.max())
        for region in self.regions:
            if region.start <= low and high + size <= region.end:
                return [(region, active)]
        return self._split(active, size, verb)

    def _split(self, active: np.ndarray, size: int, verb: str) -> list[tuple[Region, np.ndarray]]:
        parts: list[tuple[Region, np.ndarray]] = []
        outside = np.ones(active.shape, dtype=bool)
        for region in self.regions:
            inside = (active >= np.uint64(region.start)) & (active <= np.uint64(region.end - size))
            if inside.any():
                parts.append((region, active[inside]))
                outside &= ~inside
        if outside.any():
            raise OutOfBounds(self._describe(int(active[outside][0]), int(outside.sum()), verb))
        return parts

    def _describe(self, address: int, count: int, verb: str) -> str:
        if not self.regions:
            return f"{verb} memory although no tensor was passed"

        def distance(region: Region) -> int:
            return region.start - address if address < region.start else address - region.end

        nearest = min(self.regions, key=distance)
        side = "before the start" if address < nearest.start else "past the end"
        away = distance(nearest)
        what = f"{away:,} bytes {side} of {nearest.names[0]}"
        if away > 1 << 30:
            what = "far outside its arguments"
        return f"{verb} {what} ({count:,} such element{'s' * (count > 1)} in one program)"

    def written(self, tensor: Tensor) -> Tensor | None:
        """A bool tensor of `tensor`'s shape: which elements were stored to; None if none were."""
        storage = tensor.untyped_storage()
        for region in self.regions:
            if region.start != storage.data_ptr():
                continue
            if region.written is None:
                return None
            marks = torch.from_numpy(region.written)
            if region.itemsize != tensor.element_size():
                return None
            return torch.as_strided(marks, tensor.shape, tensor.stride(), tensor.storage_offset())
        return None
