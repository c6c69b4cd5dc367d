"""Final groups that touch the same memory and did not fuse, ranked by the bytes that it costs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from inspector.frozen import dataclass
from inspector.model.decision import NO_EVIDENCE, Category, Decision, Verdict
from inspector.model.fusion import Access, FusionGroup, Missed, NodeTraffic
from inspector.model.schedule import Dependency, SchedulerNode
from inspector.model.source import numel

from .decisions import Decisions, most_informative, shared_accesses
from .fusion_groups import WALLS
from .reasons import CATEGORIES, Reason, around_library, classify
from .traffic import Memory

TINY_BYTES = 1024
"""Pairs that would save less are left out by default: less than a launch costs on any machine."""

_NEIGHBOURS = 64
"""How many groups further on a shared buffer is looked for: torch's own
max_fusion_buffer_group_pairwise_attempts."""

_CPP_HORIZONTAL = 16
"""cpp.max_horizontal_fusion_size, at which codegen/cpp.py: CppScheduling.can_fuse_horizontal refuses."""

_VAGUE: tuple[Category, ...] = ("order", "no_shared_data", "never_tried")
"""Answers that say nothing about a pair that does share data: the schedule may say more."""

_SILENT = Reason(
    "other", "torch refused without a reason, which is mostly the backend for the form of the loops"
)

_OUTSIDE = WALLS | {"part"}

_MOST_BETWEEN = 4

_LONG_INDEX = 60

_OFFSET = re.compile(r" \+ \d+$")
"""What an index of torch's starts at, which it writes last."""

_COLUMNS_ADVICE = (
    "Nothing in the layout: a sum down the columns, as a bias's gradient is, reads rows that others have "
    "written. A Linear in front of a normalization that centres needs no bias."
)

_PLACES_ADVICE = (
    "Nothing in the layout: in one loop each value would be computed again for each place that reads it."
)

# d1 + 4096*tmp0
_LOOKED_UP = re.compile(r"\b(?:tmp|indirect)\d+\b")

# c1 + 40*(ModularIndexing(c0 + 3, 1, 4))
_ROLLED = re.compile(r"ModularIndexing\(\w+ \+ \d+, 1, ")

_SLICES_ADVICE = (
    "Nothing in the layout: loops over slices of other extents do not fuse. Loops over the whole of it, with "
    "a mask for its borders, may."
)

_ALIKE_ADVICE = (
    "Nothing in the program: both reduce as much to as many results; torch fuses only loops that are split "
    "alike."
)


@dataclass(frozen=True, slots=True)
class MissedPairs:
    """`shown` is worst first, without `minor`: pairs that are tiny or join two library calls, which
    `noise` counts."""

    shown: tuple[Missed, ...]
    minor: tuple[Missed, ...]
    noise: Mapping[str, int]


def missed_fusions(
    groups: Sequence[FusionGroup],
    nodes: Sequence[NodeTraffic],
    leaves: Mapping[str, SchedulerNode],
    memory: Memory,
    decisions: Decisions,
    recorded: bool,
) -> MissedPairs:
    """All pairs of final groups with common memory. `recorded`: decisions were written down at all."""
    finder = _Finder(groups, {node.name: node for node in nodes}, leaves, memory, decisions, recorded)
    shown: list[Missed] = []
    minor: list[Missed] = []
    noise = {"tiny": 0, "library_calls": 0}
    for first, second in finder.pairs():
        missed = finder.missed(first, second)
        if groups[first].is_wall and groups[second].is_wall:
            noise["library_calls"] += 1
            minor.append(missed)
        elif missed.bytes is not None and missed.bytes < TINY_BYTES:
            noise["tiny"] += 1
            minor.append(missed)
        else:
            shown.append(missed)
    shown.sort(key=_rank)
    minor.sort(key=_rank)
    return MissedPairs(tuple(shown), tuple(minor), noise)


def _rank(missed: Missed) -> tuple[bool, int]:
    return missed.bytes is None, -(missed.bytes or 0)


@dataclass
class _Finder:
    groups: Sequence[FusionGroup]
    nodes: Mapping[str, NodeTraffic]
    leaves: Mapping[str, SchedulerNode]
    memory: Memory
    decisions: Decisions
    recorded: bool

    def __post_init__(self) -> None:
        self.readers: dict[str, set[int]] = {}
        self.touching: dict[str, list[int]] = {}
        self.after = [0] * len(self.groups)
        self.before = [0] * len(self.groups)
        self._index()

    def _index(self) -> None:
        """Who touches, reads and needs what. What lies before and after a group is a mask of positions: a
        thousand groups' closures are a few hundred KB so, where networkx's sets would be a million entries.
        """
        writers: dict[str, int] = {}
        sources: list[set[int]] = []
        for position, group in enumerate(self.groups):
            for name in dict.fromkeys(access.memory for access in (*group.reads, *group.writes)):
                self.touching.setdefault(name, []).append(position)
            own = [self.leaves[name] for name in group.nodes if name in self.leaves]
            needed: set[int] = set()
            for leaf in own:
                for dep in (*leaf.met, *leaf.unmet):
                    source = writers.get(dep.buffer)
                    if dep.kind != "weak":
                        self.readers.setdefault(dep.buffer, set()).add(position)
                    if source is not None and source != position:
                        needed.add(source)
            for leaf in own:
                for buffer in leaf.outputs:
                    writers[buffer.name] = position
            for source in needed:
                self.before[position] |= self.before[source] | 1 << source
            sources.append(needed)
        for position in reversed(range(len(self.groups))):
            for source in sources[position]:
                self.after[source] |= self.after[position] | 1 << position

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Positions of groups that touch common memory, each pair once, earlier group first."""
        seen: set[tuple[int, int]] = set()
        for positions in self.touching.values():
            for number, first in enumerate(positions):
                for second in positions[number + 1 : number + 1 + _NEIGHBOURS]:
                    if (first, second) not in seen:
                        seen.add((first, second))
                        yield first, second

    def missed(self, first: int, second: int) -> Missed:
        one, two = self.groups[first], self.groups[second]
        shared = shared_accesses((*one.reads, *one.writes), (*two.reads, *two.writes))
        shared = tuple(sorted(shared, key=lambda access: -(access.bytes or 0)))
        between = self._between(first, second)
        decision = most_informative(self.decisions.between(one.name, two.name))
        wall = next((group for group in (one, two) if self._is_outside(group)), None)
        category, plain, advice = self._why(one, two, shared, between, wall, decision)
        if category == "extern_kernel" and wall is not None:
            advice = advice or around_library(self._call_name(wall), wall.device or "")
        info = CATEGORIES[category]
        never = self._never(category, one, two, shared)
        if never is not None:
            plain, advice = never[0] or plain, never[1]
        verdict: Verdict = decision.verdict if decision is not None else "never_tried"
        return Missed(
            first=one.name,
            second=two.name,
            bytes=self._savings(first, second),
            buffers=shared,
            verdict=verdict,
            category=category,
            reason=(decision.reason or "") if decision is not None else "",
            plain=plain,
            advice=advice or info.advice,
            possible=info.possible and never is None,
            inferred=decision is None or decision.inferred or category != decision.category,
            line=decision.line if decision is not None else None,
            first_sources=one.sources,
            second_sources=two.sources,
            between=between,
            by_torch=decision is None or decision.by_torch,
            evidence=decision.evidence if decision is not None else NO_EVIDENCE,
        )

    def _savings(self, first: int, second: int) -> int | None:
        """Bytes that one group of both would save on top of what each saves.

        A common read is made once; what the first writes and the second reads is not read again, and not
        written either where nobody else needs it.
        """
        one, two = self.groups[first], self.groups[second]
        written = {access.buffer: access for access in one.writes}
        read = {access.memory: access for access in one.reads}
        saved = 0
        for access in two.reads:
            made = written.get(access.buffer)
            common = read.get(access.memory)
            if made is not None:
                if access.bytes is None or made.bytes is None:
                    return None
                saved += access.bytes
                if self._gone(access.buffer, {first, second}):
                    saved += made.bytes
            elif common is not None:
                if access.bytes is None or common.bytes is None:
                    return None
                saved += min(access.bytes, common.bytes)
        return saved

    def _gone(self, buffer: str, positions: set[int]) -> bool:
        """Whether nobody outside these groups needs a buffer."""
        memory = self.memory
        if memory.is_mutation(buffer) or buffer in memory.changed or buffer in memory.outputs:
            return False
        return self.readers.get(buffer, set()) <= positions

    def _between(self, first: int, second: int) -> tuple[str, ...]:
        """Groups that need the first and that the second needs."""
        mask = self.after[first] & self.before[second]
        names: list[str] = []
        while mask and len(names) < _MOST_BETWEEN:
            lowest = mask & -mask
            names.append(self.groups[lowest.bit_length() - 1].name)
            mask ^= lowest
        return tuple(names)

    # -- why

    def _why(
        self,
        one: FusionGroup,
        two: FusionGroup,
        shared: tuple[Access, ...],
        between: tuple[str, ...],
        wall: FusionGroup | None,
        decision: Decision | None,
    ) -> tuple[Category, str, str]:
        """Category, a sentence in plain words, and advice where the text has its own."""
        if decision is not None and decision.category not in (None, *_VAGUE):
            assert decision.category is not None
            if decision.category == "index_mismatch" and self._axes_differ(one, two):
                loops = self._detail("iteration_ranges", one, two, shared, between, wall)
                return "iteration_ranges", f"the two reduce over different axes; {loops}", ""
            reason = classify(decision.reason) if decision.reason else _SILENT
            detail = self._detail(decision.category, one, two, shared, between, wall)
            plain = "; ".join(part for part in (reason.plain, detail) if part)
            return decision.category, plain or CATEGORIES[decision.category].meaning, reason.advice
        category, remark = self._likely(one, two, between, wall, decision)
        detail = self._detail(category, one, two, shared, between, wall)
        plain = "; ".join(part for part in (detail, remark) if part)
        return category, plain or CATEGORIES[category].meaning, ""

    def _axes_differ(self, one: FusionGroup, two: FusionGroup) -> bool:
        """Whether both reduce, and none of one to as many results as any of the other."""
        kept = [
            {numel(sizes[0]) for leaf in self._reducing(group) if (sizes := leaf.sizes)}
            for group in (one, two)
        ]
        return all(kept) and kept[0].isdisjoint(kept[1])

    def _is_outside(self, group: FusionGroup) -> bool:
        """Whether a group is a library call, or a tensor that one returned."""
        return group.is_wall or all(self.nodes[name].kind in _OUTSIDE for name in group.nodes)

    def _likely(
        self,
        one: FusionGroup,
        two: FusionGroup,
        between: tuple[str, ...],
        wall: FusionGroup | None,
        decision: Decision | None,
    ) -> tuple[Category, str]:
        """What kept torch from asking, or from answering, as far as the schedule shows it."""
        silent = "torch wrote no line on this pair" if self.recorded else "no decisions were recorded"
        if decision is not None and decision.verdict == "never_tried":
            silent = classify(decision.reason or "").plain or silent
        if wall is not None:
            return "extern_kernel", ""
        if one.device != two.device:
            return "device", ""
        if between:
            return "cycle", silent
        if self.decisions.loops_differ(one.name, two.name):
            return "iteration_ranges", silent
        if one.device == "cpu" and self.recorded and (decision is None or decision.by_torch):
            feeds = {access.buffer for access in one.writes} & {access.buffer for access in two.reads}
            if not feeds and len(one.nodes) + len(two.nodes) > _CPP_HORIZONTAL:
                return "limit", f"more than {_CPP_HORIZONTAL} nodes side by side; {silent}"
            return "never_tried", "the C++ backend refuses without a line, mostly for the form of the loops"
        return "never_tried", silent

    def _detail(
        self,
        category: Category,
        one: FusionGroup,
        two: FusionGroup,
        shared: tuple[Access, ...],
        between: tuple[str, ...],
        wall: FusionGroup | None,
    ) -> str:
        if category == "cycle" and between:
            return f"{', '.join(between)} {'lies' if len(between) == 1 else 'lie'} between the two"
        if category == "extern_kernel" and wall is not None:
            return f"{wall.name} is {self._call_name(wall)}, which runs as it is"
        if category == "device":
            return f"{one.device} and {two.device}"
        if category == "iteration_ranges":
            return f"loops {self._ranges(one)} and {self._ranges(two)}"
        if category == "index_mismatch" and shared:
            made = {access.buffer for access in one.writes}
            handed = next((access for access in shared if access.buffer in made), shared[0])
            return self._indices(one, two, handed)
        return ""

    def _call_name(self, group: FusionGroup) -> str:
        leaf = self.leaves.get(group.nodes[0])
        return group.kernel or (leaf.kernel if leaf is not None and leaf.kernel else "a library call")

    def _reducing(self, group: FusionGroup) -> list[SchedulerNode]:
        """The leaves of a group that reduce something, or may."""
        own = (self.leaves.get(name) for name in group.nodes)
        return [leaf for leaf in own if leaf is not None and leaf.sizes and numel(leaf.sizes[1]) != 1]

    def _never(
        self, category: Category, one: FusionGroup, two: FusionGroup, shared: Sequence[Access]
    ) -> tuple[str, str] | None:
        """Of a pair whose category may fuse and which may not: why, where that says more, and the advice."""
        if category == "index_mismatch" and (columns := self._sums_columns(one, two, shared)):
            return columns, _COLUMNS_ADVICE
        if category == "index_mismatch" and (places := self._reads_around(one, two)):
            return places, _PLACES_ADVICE
        if category == "index_mismatch" and (slices := self._other_slices(one, two, shared)):
            return slices, _SLICES_ADVICE
        if category == "iteration_ranges" and self._written_otherwise(one, two):
            return "", _ALIKE_ADVICE
        return None

    def _sums_columns(self, one: FusionGroup, two: FusionGroup, shared: Sequence[Access]) -> str:
        """That one of the two reduces what they share down its columns, if the other reduces nothing: its
        loops would have to run from row to row for each result. Empty elsewhere."""
        both = [self._reducing(group) for group in (one, two)]
        if all(both):
            return ""
        roots = {access.memory: access.buffer for access in shared}
        for leaf in (*both[0], *both[1]):
            for dep in (*leaf.met, *leaf.unmet):
                if (buffer := roots.get(self.memory.root(dep.buffer))) and _down_columns(leaf, dep):
                    return f"{leaf.name} reduces {buffer} down its columns"
        return ""

    def _reads_around(self, one: FusionGroup, two: FusionGroup) -> str:
        """That a loop of the second reads what the first writes at several places at once, as a stencil does,
        from another one on, as `roll` has it, or at places that are data: these are not written yet. Empty
        elsewhere."""
        written = {access.buffer for access in one.writes}
        for name in two.nodes:
            leaf = self.leaves.get(name)
            places: dict[str, set[str]] = {}
            for dep in leaf.reads if leaf is not None else ():
                if dep.index is not None:
                    places.setdefault(dep.buffer, set()).add(dep.index)
            for buffer in written & places.keys():
                if any(map(_LOOKED_UP.search, places[buffer])):
                    return f"{name} reads {buffer} at places that are data"
                if len(places[buffer]) > 1:
                    return f"{name} reads {buffer} at {len(places[buffer])} places for each of its elements"
                if any(map(_ROLLED.search, places[buffer])):
                    return f"{name} reads {buffer} rolled"
        return ""

    def _other_slices(self, one: FusionGroup, two: FusionGroup, shared: Sequence[Access]) -> str:
        """That the two go in the same order over all that they share, and each over a slice with other
        extents. Empty elsewhere."""
        slices = [self._slices(one, two, access) for access in shared]
        return slices[0] if slices and all(slices) else ""

    def _slices(self, one: FusionGroup, two: FusionGroup, access: Access) -> str:
        """Of one buffer, wherever they begin."""
        first, second = (
            {
                (_OFFSET.sub("", dep.index or ""), tuple(extent for _, extent in dep.ranges))
                for dep in self._deps(group, access.memory)
            }
            for group in (one, two)
        )
        # Sizes may be symbols, which are sorted with numbers as text alone.
        extents = [sorted({extents for _, extents in walks}, key=str) for walks in (first, second)]
        if len({order for order, _ in first | second}) != 1 or not all(extents):
            return ""
        if not set(extents[0]).isdisjoint(extents[1]):
            return ""
        return f"of {access.buffer} the one reads {_sizes(extents[0])}, the other {_sizes(extents[1])}"

    def _deps(self, group: FusionGroup, memory: str) -> Iterator[Dependency]:
        """How the leaves of a group address a buffer: of each its writes first."""
        for leaf in (self.leaves[name] for name in group.nodes if name in self.leaves):
            for dep in (*leaf.writes, *leaf.reads):
                if dep.index is not None and self.memory.root(dep.buffer) == memory:
                    yield dep

    def _written_otherwise(self, one: FusionGroup, two: FusionGroup) -> bool:
        """Whether both reduce as much to as many results, in loops that are split in other ways."""
        first, second = ({_products(self.nodes[name].ranges) for name in group.nodes} for group in (one, two))
        return len(first) == 1 and first == second and all(reduced for _, reduced in first)

    def _ranges(self, group: FusionGroup) -> str:
        texts = dict.fromkeys(self.nodes[name].ranges for name in group.nodes if self.nodes[name].ranges)
        return " / ".join(list(texts)[:3]) or "unknown"

    def _indices(self, one: FusionGroup, two: FusionGroup, access: Access) -> str:
        first, second = self._index_of(one, access.memory), self._index_of(two, access.memory)
        if first and second and first != second:
            return f"{access.buffer} at {first} in one and at {second} in the other"
        return f"{access.buffer} is addressed differently"

    def _index_of(self, group: FusionGroup, memory: str) -> str:
        dep = next(self._deps(group, memory), None)
        if dep is None:
            return ""
        loops = ", ".join(f"{variable}: {extent}" for variable, extent in dep.ranges)
        text = f"[{dep.index}]" + (f" {{{loops}}}" if loops else "")
        return text if len(text) <= _LONG_INDEX else ""


def _sizes(extents: Sequence[Sequence[int | str]]) -> str:
    return " and ".join(f"[{', '.join(map(str, sizes))}]" for sizes in extents)


def _products(ranges: str) -> tuple[str, str]:
    """The factors of the loops and of the reduction, of `NodeTraffic.ranges`, in order: those of
    ``[s21*s39] reduce [s61]`` are those of ``[s39, s21] reduce [s61]``."""
    loops, _, reduced = ranges.partition("reduce")
    return "*".join(sorted(re.findall(r"\w+", loops))), "*".join(sorted(re.findall(r"\w+", reduced)))


def _down_columns(leaf: SchedulerNode, dep: Dependency) -> bool:
    """Whether a reduction steps over elements that lie side by side, one for each of its results."""
    reduced: set[str] = set()
    left = numel(leaf.sizes[1]) if leaf.sizes else None
    for name, extent in reversed(dep.ranges):
        if not isinstance(left, int) or not isinstance(extent, int) or left <= 1 or left % extent:
            break
        reduced.add(name)
        left //= extent
    side_by_side = {
        term for name, _ in dep.ranges for term in (dep.index or "").split(" + ") if term.strip("()") == name
    }
    return left == 1 and bool(reduced) and bool(side_by_side) and side_by_side.isdisjoint(reduced)
