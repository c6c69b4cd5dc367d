"""The ledger between both walls: from eager's time for one call to compiled code's, difference by difference.

A side's wall is its work (the blocks and the transfers, less what ran at once) and the rest, in which the
device idled or, on a CPU, no operator ran. The profile names what the host did in that rest, but a profiled
host is slower than one that is not: where the names take more than there is, only their sum is known.
Nothing is scaled; what is left over, on either side of zero, is unexplained.
"""

from __future__ import annotations

from collections.abc import Sequence

from inspector.model.two_sides import Block, Difference, Joined, SideTotals, TwoSidedLedger

from .side_totals import GAPS

HOST = "the host: operators, wrappers, Python"
TRANSFERS = "copies between host and device"
OVERLAP = "less what ran at once on several streams"


def two_sided_ledger(
    joined: Joined, eager_wall_ms: float | None = None, compiled_wall_ms: float | None = None
) -> TwoSidedLedger | None:
    """The walls are those of calls that no profiler slowed; without both, the profiled calls' own are used.
    None where a side was not profiled."""
    eager, compiled = joined.eager, joined.compiled
    if eager is None or compiled is None:
        return None
    timed = eager_wall_ms is not None and compiled_wall_ms is not None
    walls = (eager_wall_ms or 0.0, compiled_wall_ms or 0.0) if timed else (eager.wall_ms, compiled.wall_ms)
    inside_only = timed or (eager.marked and compiled.marked)
    differences = [
        Difference("", block.eager_ms or 0.0, block.compiled_ms or 0.0, number)
        for number, block in enumerate(joined.blocks)
        if block.inside or not inside_only
    ]
    differences.append(Difference(TRANSFERS, eager.transfers_ms, compiled.transfers_ms))
    differences.append(Difference(OVERLAP, -eager.overlap_ms, -compiled.overlap_ms))
    rest = [
        wall - sum(getattr(difference, side) for difference in differences)
        for wall, side in zip(walls, ("eager_ms", "compiled_ms"), strict=True)
    ]
    hosts, left = _host((eager, compiled), rest)
    differences += hosts
    return TwoSidedLedger(
        eager_ms=walls[0],
        compiled_ms=walls[1],
        source="calls" if timed else "profile",
        differences=tuple(
            sorted((d for d in differences if d.eager_ms or d.compiled_ms), key=lambda d: -abs(d.ms))
        ),
        unexplained_eager_ms=left[0],
        unexplained_compiled_ms=left[1],
    )


def _host(sides: Sequence[SideTotals], rest: Sequence[float]) -> tuple[list[Difference], list[float]]:
    """The named parts of what is beside the work, and what they leave of it, side by side."""
    named = [{name: ms for name, ms in side.host if name != GAPS} for side in sides]
    fits = all(sum(parts.values()) <= room + 1e-9 for parts, room in zip(named, rest, strict=True))
    if not fits:
        # What no event covers is not slowed by a profiler, and stays unexplained.
        gaps = [dict(side.host).get(GAPS, 0.0) for side in sides]
        named = [
            {HOST: max(min(sum(parts.values()), room - gap), 0.0)}
            for parts, room, gap in zip(named, rest, gaps, strict=True)
        ]
    names = dict.fromkeys(name for parts in named for name in parts)
    differences = [Difference(name, named[0].get(name, 0.0), named[1].get(name, 0.0)) for name in names]
    left = [room - sum(parts.values()) for parts, room in zip(named, rest, strict=True)]
    return differences, left


def slower_blocks(joined: Joined, wall_ms: float) -> tuple[Block, ...]:
    """Blocks of a graph whose compiled code takes longer than eager by more than a twentieth of a call."""
    return tuple(
        block
        for block in joined.blocks
        if block.place == "graph" and block.difference_ms > LEAST_SHARE * wall_ms
    )


LEAST_SHARE = 0.05
"""Of a call's wall time: below, a difference disappears in what two runs differ by."""


def same_operator_other_kernel(block: Block) -> bool:
    """Whether both sides leave the block's work to a library, and most of it to kernels of other names."""
    eager = [kernel for kernel in block.eager_kernels if not kernel.generated]
    compiled = [kernel for kernel in block.compiled_kernels if not kernel.generated]
    if not eager or not compiled or len(block.operators) != 1:
        return False
    library = sum(kernel.ms for kernel in compiled)
    return library >= 0.5 * (block.compiled_ms or 0.0) and eager[0].name != compiled[0].name
