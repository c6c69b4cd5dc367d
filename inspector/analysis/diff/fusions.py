"""What one side fused and the other did not, with the reason that torch gave for not doing so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Literal

from inspector.model.diff import FusionChange, KernelMatch, LaunchId
from inspector.model.fusion import FusionReport, Missed

_MOST_PAIRS = 6
Reports = Mapping[str, FusionReport]


def fusion_changes(matches: Sequence[KernelMatch], a: Reports, b: Reports) -> tuple[FusionChange, ...]:
    """For each kernel that split or merged its parts by what was said or is known of pairs of them; where
    nothing is, all of them without a reason. `a` and `b` are by the graph's ident."""
    changes: list[FusionChange] = []
    for match in matches:
        if match.relation == "split":
            changes += _changes(match.a[0], match.b, b, "a")
        elif match.relation == "merged":
            changes += _changes(match.b[0], match.a, a, "b")
    return tuple(changes)


def _changes(
    whole: LaunchId, parts: Sequence[LaunchId], reports: Reports, fused_in: Literal["a", "b"]
) -> Iterable[FusionChange]:
    told: dict[tuple[str, str, bool], dict[LaunchId, None]] = {}
    pairs = [pair for pair in combinations(parts, 2) if pair[0].graph == pair[1].graph]
    for first, second in pairs[:_MOST_PAIRS]:
        report = reports.get(first.graph)
        item = _missed(report, first.call, second.call) if report is not None else None
        if item is not None:
            # Of several pairs with one reason the reason is said once.
            said = (item.reason, item.plain, item.by_torch)
            told.setdefault(said, {}).update(dict.fromkeys((first, second)))
    for said, apart in told.items():
        yield FusionChange(whole, tuple(apart), fused_in, *said)
    if not told:
        yield FusionChange(whole, tuple(parts), fused_in, "", "", False)


def _missed(report: FusionReport, first: int, second: int) -> Missed | None:
    """The pair of groups of two launches, where they touch the same memory."""
    groups = {call: group.name for group in report.groups for call in group.calls}
    wanted = {groups.get(first), groups.get(second)}
    return next(
        (item for item in (*report.missed, *report.minor) if {item.first, item.second} == wanted), None
    )
