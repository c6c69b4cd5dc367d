"""Where the ranks of one job differ, although they should do the same.

A rank that compiles another graph, recompiles where the others do not, or misses a cache that they
hit, makes the others wait at the next collective, or stops the job there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import zip_longest

from inspector.model.ranks import Divergence, DivergenceKind, RankFacts, RankGraph
from inspector.units import duration

SLOWER_SHARE = 0.20
"""A rank is slow where it compiles longer than the fastest by more than this share ..."""
SLOWER_SECONDS = 1.0
"""... and by more than this many seconds."""

_ABSENT = "not compiled"


def divergence(facts: Sequence[RankFacts]) -> tuple[Divergence, ...]:
    """All differences, the graver kinds first; empty for fewer than two ranks."""
    facts = _comparable(facts)
    if len(facts) < 2:
        return ()
    return (
        *_collectives(facts),
        *_graphs(facts),
        *_kernels(facts),
        *_events(facts, "recompile", "recompiles", lambda rank: rank.recompiles),
        *_events(facts, "graph break", "breaks the graph", lambda rank: rank.breaks),
        *_caches(facts),
        *_times(facts),
    )


def _comparable(facts: Sequence[RankFacts]) -> Sequence[RankFacts]:
    """The ranks that are known. Processes without one may be anything that was captured together;
    they are compared where they compiled at least one graph in common."""
    known = [rank for rank in facts if rank.rank is not None]
    if known:
        return known
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for process in facts:
        graphs = {(graph.key, graph.fx) for graph in process.graphs if graph.fx}
        if graphs & seen:
            return facts
        seen |= graphs
    return ()


def _groups(pairs: Iterable[tuple[str, Hashable]]) -> list[tuple[tuple[str, ...], Hashable]]:
    """(labels, value) for each distinct value, the most common first, then in order of the ranks."""
    labels_of: dict[Hashable, list[str]] = {}
    for label, value in pairs:
        labels_of.setdefault(value, []).append(label)
    groups = [(tuple(labels), value) for value, labels in labels_of.items()]
    return sorted(groups, key=lambda group: -len(group[0]))


def ranks_text(labels: Sequence[str]) -> str:
    """`rank 1`, `ranks 0 to 6, 9`: labels in a few words."""
    numbers = [int(label[5:]) for label in labels if label.startswith("rank ") and label[5:].isdigit()]
    if len(numbers) != len(labels) or len(numbers) < 2:
        return ", ".join(labels)
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][-1] + 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    parts = [f"{span[0]} to {span[-1]}" if len(span) > 2 else ", ".join(map(str, span)) for span in spans]
    return f"ranks {', '.join(parts)}"


def _keys(facts: Sequence[RankFacts]) -> list[str]:
    return list(dict.fromkeys(graph.key for rank in facts for graph in rank.graphs))


def _graphs(facts: Sequence[RankFacts]) -> Iterable[Divergence]:
    """Different FX graphs under one compile id and phase, and graphs that not every rank has."""
    tables = _tables(facts)
    for key in _keys(facts):
        graphs = {rank.label: tables[rank.label].get(key) for rank in facts}
        groups = _groups((label, graph and graph.fx) for label, graph in graphs.items())
        if len(groups) < 2:
            continue
        shown = tuple((labels, _operations_text(value)) for labels, value in groups)
        absent = [labels for labels, value in groups if value is None]
        present = [(labels, value) for labels, value in groups if value is not None]
        parts = []
        if len(present) > 1:
            (most, one), (other, two) = present[0], present[1]
            parts.append(
                f"{ranks_text(other)} compiled another graph than {ranks_text(most)}: {_first(one, two)}"
            )
        elif absent:
            parts.append(f"compiled on {ranks_text(present[0][0])}")
        parts += [f"not on {ranks_text(labels)}" for labels in absent]
        yield Divergence("graph", key, shown, f"{key}: {', '.join(parts)}")


def _operations_text(value: Hashable) -> str:
    return f"{len(value)} nodes" if isinstance(value, tuple) else _ABSENT


def _first(one: Hashable, two: Hashable) -> str:
    """The first operation in which two graphs differ."""
    first = one if isinstance(one, tuple) else ()
    second = two if isinstance(two, tuple) else ()
    for index, (a, b) in enumerate(zip_longest(first, second)):
        if a != b:
            return f"node {index + 1} is {b or 'absent'} in place of {a or 'nothing'}"
    return "they differ"


def _kernels(facts: Sequence[RankFacts]) -> Iterable[Divergence]:
    """Different kernels for the same FX graph: other names, or another source under one name."""
    tables = _tables(facts)
    for key in _keys(facts):
        graphs = [(rank.label, tables[rank.label].get(key)) for rank in facts]
        here = [(label, graph) for label, graph in graphs if graph is not None]
        if len({graph.fx for _, graph in here}) > 1:
            continue
        groups = _groups((label, tuple(sorted(graph.kernels.items()))) for label, graph in here)
        if len(groups) < 2:
            continue
        (most, one), (other, two) = groups[0], groups[1]
        first, second = dict(_pairs(one)), dict(_pairs(two))
        names = [name for name in {**first, **second} if first.get(name) != second.get(name)]
        text = f"{key}: {ranks_text(other)} has other kernels than {ranks_text(most)}: {_some(names)}"
        shown = tuple((labels, f"{len(_pairs(value))} kernels") for labels, value in groups)
        yield Divergence("kernel", key, shown, text)


def _pairs(value: Hashable) -> tuple[tuple[str, str], ...]:
    return value if isinstance(value, tuple) else ()


def _collectives(facts: Sequence[RankFacts]) -> Iterable[Divergence]:
    """Communication calls in another order: the job hangs, or sums what does not belong together."""
    orders = [
        (rank.label, tuple(call for graph in rank.graphs for call in graph.collectives)) for rank in facts
    ]
    groups = _groups(orders)
    if len(groups) < 2:
        return
    (most, one), (other, two) = groups[0], groups[1]
    for index, (a, b) in enumerate(zip_longest(_calls(one), _calls(two))):
        if a != b:
            what = f"call {index + 1} is {_short(b)}, on {ranks_text(most)} it is {_short(a)}"
            shown = tuple((labels, f"{len(_calls(value))} calls") for labels, value in groups)
            text = f"collectives: {ranks_text(other)} communicates in another order: {what}"
            yield Divergence("collective", "collectives", shown, text)
            return


def _calls(value: Hashable) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _short(call: str | None) -> str:
    return call.rpartition("_c10d_functional.")[2] if call else "absent"


def _events(
    facts: Sequence[RankFacts], kind: DivergenceKind, verb: str, of: Callable[[RankFacts], tuple[str, ...]]
) -> Iterable[Divergence]:
    """Places that recompile or break the graph on some ranks, or more often there."""
    for event in dict.fromkeys(event for rank in facts for event in of(rank)):
        groups = _groups((rank.label, of(rank).count(event)) for rank in facts)
        if len(groups) < 2:
            continue
        counts = sorted(
            ((labels, count) for labels, count in groups if isinstance(count, int)), key=lambda g: -g[1]
        )
        told = ", ".join(f"{ranks_text(labels)} {count}x" for labels, count in counts)
        shown = tuple((labels, str(count)) for labels, count in counts)
        yield Divergence(kind, event, shown, f"{told} {verb}: {event}")


def _caches(facts: Sequence[RankFacts]) -> Iterable[Divergence]:
    for key in dict.fromkeys(key for rank in facts for key in rank.caches):
        known = [(rank.label, rank.caches[key]) for rank in facts if key in rank.caches]
        groups = _groups(known)
        if len(groups) > 1:
            told = ", ".join(f"{value} on {ranks_text(labels)}" for labels, value in groups)
            shown = tuple((labels, str(value)) for labels, value in groups)
            yield Divergence("cache", key, shown, f"{key} cache: {told}")


def _times(facts: Sequence[RankFacts]) -> Iterable[Divergence]:
    """In total, then each compile id that all ranks have."""
    totals = [(rank.label, rank.total_seconds) for rank in facts if rank.seconds]
    yield from _slow("in total", totals)
    for key in dict.fromkeys(key for rank in facts for key in rank.seconds):
        known = [(rank.label, rank.seconds[key]) for rank in facts if key in rank.seconds]
        if len(known) == len(facts):
            yield from _slow(key, known)


def _slow(subject: str, seconds: Sequence[tuple[str, float]]) -> Iterable[Divergence]:
    if len(seconds) < 2:
        return
    fast, slow = min(seconds, key=lambda item: item[1]), max(seconds, key=lambda item: item[1])
    gap = slow[1] - fast[1]
    if gap > SLOWER_SECONDS and gap > SLOWER_SHARE * fast[1]:
        times = {label: duration(value * 1e3) for label, value in seconds}
        text = f"{subject}: {slow[0]} compiled for {times[slow[0]]}, {fast[0]} for {times[fast[0]]}"
        shown = tuple(((label,), time) for label, time in times.items())
        yield Divergence("compile time", subject, shown, text)


def _tables(facts: Sequence[RankFacts]) -> dict[str, dict[str, RankGraph]]:
    return {rank.label: {graph.key: graph for graph in rank.graphs} for rank in facts}


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
