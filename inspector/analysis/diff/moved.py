"""Launches that run in another graph, or at another place among those around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inspector.model.diff import Change, GraphMatch, KernelMatch, LaunchId

WHAT = "launch moved"
_MOST = 1500
"""Launches of two graphs whose order is compared: that takes time with their square."""

_Pair = tuple[LaunchId, LaunchId]


def moved(graphs: Sequence[GraphMatch], kernels: Sequence[KernelMatch]) -> Iterator[Change]:
    """Of launches that are matched one to one: the graph, where it is not what became of its own; else the
    position, of as few launches as can be that all others keep their order without."""
    partners = {ident: match.b for match in graphs for ident in match.a}
    pairs: dict[tuple[str, str], list[_Pair]] = {}
    for match in kernels:
        if len(match.a) == len(match.b) == 1:
            a, b = match.a[0], match.b[0]
            if b.graph in partners.get(a.graph, ()):
                pairs.setdefault((a.graph, b.graph), []).append((a, b))
            else:
                yield Change(WHAT, f"{a.kernel} in {a.graph}", f"{b.kernel} in {b.graph}")
    for own in pairs.values():
        kept = _in_order(own) if len(own) <= _MOST else set(own)
        for a, b in own:
            if (a, b) not in kept:
                yield Change(WHAT, f"{a.kernel}, launch {a.call}", f"{b.kernel}, launch {b.call}")


def _in_order(pairs: Sequence[_Pair]) -> set[_Pair]:
    """The most that come in the same order on both sides; of equally many those that come late, which is the
    same whichever side is named first."""
    ordered = sorted(pairs, key=lambda pair: pair[0].call)
    late = 1 / (4 * len(pairs) * (1 + max(a.call + b.call for a, b in pairs)))
    best: list[float] = []
    before: list[int | None] = []
    for index, (a, b) in enumerate(ordered):
        chain = max(
            ((best[i], i) for i in range(index) if ordered[i][1].call < b.call), default=(0.0, None),
            key=lambda item: item[0],
        )  # fmt: skip
        best.append(chain[0] + 1 + late * (a.call + b.call))
        before.append(chain[1])
    kept: set[_Pair] = set()
    last: int | None = max(range(len(best)), key=best.__getitem__)
    while last is not None:
        kept.add(ordered[last])
        last = before[last]
    return kept
