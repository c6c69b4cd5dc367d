"""A steady call in parts that findings can claim: blocks where a profile knows them, else launches."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.analysis.two_sides import host_ms
from inspector.model.account import HOST, TRANSFERS, Account, ClaimHow, Part
from inspector.model.explain import Ledger
from inspector.model.two_sides import Joined

from .block_words import label
from .case import Case
from .doubts import profile_fits
from .least import least_of, least_of_blocks, machine_of
from .ledger import host_part_ms


def open_account(case: Case, ledger: Ledger) -> Account:
    """The account of a case before anybody claims anything."""
    parts = _profiled(case, case.sides.joined) if case.sides is not None else _by_launch(case)
    return Account(
        ms=case.wall_ms if case.wall_ms > 0 else None,
        eager_ms=ledger.eager_ms,
        noise_ms=case.noise_ms,
        parts=tuple(part for part in parts if part.ms > 0 or part.eager_ms),
        once_ms=_once_ms(case),
        calls=case.times.calls,
    )


def _once_ms(case: Case) -> float | None:
    """Compiling, and what calls do for sizes that they see first."""
    new, cold = case.times.new_sizes, case.times.cold_ms
    beyond = new.beyond_ms if new is not None and new.slow else 0.0
    return cold + beyond if cold is not None else beyond or None


def _by_launch(case: Case) -> Iterator[Part]:
    machine = machine_of(case)
    for graph, launch in case.launches():
        how: ClaimHow = "replayed" if launch.measured else "estimated"
        place = (graph.name, launch.call.index)
        (low, high), _ = least_of(machine, graph, launch)
        least = (low * graph.runs, high * graph.runs)
        yield Part(launch.name, graph.ms(launch), how, launches=(place,), least_ms=least)
    if case.graphs and not case.in_eager:
        known = case.times.compiled_ms is not None and case.kernels_measured
        gap = host_part_ms(case) if known else max(case.wall_ms - case.kernels_ms, 0.0)
        yield Part(HOST, gap, "replayed" if known else "estimated")


def _profiled(case: Case, joined: Joined) -> Iterator[Part]:
    """The blocks that calls contain, copies, and what the host did beside them."""
    if joined.compiled is None:
        yield from _by_launch(case)
        return
    inside_only = case.times.compiled_ms is not None or joined.compiled.marked
    both = joined.eager is not None
    # Where eager's work has no place, what only compiled code runs may be its counterpart.
    lonely = sum(block.eager_ms or 0.0 for block in joined.blocks if not block.compiled_ms)
    matched = lonely <= case.noise_ms
    least = least_of_blocks(case, machine_of(case), joined.blocks) if profile_fits(case) else {}
    for number, block in enumerate(joined.blocks):
        if block.inside or not inside_only:
            eager = block.eager_ms if both and (matched or block.eager_ms) else None
            yield Part(
                label(block),
                block.compiled_ms or 0.0,
                "profiled",
                eager,
                number,
                # A launch that the profile has no time of is none of its parts.
                block.launches if block.compiled_ms else (),
                least_ms=least.get(number),
            )
    copied = joined.eager.transfers_ms if joined.eager is not None else None
    yield Part(TRANSFERS, joined.compiled.transfers_ms, "profiled", copied)
    yield Part(HOST, host_part_ms(case), "profiled", _eager_host_ms(case))


def _eager_host_ms(case: Case) -> float | None:
    """What eager took on the host beside its work; None where one side was not profiled."""
    ledger = case.walls
    return None if ledger is None else host_ms(ledger)[0]
