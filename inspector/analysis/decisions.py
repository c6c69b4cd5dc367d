"""Every decision about a pair, classified, and what was decided about any two sets of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from inspector.model.decision import Category, Decision
from inspector.model.fusion import Access, NodeTraffic
from inspector.model.logs import FusionLog
from inspector.model.source import Size

from .reasons import classify


def decisions_of_log(log: FusionLog, writers: Mapping[str, str]) -> tuple[Decision, ...]:
    """The log's lines in order, timings that ended badly among them.

    `writers` names the scheduler node behind each buffer: timings and CUTLASS's reasons name buffers.
    """
    groups: dict[tuple[int, frozenset[str]], str] = {}
    for candidate in log.candidates:
        members = candidate.members or (candidate.name,)
        groups.setdefault((candidate.round, frozenset(members)), candidate.name)

    def named(number: int, buffers: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        members = tuple(dict.fromkeys(writers.get(name, name) for name in buffers))
        return groups.get((number, frozenset(members)), "_".join(members)), members

    decisions = [
        item._replace(first=writers.get(item.first, item.first), second=writers.get(item.second, item.second))
        if item.first in writers or item.second in writers
        else item
        for item in log.decisions
    ]
    for item in log.benchmarks:
        if item.verdict == "rejected" and item.first_members and item.second_members:
            first, first_members = named(item.round, item.first_members)
            second, second_members = named(item.round, item.second_members)
            decisions.append(
                item._replace(
                    first=first, second=second, first_members=first_members, second_members=second_members
                )
            )
    return tuple(sorted(decisions, key=lambda decision: decision.line or 0))


class _Side(NamedTuple):
    """A node or group: the bytes that it reads or writes of each storage, the larger of the two; the
    post-fusion entries that its leaves ended in; what their loops can run as."""

    touched: Mapping[str, int | None]
    groups: frozenset[str]
    extents: frozenset[tuple[Size, Size]]


class _Shared(NamedTuple):
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
        if name not in self._members:
            self._members[name] = (name,) if name in self.nodes else tuple(self._split(name))
        return self._members[name]

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

    def __init__(self, decisions: Iterable[Decision], nodes: Iterable[NodeTraffic]) -> None:
        self._names = Names(nodes)
        self._sides: dict[str, _Side] = {}
        self._pairs: dict[tuple[str, str], _Shared] = {}
        self._categories: dict[tuple[str, str, str | None], tuple[Category, bool]] = {}
        self._by_groups: dict[tuple[str, str], list[Decision]] = {}
        self.all: tuple[Decision, ...] = tuple(map(self._classify, decisions))

    def _side(self, name: str) -> _Side:
        """Worked out once, as rounds ask about the same names again and again."""
        if name not in self._sides:
            nodes = [self._names.nodes[member] for member in self._names.members(name)]
            touched: dict[str, int | None] = {}
            for access in (access for node in nodes for access in (*node.reads, *node.writes)):
                known = touched.get(access.memory, 0)
                touched[access.memory] = (
                    None if known is None or access.bytes is None else max(known, access.bytes)
                )
            extents = frozenset(extent for node in nodes for extent in node.extents)
            self._sides[name] = _Side(touched, frozenset(node.group for node in nodes), extents)
        return self._sides[name]

    def loops_differ(self, first: str, second: str) -> bool:
        """Whether no loop of one side runs over as many points as some loop of the other; false where a
        side has no loops."""
        one, two = self._side(first).extents, self._side(second).extents
        return bool(one) and bool(two) and one.isdisjoint(two)

    def _shared(self, first: str, second: str) -> _Shared:
        """What a pair shares; kept for the same reason."""
        one, two = self._side(first), self._side(second)
        memories = tuple(sorted(one.touched.keys() & two.touched.keys()))
        size: int | None = 0
        for memory in memories:
            a, b = one.touched[memory], two.touched[memory]
            size = None if size is None or a is None or b is None else size + min(a, b)
        pair = None
        if len(one.groups) == len(two.groups) == 1 and one.groups != two.groups:
            a_name, b_name = sorted(one.groups | two.groups)
            pair = (a_name, b_name)
        one_group = len(one.groups | two.groups) == 1
        shared = self._pairs[first, second] = _Shared(memories, size, one_group, pair)
        return shared

    def _classify(self, decision: Decision) -> Decision:
        first, second = decision.first, decision.second
        if decision.first_members:
            self._names.learn(first, decision.first_members)
        if decision.second_members:
            self._names.learn(second, decision.second_members)
        shared = self._pairs.get((first, second)) or self._shared(first, second)
        category: Category | None = None
        inferred = False
        if decision.measured:
            category = "measured_slower"
        elif decision.verdict != "fused":
            key = (first, second, decision.reason)
            known = self._categories.get(key)
            if known is None:
                known = self._categories[key] = self._category(*key, shared)
            category, inferred = known
        decision = decision._replace(
            category=category,
            shared=shared.memories,
            shared_bytes=shared.bytes,
            fused_later=decision.verdict != "fused" and shared.one_group,
            inferred=inferred,
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


def most_informative(decisions: Sequence[Decision]) -> Decision | None:
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
    groups: dict[str, list[Decision]] = {}
    for decision in decisions:
        groups.setdefault(decision.category or decision.verdict, []).append(decision)
    return dict(sorted(groups.items(), key=lambda item: (item[0] != "fused", -len(item[1]))))


def shared_accesses(one: Iterable[Access], two: Iterable[Access]) -> tuple[Access, ...]:
    """Storage that both touch, with the smaller of the two sides' bytes."""
    mine: dict[str, Access] = {}
    for access in one:
        known = mine.get(access.memory)
        if known is None or (known.bytes or 0) < (access.bytes or 0):
            mine[access.memory] = access
    shared: dict[str, Access] = {}
    for access in two:
        other = mine.get(access.memory)
        if other is None:
            continue
        smaller = access if _least(access, other) is access else other
        known = shared.get(access.memory)
        if known is None or (known.bytes or 0) < (smaller.bytes or 0):
            shared[access.memory] = smaller
    return tuple(shared.values())


def _least(one: Access, two: Access) -> Access:
    if one.bytes is None or two.bytes is None:
        return one if one.bytes is None else two
    return one if one.bytes <= two.bytes else two
