"""Where two runs' steady calls differ, in parts that add up to the difference of what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from inspector.analysis.side_totals import NAMED
from inspector.analysis.steady import RUN_TO_RUN, Compared, either, outcome_of
from inspector.analysis.two_sides import HOST
from inspector.frozen import dataclass
from inspector.model.account import ROUNDING
from inspector.model.calls import Outcome, Steady
from inspector.model.diff import KernelMatch, LaunchId, LedgerRow
from inspector.model.explain import Ledger

UNEXPLAINED = "unexplained"
_KERNEL_PARTS = ("library kernels", "generated kernels", "fallbacks", "copies and layout changes")
_WORTH = 0.05
"""A match is told where its times differ by more than this part of the whole difference ..."""
_MOST = 8
"""... and no more matches than this."""

Launches = Mapping[tuple[str, int], float]
"""(graph, call) -> milliseconds of one steady call."""


@dataclass(frozen=True, slots=True)
class Timed:
    """One run's times: the ledger of a steady call, the calls that it is of, and its launches' times.

    `again` and `ledger_again` are of the same run made again, to be profiled: of those calls that were not.
    """

    ledger: Ledger
    steady: Steady | None = None
    launches: Launches = field(default_factory=dict)
    busy: bool = False
    again: Steady | None = None
    ledger_again: Ledger | None = None


def compared_ms(a: Timed, b: Timed) -> tuple[float, float] | None:
    """Milliseconds of a steady call of either, None unless both were measured."""
    if a.ledger.compiled_ms is None or b.ledger.compiled_ms is None:
        return None
    if "estimated" in (a.ledger.how, b.ledger.how):
        return None
    return a.ledger.compiled_ms, b.ledger.compiled_ms


def outcome(a: Timed, b: Timed) -> Outcome:
    """How B's calls compare with A's."""
    if a.steady is None or b.steady is None or a.busy or b.busy:
        return "unknown"
    first = _compared(a.steady, b.steady)
    if a.again is not None and b.again is not None:
        return either(first, _compared(a.again, b.again))
    return first[0]


def _compared(a: Steady, b: Steady) -> Compared:
    return outcome_of(b, a), a.median_ms / b.median_ms if b.median_ms else None


def of_one_process(a: Timed, b: Timed) -> tuple[Timed, Timed]:
    """Both by the runs that were profiled, where a call took another time there than in the timed one: the
    rows and the calls that they add up to are then of the same process."""
    if a.ledger_again is None or b.ledger_again is None:
        return a, b
    if not any(
        side.steady and side.again and _apart(side.again.median_ms, side.steady.median_ms) for side in (a, b)
    ):
        return a, b
    return replace(a, ledger=a.ledger_again), replace(b, ledger=b.ledger_again)


def _apart(again: float, first: float) -> bool:
    return abs(again - first) > RUN_TO_RUN * first


def difference(a: Timed, b: Timed, matches: Sequence[KernelMatch]) -> tuple[LedgerRow, ...]:
    """Rows whose differences add up to that of the calls, the part that no side explains last; empty where
    either side was not timed, or where nothing differs."""
    walls = compared_ms(a, b)
    if walls is None:
        return ()
    ours, theirs = _parts(a.ledger), _parts(b.ledger)
    told_apart = _sources(a) == _sources(b) and not (_unlike(a.ledger) or _unlike(b.ledger))
    if ours.keys() != theirs.keys() and not told_apart:
        # One side tells kernels and the host apart by other means than the other: only the sums compare.
        ours, theirs = _coarse(ours), _coarse(theirs)
    elif ours.keys() & {HOST, *NAMED} != theirs.keys() & {HOST, *NAMED}:
        ours, theirs = _host_as_one(ours), _host_as_one(theirs)
    rows = list(_matches(a.launches, b.launches, matches, abs(walls[1] - walls[0])))
    kernels = [sum(side.get(name, 0.0) for name in _KERNEL_PARTS) for side in (ours, theirs)]
    if any(kernels) and rows:
        before, after = sum(row.a_ms or 0.0 for row in rows), sum(row.b_ms or 0.0 for row in rows)
        rest = kernels[0] - before, kernels[1] - after
        if any(abs(ms) >= ROUNDING * max(walls) for ms in rest):
            rows.append(_row("all other kernels", *rest))
        names = [name for name in dict.fromkeys((*ours, *theirs)) if name not in _KERNEL_PARTS]
    else:
        rows, names = [], list(dict.fromkeys((*ours, *theirs)))
    rows += [_row(name, ours.get(name, 0.0), theirs.get(name, 0.0)) for name in names]
    left = a.ledger.unexplained_ms or 0.0, b.ledger.unexplained_ms or 0.0
    figures = (*left, walls[1] - walls[0] - sum(row.delta_ms for row in rows))
    rows.append(LedgerRow(UNEXPLAINED, *(0.0 if abs(ms) < ROUNDING * max(walls) else ms for ms in figures)))
    return tuple(rows) if any(row.delta_ms for row in rows) else ()


def _parts(ledger: Ledger) -> dict[str, float]:
    return {part.part: part.ms for part in ledger.parts}


def _sources(timed: Timed) -> frozenset[str]:
    return frozenset(part.source for part in timed.ledger.parts if part.source == "profile")


def _unlike(ledger: Ledger) -> bool:
    """Whether kernels are not told apart from the host at all."""
    return bool(ledger.parts) and not any(part.part in _KERNEL_PARTS for part in ledger.parts)


def _host_as_one(parts: Mapping[str, float]) -> dict[str, float]:
    """What the host did under one name: a side whose profiled host took longer than a call has room for
    has no other."""
    rest = {name: ms for name, ms in parts.items() if name not in (HOST, *NAMED)}
    return {**rest, HOST: sum(parts.values()) - sum(rest.values())}


def _coarse(parts: Mapping[str, float]) -> dict[str, float]:
    return {"kernels and the host": sum(parts.values())}


def _matches(a: Launches, b: Launches, matches: Sequence[KernelMatch], whole: float) -> Iterable[LedgerRow]:
    """Matches whose launches all have times, those that differ most first; what only one side has counts in
    full, where that side's launches have times."""
    rows = []
    for match in matches:
        before, after = _sum(a, match.a), _sum(b, match.b)
        if before is None or after is None:
            continue
        row = _row(_name(match), before, after)
        if abs(row.delta_ms) > _WORTH * whole and row.delta_ms:
            rows.append(row)
    return sorted(rows, key=lambda row: -abs(row.delta_ms))[:_MOST]


def _sum(times: Launches, launches: Sequence[LaunchId]) -> float | None:
    """None where a launch has no time; 0 for none of a run whose launches have times."""
    known = [ms for launch in launches if (ms := times.get((launch.graph, launch.call))) is not None]
    return sum(known) if times and len(known) == len(launches) else None


def _name(match: KernelMatch) -> str:
    side = match.b or match.a
    lines = side[0].lines[:1]
    return " ".join((side[0].kernel, *lines))


def _row(part: str, a: float, b: float) -> LedgerRow:
    return LedgerRow(part, a, b, b - a)


def with_times(matches: Sequence[KernelMatch], a: Launches, b: Launches) -> tuple[KernelMatch, ...]:
    """The matches with what their launches take, where that is known."""
    return tuple(
        replace(
            match,
            a_ms=_sum(a, match.a) if match.a else None,
            b_ms=_sum(b, match.b) if match.b else None,
        )
        for match in matches
    )
