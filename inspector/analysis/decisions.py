"""Every decision about a pair, classified, from whoever recorded it.

`records_of_log` turns a fusion log into neutral records; a recorder inside the compiling process can
give the same records with names it knows for certain. `Decisions` answers what was decided about any two sets
of nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from inspector.model.fusion import Access, Category, Decision, DecisionRecord, NodeTraffic
from inspector.model.logs import FusionBenchmark, FusionLog
from inspector.model.record import GraphRecord
from inspector.model.source import Size

from .reasons import classify


def records_of_record(record: GraphRecord) -> tuple[DecisionRecord, ...]:
    """What the recorder saw torch answer, and the pairs that torch never asked about, in its order."""
    return tuple(
        DecisionRecord(
            first=decision.first,
            second=decision.second,
            round=decision.round,
            verdict=decision.verdict,
            reason=decision.reason,
            measured=decision.benchmark is not None and decision.verdict == "rejected",
            first_members=record.members.get(decision.first, ()),
            second_members=record.members.get(decision.second, ()),
            by_torch=decision.source != "recorder",
        )
        for decision in record.decisions
    )


def records_of_log(log: FusionLog, writers: Mapping[str, str]) -> tuple[DecisionRecord, ...]:
    """The log's lines in order, timings that ended badly among them.

    `writers` names the scheduler node behind each buffer: timings and CUTLASS's reasons name buffers.
    A timing that ended well is followed by a line of its own (``fusing A with B``).
    """
    groups: dict[tuple[int, frozenset[str]], str] = {}
    for candidate in log.candidates:
        members = candidate.members or (candidate.name,)
        groups.setdefault((candidate.round, frozenset(members)), candidate.name)
    records = [
        DecisionRecord(
            writers.get(item.first, item.first),
            writers.get(item.second, item.second),
            item.round,
            item.verdict,
            item.reason,
            item.line,
        )
        for item in log.decisions
    ]
    for timing in log.benchmarks:
        if not timing.fused and timing.first and timing.second:
            records.append(_timing(timing, writers, groups))
    records.sort(key=lambda record: record.line or 0)
    return tuple(records)


def _timing(
    timing: FusionBenchmark, writers: Mapping[str, str], groups: Mapping[tuple[int, frozenset[str]], str]
) -> DecisionRecord:
    sides = []
    for buffers in (timing.first, timing.second):
        members = tuple(dict.fromkeys(writers.get(name, name) for name in buffers))
        sides.append((groups.get((timing.round, frozenset(members)), "_".join(members)), members))
    (first, first_members), (second, second_members) = sides
    return DecisionRecord(
        first, second, timing.round, "rejected", timing.text, timing.line, True, first_members, second_members
    )


@dataclass(frozen=True, slots=True)
class _Shared:
    """What two nodes or groups have in common: storage, its bytes, and whether both ended in one group.
    `pair` are the two final groups, sorted, where each side ended in one of its own."""

    memories: tuple[str, ...]
    bytes: int | None
    one_group: bool
    pair: tuple[str, str] | None


class Names:
    """The leaves behind the scheduler's names of any round."""

    def __init__(self, nodes: Iterable[NodeTraffic]) -> None:
        self.nodes = {node.name: node for node in nodes}
        groups: dict[str, list[str]] = {}
        for node in self.nodes.values():
            groups.setdefault(node.group, []).append(node.name)
        self._members = {name: tuple(members) for name, members in groups.items()}

    def learn(self, name: str, members: Iterable[str]) -> None:
        """Take the members of a name from who knows them; what is known already stays."""
        if members and name not in self._members:
            self._members[name] = tuple(member for member in members if member in self.nodes)

    def members(self, name: str) -> tuple[str, ...]:
        """The leaves behind a name: torch joins the members' names by ``_``
        (torch/_inductor/scheduler.py: FusedSchedulerNode.get_name)."""
        found = self._members.get(name)
        if found is None:
            found = (name,) if name in self.nodes else tuple(self._split(name))
            self._members[name] = found
        return found

    def _split(self, name: str) -> Iterator[str]:
        """The known names in a joined one; nodes of a subgraph have ``_`` in theirs (true_graph_0_op1)."""
        part = ""
        for piece in name.split("_"):
            part = f"{part}_{piece}" if part else piece
            if part in self.nodes:
                yield part
                part = ""


class Decisions:
    """Decisions with the data that their pairs share, and a look-up by final groups."""

    def __init__(self, records: Sequence[DecisionRecord], nodes: Iterable[NodeTraffic]) -> None:
        self._names = Names(nodes)
        self._touched: dict[str, dict[str, int | None]] = {}
        self._final: dict[str, frozenset[str]] = {}
        self._pairs: dict[tuple[str, str], _Shared] = {}
        self._loops: dict[str, frozenset[tuple[Size, Size]]] = {}
        self._categories: dict[tuple[str, str, str | None], tuple[Category, bool]] = {}
        self._by_groups: dict[tuple[str, str], list[Decision]] = {}
        self.all: tuple[Decision, ...] = tuple(map(self._classify, records))

    def members(self, name: str) -> tuple[str, ...]:
        """The leaves behind a name of that time."""
        return self._names.members(name)

    def touched(self, name: str) -> dict[str, int | None]:
        """Storage -> bytes that a node or group reads or writes of it, the larger of the two."""
        found = self._touched.get(name)
        if found is None:
            found = {}
            for member in self.members(name):
                node = self._names.nodes[member]
                for access in (*node.reads, *node.writes):
                    known = found.get(access.memory, 0)
                    found[access.memory] = (
                        None if known is None or access.bytes is None else max(known, access.bytes)
                    )
            self._touched[name] = found
        return found

    def final_groups(self, name: str) -> frozenset[str]:
        """The post-fusion entries that the leaves behind a name ended in."""
        found = self._final.get(name)
        if found is None:
            found = frozenset(self._names.nodes[member].group for member in self.members(name))
            self._final[name] = found
        return found

    def loops_differ(self, first: str, second: str) -> bool:
        """Whether no loop of one side runs over as many points as some loop of the other; false where a
        side has no loops."""
        one, two = self._extents(first), self._extents(second)
        return bool(one) and bool(two) and one.isdisjoint(two)

    def _extents(self, name: str) -> frozenset[tuple[Size, Size]]:
        found = self._loops.get(name)
        if found is None:
            found = frozenset(e for member in self.members(name) for e in self._names.nodes[member].extents)
            self._loops[name] = found
        return found

    def _shared(self, first: str, second: str) -> _Shared:
        """What a pair shares; rounds ask about the same pairs again and again."""
        found = self._pairs.get((first, second))
        if found is None:
            one, two = self.touched(first), self.touched(second)
            if len(two) < len(one):
                one, two = two, one
            memories = tuple(sorted(memory for memory in one if memory in two))
            size: int | None = 0
            for memory in memories:
                a, b = one[memory], two[memory]
                size = None if size is None or a is None or b is None else size + min(a, b)
            ends, others = self.final_groups(first), self.final_groups(second)
            pair = None
            if len(ends) == len(others) == 1 and ends != others:
                a_name, b_name = sorted(ends | others)
                pair = (a_name, b_name)
            found = _Shared(memories, size, len(ends | others) == 1, pair)
            self._pairs[first, second] = found
        return found

    def _classify(self, record: DecisionRecord) -> Decision:
        first, second, number, verdict, reason, line, measured, one, two, by_torch = record
        if one:
            self._names.learn(first, one)
        if two:
            self._names.learn(second, two)
        shared = self._pairs.get((first, second)) or self._shared(first, second)
        category: Category | None = None
        inferred = False
        if measured:
            category = "measured_slower"
        elif verdict != "fused":
            key = (first, second, reason)
            known = self._categories.get(key)
            if known is None:
                known = self._categories[key] = self._category(first, second, reason, shared)
            category, inferred = known
        decision = Decision(
            first,
            second,
            number,
            verdict,
            reason,
            category,
            shared.memories,
            shared.bytes,
            line,
            verdict != "fused" and shared.one_group,
            by_torch,
            inferred,
        )
        if shared.pair is not None:
            self._by_groups.setdefault(shared.pair, []).append(decision)
        return decision

    def _category(
        self, first: str, second: str, reason: str | None, shared: _Shared
    ) -> tuple[Category, bool]:
        """The category of a pair that did not fuse, and whether it is only inferred."""
        category = classify(reason).category if reason else "no_shared_data"
        if category == "no_shared_data" and shared.memories and shared.bytes != 0:
            # torch compares dependencies with their index: "no shared data" includes a common buffer
            # that the two address differently (choices.py: InductorChoices.can_fuse).
            differ = self.loops_differ(first, second)
            # Without a word it is mostly the backend that refuses, for the form of the loops
            # (codegen/cpp.py: CppScheduling._can_fuse_horizontal_impl).
            category = "iteration_ranges" if differ or not reason else "index_mismatch"
        return category, not reason

    def between(self, first: str, second: str) -> Sequence[Decision]:
        """All decisions about parts of two final groups, in either order, oldest first."""
        return self._by_groups.get((first, second) if first < second else (second, first), ())


_WEIGHT: dict[Category, int] = {"order": 0, "no_shared_data": 1, "never_tried": 1}


def telling(decisions: Sequence[Decision]) -> Decision | None:
    """The decision that says most about why two final groups stayed apart.

    The latest one, but an answer about the pair asked the wrong way round, or about parts without common
    data, or none at all, gives way to any other.
    """
    rejected = [decision for decision in decisions if decision.category is not None]
    if not rejected:
        return None
    return max(
        enumerate(rejected),
        key=lambda item: (_WEIGHT.get(item[1].category or "other", 2), item[1].round, item[0]),
    )[1]


def by_category(decisions: Iterable[Decision]) -> dict[str, list[Decision]]:
    """Decisions grouped: `fused`, then each category, most frequent first."""
    found: dict[str, list[Decision]] = {}
    for decision in decisions:
        found.setdefault(decision.category or decision.verdict, []).append(decision)
    return dict(sorted(found.items(), key=lambda item: (item[0] != "fused", -len(item[1]))))


def shared_accesses(one: Iterable[Access], two: Iterable[Access]) -> tuple[Access, ...]:
    """Storage that both touch, with the smaller of the two sides' bytes."""
    mine: dict[str, Access] = {}
    for access in one:
        known = mine.get(access.memory)
        if known is None or (known.bytes or 0) < (access.bytes or 0):
            mine[access.memory] = access
    found: dict[str, Access] = {}
    for access in two:
        other = mine.get(access.memory)
        if other is None:
            continue
        smaller = access if _least(access, other) is access else other
        known = found.get(access.memory)
        if known is None or (known.bytes or 0) < (smaller.bytes or 0):
            found[access.memory] = smaller
    return tuple(found.values())


def _least(one: Access, two: Access) -> Access:
    if one.bytes is None or two.bytes is None:
        return one if one.bytes is None else two
    return one if one.bytes <= two.bytes else two
