"""How many warps of a kernel a multiprocessor holds at once, and which resource it runs out of first.

Limits by compute capability: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
Registers are handed out to a warp in units of 256; of shared memory the system takes 1 KiB for each block.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from inspector.units import percent

Resource = Literal["registers", "shared memory", "warps", "blocks"]


class Multiprocessor(NamedTuple):
    """What one has: registers of 4 bytes, bytes of shared memory, and the most warps and blocks."""

    registers: int
    shared: int
    warps: int
    blocks: int = 32


_KIB = 1024
MULTIPROCESSORS = {
    "80": Multiprocessor(65536, 164 * _KIB, 64),
    "86": Multiprocessor(65536, 100 * _KIB, 48, 16),
    "89": Multiprocessor(65536, 100 * _KIB, 48, 24),
    "90": Multiprocessor(65536, 228 * _KIB, 64),
    "100": Multiprocessor(65536, 228 * _KIB, 64),
    "120": Multiprocessor(65536, 100 * _KIB, 48, 24),
}
"""By compute capability; those of which the guide says so."""
_WARP, _REGISTER_UNIT = 32, 256


class Occupancy(NamedTuple):
    """`warps` of at most `most` that are resident; `limits` is what there is no more of."""

    warps: int
    most: int
    limits: Resource

    @property
    def share(self) -> float:
        return self.warps / self.most

    @property
    def told(self) -> str:
        """`a multiprocessor holds 16 of 64 warps at a time (25 %); there are no more registers for ...`."""
        room = f"a multiprocessor holds {self.warps} of {self.most} warps at a time ({percent(self.share)})"
        return room if self.share == 1 else f"{room}; there are no more {self.limits} for another block"


def occupancy(own: Multiprocessor, warps: int, registers: int, shared: int) -> Occupancy | None:
    """Of blocks of `warps` warps whose threads have so many registers, and that take `shared` bytes each.
    None for blocks that do not fit at all."""
    if warps < 1:
        return None
    per_warp = -(-max(registers, 1) * _WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    # What has nothing to do with what the kernel asks for is named first where several run out together.
    blocks: dict[Resource, int] = {
        "warps": own.warps // warps,
        "blocks": own.blocks,
        "registers": own.registers // (per_warp * warps),
        "shared memory": own.shared // (shared + _KIB),
    }
    limits = min(blocks, key=lambda resource: blocks[resource])
    return Occupancy(blocks[limits] * warps, own.warps, limits) if blocks[limits] else None
