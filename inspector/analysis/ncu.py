"""What Nsight Compute measured, joined to a run's kernels, and in words."""

from __future__ import annotations

import re
from collections.abc import Iterable

from inspector.model.code import KernelCall
from inspector.model.ncu import NcuKernel
from inspector.units import duration, percent, plural

from .lowering import LoweredKernel

_MOST_STALLS = 3
_REASONS = {
    "long scoreboard": "waiting for device memory",
    "short scoreboard": "waiting for shared memory or a special function",
    "lg throttle": "too many loads and stores at a time",
    "mio throttle": "too many accesses of shared memory at a time",
    "math pipe throttle": "arithmetic units taken",
    "barrier": "waiting for other warps",
    "wait": "a fixed number of clocks between two instructions",
    "no instruction": "the next instruction is not fetched yet",
    "imc miss": "constants that are not cached",
    "not selected": "another warp was chosen",
    "selected": "issuing",
}
"""Kernel Profiling Guide, "Warp Stall Reasons"."""
# xnumel, r0_numel -> XBLOCK, R0_BLOCK
_EXTENT = re.compile(r"([xyz])numel$")


def measured(
    kernels: Iterable[NcuKernel], item: LoweredKernel, call: KernelCall | None
) -> tuple[NcuKernel, ...]:
    """Those of a kernel, by its function's name; of a launch those with its number of blocks, where that is
    known."""
    own = [each for each in kernels if each.name == (item.kernel.function or item.kernel.name)]
    blocks = _blocks(item, call) if call is not None and own else None
    return tuple(each for each in own if blocks in (None, each.blocks))


def _blocks(item: LoweredKernel, call: KernelCall) -> int | None:
    """Of a launch: extents over block sizes, as far as both are plain numbers."""
    config = dict(item.recorded.config) if item.recorded is not None else {}
    if item.folder is not None:
        config = config or dict(item.folder.config)
    given = [each.name for each in item.kernel.parameters if each.type != "constexpr"]
    result = 1
    for name, text in zip(given, call.arguments, strict=False):
        if (match := _EXTENT.match(name)) is not None:
            block = config.get(f"{match[1].upper()}BLOCK", "")
            if not (text.isdigit() and block.isdigit() and int(block)):
                return None
            result *= -(-int(text) // int(block))
    return result if any(map(_EXTENT.match, given)) else None


def ncu_text(kernels: Iterable[NcuKernel]) -> str:
    """Of the launch that took longest: `2.11 us; DRAM at 0.4 % of its peak; warps wait: 62 % for memory`."""
    kernels = list(kernels)
    if not kernels:
        return ""
    worst = max(kernels, key=lambda each: each.ms or 0.0)
    parts = [duration(worst.ms)] if worst.ms is not None else []
    rates = (f"{what} at {percent(share / 100)}" for what, share in worst.throughput.items())
    if shown := ", ".join(rates):
        parts.append(f"{shown} of the peak")
    if worst.occupancy is not None:
        parts.append(f"{percent(worst.occupancy)} of the warps resident")
    stalls = sorted(worst.stalls.items(), key=lambda each: -each[1])[:_MOST_STALLS]
    if stalls:
        parts.append(
            "warps: " + ", ".join(f"{percent(part)} {_REASONS.get(why, why)}" for why, part in stalls)
        )
    if worst.conflicts:
        parts.append(plural(worst.conflicts, "bank conflict"))
    many = f" (the longest of {plural(len(kernels), 'launch')})" if len(kernels) > 1 else ""
    return f"{'; '.join(parts)}{many}"
