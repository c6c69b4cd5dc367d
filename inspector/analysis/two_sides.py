"""The ledger between both walls: from eager's time for one call to compiled code's, difference by difference.

A side's wall is its work (the blocks and the transfers; what runs at once shares the time) and the rest, in
which the device idled or, on a CPU, no operator ran. The profile names what the host did in that rest, but a
profiled host is slower than one that is not: where the names take more than there is, only their sum is
known. Nothing is scaled; what is left over, on either side of zero, is unexplained. A profile whose work does
not fit into a call that no profiler slowed is dropped as a breakdown of such calls: it stays one of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from inspector.model.two_sides import (
    Block,
    Difference,
    GraphWork,
    Joined,
    KernelTime,
    Phase,
    Side,
    SideTotals,
    TwoSidedLedger,
)
from inspector.units import duration

from .profile_work import COMMUNICATING
from .side_totals import GAPS, NAMED
from .steady import MOST, RUN_TO_RUN, SAME

HOST = "the host: operators, wrappers, Python"
TRANSFERS = "copies between host and device"
LIBRARY = "library kernels"
GENERATED = "generated kernels"
OUTSIDE = "operators outside the graphs"
COMMUNICATION = "communication between ranks"
"""NCCL's kernels while no other kernel runs; waits for other ranks are in them."""
_ROUNDING = 1e-9


def two_sided_ledger(
    joined: Joined, eager_wall_ms: float | None = None, compiled_wall_ms: float | None = None
) -> TwoSidedLedger | None:
    """The walls are those of calls that no profiler slowed; without both, and where a profile does not fit
    into its own, the profiled calls' own are used. None where a side was not profiled."""
    eager, compiled = joined.eager, joined.compiled
    if eager is None or compiled is None:
        return None
    timed = eager_wall_ms is not None and compiled_wall_ms is not None
    timed = timed and not side_doubt(joined, "eager", eager_wall_ms)
    timed = timed and not side_doubt(joined, "compiled", compiled_wall_ms)
    walls = (eager_wall_ms or 0.0, compiled_wall_ms or 0.0) if timed else (eager.wall_ms, compiled.wall_ms)
    inside_only = timed or (eager.marked and compiled.marked)
    differences = [
        Difference("", block.eager_ms or 0.0, block.compiled_ms or 0.0, number)
        for number, block in enumerate(joined.blocks)
        if block.inside or not inside_only
    ]
    differences.append(Difference(TRANSFERS, eager.transfers_ms, compiled.transfers_ms))
    rest = [
        wall - sum(getattr(difference, side) for difference in differences)
        for wall, side in zip(walls, ("eager_ms", "compiled_ms"), strict=True)
    ]
    fits = all(_fits(side, room) for side, room in zip((eager, compiled), rest, strict=True))
    named = [_beside(side, room, fits) for side, room in zip((eager, compiled), rest, strict=True)]
    hosts = [
        Difference(name, named[0].get(name, 0.0), named[1].get(name, 0.0))
        for name in dict.fromkeys(name for parts in named for name in parts)
    ]
    left = [room - sum(parts.values()) for parts, room in zip(named, rest, strict=True)]
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


def side_doubt(joined: Joined, name: Side, wall_ms: float | None) -> str:
    """Why a side's profile says nothing of how a call of `wall_ms` divides, else empty: its work does not fit
    into one, or the call took more than double; four times that beside a GPU, where a profiler slows the host
    alone, and no operators as on a CPU."""
    side: SideTotals | None = getattr(joined, name)
    if side is None or not wall_ms:
        return ""
    work = sum(getattr(block, f"{name}_ms") or 0.0 for block in joined.blocks if block.inside)
    work -= side.overlap_ms
    alone = f"a call of {duration(wall_ms)} without a profiler"
    if work > wall_ms * (1 + SAME):
        return f"{duration(work)} of work were profiled in what is {alone}"
    if side.wall_ms * MOST * (MOST if side.device else 1.0) > wall_ms:
        return f"a profiled call took {duration(side.wall_ms)}, {alone}"
    return ""


def _fits(side: SideTotals, room: float) -> bool:
    """Whether what the host did beside the work, as profiled, is no more than there was."""
    return sum(ms for name, ms in side.host if name != GAPS) <= room + _ROUNDING


def _beside(side: SideTotals, room: float, fits: bool) -> dict[str, float]:
    """The named parts of `room`, what is beside a side's work; their sum alone where a profiled host took
    longer. What no event covers is not slowed by a profiler, and is in none of them."""
    parts = {name: ms for name, ms in side.host if name != GAPS}
    if fits:
        return parts
    gaps = dict(side.host).get(GAPS, 0.0)
    return {HOST: max(min(sum(parts.values()), room - gaps), 0.0)}


def is_communication(kernel: str) -> bool:
    """Whether a kernel is of NCCL, by its name."""
    return COMMUNICATING in kernel


def host_ms(ledger: TwoSidedLedger) -> tuple[float, float]:
    """What eager and compiled took on the host beside their work."""
    beside = [item for item in ledger.differences if item.part in (HOST, *NAMED)]
    return sum(item.eager_ms for item in beside), sum(item.compiled_ms for item in beside)


def compiled_parts(joined: Joined, wall_ms: float, timed: bool) -> tuple[list[tuple[str, float]], float]:
    """Where compiled code's wall goes by its profile, and what is unexplained of it; `timed` for a wall of
    calls that no profiler slowed. The parts and the rest add up to the wall."""
    side = joined.compiled
    assert side is not None
    blocks = [block for block in joined.blocks if block.inside or not (timed or side.marked)]
    found = [(block.place, kernel) for block in blocks for kernel in block.compiled_kernels]
    kernels = [(place, kernel) for place, kernel in found if not is_communication(kernel.name)]
    parts = [
        (COMMUNICATION, sum(kernel.taken_ms for _, kernel in found if is_communication(kernel.name))),
        (
            LIBRARY,
            sum(kernel.taken_ms for place, kernel in kernels if place != "outside" and not kernel.generated),
        ),
        (
            GENERATED,
            sum(kernel.taken_ms for place, kernel in kernels if place != "outside" and kernel.generated),
        ),
        (OUTSIDE, sum(kernel.taken_ms for place, kernel in kernels if place == "outside")),
        (TRANSFERS, side.transfers_ms),
    ]
    room = wall_ms - sum(ms for _, ms in parts)
    parts += _beside(side, room, _fits(side, room)).items()
    parts = [(name, ms) for name, ms in parts if ms]
    return parts, wall_ms - sum(ms for _, ms in parts)


def work_of_graphs(joined: Joined) -> dict[str, GraphWork]:
    """The work of each graph's blocks by its ident, of graphs that the profiles know."""
    idents = dict.fromkeys(block.graph for block in joined.blocks if block.graph is not None)
    works = {}
    for ident in idents:
        own = [block for block in joined.blocks if block.graph == ident]
        eager, compiled = (sum(getattr(b, side) or 0.0 for b in own) for side in ("eager_ms", "compiled_ms"))
        works[ident] = GraphWork(eager or None, compiled or None)
    return works


def slower_blocks(joined: Joined, wall_ms: float) -> tuple[tuple[int, Block], ...]:
    """Blocks of a graph, with their places, whose compiled code takes longer than eager by surely more than a
    twentieth of a call; see `least_lost_ms`."""
    return tuple(
        (number, block)
        for number, block in enumerate(joined.blocks)
        if block.place == "graph" and least_lost_ms(joined, wall_ms, block) > RUN_TO_RUN * wall_ms
    )


def least_lost_ms(joined: Joined, wall_ms: float, block: Block) -> float:
    """What a block's compiled code surely takes longer than eager: the profiled calls may have been slower,
    all of them, than those that no profiler slowed, which take `wall_ms`; on a CPU all that they took longer
    may have been this block's; and so may what eager does in the calls that was put into no graph, and on the
    compiled side nothing like it."""
    side = joined.compiled
    if side is None or block.compiled_ms is None or block.eager_ms is None:
        return 0.0
    # Of a GPU the kernels' times are its own: they are off where more ran than there was time for.
    seen = side.work_ms - side.overlap_ms if side.device else side.wall_ms
    slowed = max(seen / wall_ms, 1.0) if wall_ms > 0 else 1.0
    lost = block.compiled_ms / slowed - block.eager_ms
    if not side.device and wall_ms > 0:
        # Memory that is mapped anew, or a busy machine, and no work of a call. What eager's calls took longer
        # is no measure of that, as they have other memory.
        lost = min(lost, block.difference_ms - max(side.wall_ms - wall_ms, 0.0))
    # Summed over all blocks, of which few lose anything.
    return max(lost - _stray_ms(joined, block.phase) - _left_open_ms(joined, block), 0.0) if lost > 0 else 0.0


def _left_open_ms(joined: Joined, block: Block) -> float:
    """What eager may have spent on the block's operators in others that order left open, which have these
    operators too."""
    own = set(block.operators)
    return sum(
        max(-other.difference_ms, 0.0)
        for other in joined.blocks
        if not other.sure
        and other is not block
        and (other.graph, other.phase) == (block.graph, block.phase)
        and own <= set(other.operators)
    )


def _stray_ms(joined: Joined, phase: Phase) -> float:
    return sum(
        max((block.eager_ms or 0.0) - (block.compiled_ms or 0.0), 0.0)
        for block in joined.blocks
        if block.place == "outside" and block.inside and block.phase == phase
    )


def same_operator_other_kernel(block: Block) -> bool:
    """Whether both sides leave the block's work to a library, and most of it to kernels that the other side
    does not run at all."""
    eager, compiled = (library_kernels(kernels) for kernels in (block.eager_kernels, block.compiled_kernels))
    if not eager or not compiled or len(block.operators) != 1:
        return False
    library = sum(kernel.taken_ms for kernel in compiled)
    return library >= 0.5 * (block.compiled_ms or 0.0) and not same_kernel(eager, compiled)


def library_kernels(kernels: Sequence[KernelTime]) -> list[KernelTime]:
    """Those that are neither generated nor plain copies of memory."""
    return [kernel for kernel in kernels if not kernel.generated and not kernel.name.startswith("mem")]


def same_kernel(eager: Sequence[KernelTime], compiled: Sequence[KernelTime]) -> bool:
    """Whether either side's longest runs on the other too: of operators that call others, as on a CPU, which
    of them takes longest is chance."""
    names = {kernel.name for kernel in eager}, {kernel.name for kernel in compiled}
    return compiled[0].name in names[0] or eager[0].name in names[1]
