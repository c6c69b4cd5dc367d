"""Traffic as written: of the bytes that generated kernels move, those that the program's operators ask for.

A write into a part of a tensor asks for that part. Where functionalisation made a new tensor of it, kernels
read the old one and write all of the new one; what they only pass on was never asked for, nor is the copy
back into an input, nor reading one view from the several buffers that its parts lie in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from inspector.frozen import dataclass
from inspector.model.fusion import Access, FusionGroup, NodeTraffic
from inspector.model.fx import FxNode
from inspector.model.run import GraphArtifacts
from inspector.model.source import SourceLocation
from inspector.model.waste import Rewritten

from .dataflow import operator
from .traffic import Memory
from .written_in_place import CARRIES, InPlace, Storage, writes_in_place


@dataclass(frozen=True, slots=True)
class AsWritten:
    """`groups` with `bytes_asked`, and the storages that are rewritten, the most wasteful first."""

    groups: tuple[FusionGroup, ...]
    rewritten: tuple[Rewritten, ...]


def as_written(
    artifacts: GraphArtifacts, groups: Sequence[FusionGroup], nodes: Sequence[NodeTraffic], memory: Memory
) -> AsWritten:
    """What each group is asked to move. Never more than it moves, and as much where nothing is rewritten."""
    in_place = writes_in_place(artifacts.fx_after, artifacts.fx_before)
    if not in_place.storages:
        return AsWritten(tuple(replace(group, bytes_asked=group.bytes_moved) for group in groups), ())
    count = _Count(artifacts, in_place, nodes, memory)
    by_name = {node.name: node for node in nodes}
    asked_groups = []
    moved: dict[str, int] = {}
    wasted: dict[str, dict[str, int]] = {}
    for group in groups:
        leaves = [by_name[name] for name in group.nodes if name in by_name]
        reads, writes = count.asked(leaves)
        asked: int | None = 0
        for access, of_storage in (
            *((access, reads) for access in group.reads),
            *((access, writes) for access in group.writes),
        ):
            if asked is None or access.bytes is None:
                asked = None
                continue
            storage = count.storage_of(access.buffer)
            if storage is None:
                asked += access.bytes
                continue
            useful = min(access.bytes, of_storage.get(storage, 0))
            of_storage[storage] = of_storage.get(storage, 0) - useful
            asked += useful
            moved[storage] = moved.get(storage, 0) + access.bytes
            own = wasted.setdefault(storage, {})
            own[group.name] = own.get(group.name, 0) + access.bytes - useful
        asked_groups.append(replace(group, bytes_asked=asked))
    return AsWritten(tuple(asked_groups), tuple(_rewritten(artifacts, in_place, moved, wasted)))


class _Count:
    """What leaves have to read and write of the storages that the program writes in parts."""

    def __init__(
        self, artifacts: GraphArtifacts, in_place: InPlace, nodes: Sequence[NodeTraffic], memory: Memory
    ) -> None:
        graph = artifacts.fx_after
        self._fx: dict[str, FxNode] = {node.name: node for node in graph.nodes} if graph else {}
        order = {name: position for position, name in enumerate(self._fx)}
        self._in_place = in_place
        self._memory = memory
        self._parts_done: set[str] = set()
        self._value: dict[str, str] = {
            buffer.name: buffer.origin
            for buffer in (artifacts.record.buffers if artifacts.record else ())
            if buffer.origin is not None
        }
        for node in nodes:
            last = max((name for name in node.fx if name in order), key=order.__getitem__, default=None)
            for access in node.writes:
                if last is not None:
                    self._value.setdefault(access.buffer, last)
        # A tensor that begins as a constant is first written where its first part is.
        held = set(self._value.values()) | {node.name for node in (graph.placeholders if graph else ())}
        self._unwritten = {name: self._bytes(name) for name in in_place.storages if name not in held}

    def storage_of(self, buffer: str) -> str | None:
        """The storage that a buffer holds a version, or a view, of."""
        value = self._value.get(buffer, buffer)
        name = self._in_place.root.get(value, value)
        if name in self._in_place.storages:
            return name
        # A copy into an input that is a version of it.
        return next((s.name for s in self._in_place.storages.values() if value in s.versions), None)

    def asked(self, leaves: Sequence[NodeTraffic]) -> tuple[dict[str, int], dict[str, int]]:
        """Storage -> bytes that the program asks these leaves to read, and to write."""
        reads: dict[str, int] = {}
        writes: dict[str, int] = {}
        for leaf in leaves:
            own = {self.storage_of(access.buffer) for access in leaf.writes}
            given: dict[str, int] = {}
            for access in leaf.reads:
                if (storage := self.storage_of(access.buffer)) is not None:
                    given[storage] = given.get(storage, 0) + (access.bytes or 0)
            for storage, amount in given.items():
                needed = self._needed(leaf, storage)
                # Whoever reads it and is no version of it uses all that it reads, where no view says less.
                asked = min(amount, needed) if needed or storage in own else amount
                reads[storage] = reads.get(storage, 0) + asked
            for access in leaf.writes:
                if (storage := self.storage_of(access.buffer)) is not None:
                    writes[storage] = writes.get(storage, 0) + self._written(leaf, access, storage)
        return reads, writes

    def _written(self, leaf: NodeTraffic, access: Access, storage: str) -> int:
        name = self._value.get(access.buffer, "")
        if name == storage:
            return access.bytes or 0
        value = self._fx.get(name)
        if self._memory.is_mutation(access.buffer):
            # Indices say which part it is; a copy into the input was never asked for.
            return 0 if value is not None and operator(value.target) in CARRIES else access.bytes or 0
        own = self._in_place.storages[storage]
        parts = [name for name in leaf.fx if name in own.parts and name not in self._parts_done]
        self._parts_done.update(parts)
        amount = sum(self._bytes(source) for name in parts if (source := own.parts[name]) is not None)
        first = min(max(0, (access.bytes or 0) - amount), self._unwritten.get(storage, 0))
        if first:
            self._unwritten[storage] -= first
        return amount + first

    def _needed(self, leaf: NodeTraffic, storage: str) -> int:
        """Bytes of the views of a storage that the leaf's operators read."""
        views: dict[str, None] = {}
        for name in leaf.fx:
            node = self._fx.get(name)
            if node is None or name in self._in_place.root:
                continue
            kind = operator(node.target)
            if kind in CARRIES:
                continue
            for given in map(self._shown, node.inputs[kind == "copy" :]):
                if self._in_place.root.get(given, given) == storage:
                    views[given] = None
        return sum(map(self._bytes, views))

    def _shown(self, name: str) -> str:
        """What the post-grad passes call a reshape and the program a view."""
        while name in self._fx and operator(self._fx[name].target) == "reshape" and self._fx[name].inputs:
            name = self._fx[name].inputs[0]
        return name

    def _bytes(self, name: str) -> int:
        meta = self._fx[name].meta if name in self._fx else None
        return self._memory.tensor_bytes(meta) if meta is not None else 0


def _rewritten(
    artifacts: GraphArtifacts,
    in_place: InPlace,
    moved: Mapping[str, int],
    wasted: Mapping[str, Mapping[str, int]],
) -> Iterable[Rewritten]:
    made = []
    for storage in in_place.storages.values():
        groups = {name: amount for name, amount in wasted.get(storage.name, {}).items() if amount}
        if groups:
            lost = sum(groups.values())
            whole = moved[storage.name]
            made.append(
                Rewritten(
                    storage.name,
                    tuple(storage.parts),
                    _sources(artifacts, storage),
                    whole,
                    whole - lost,
                    tuple(groups.items()),
                    None in storage.parts.values(),
                )
            )
    return sorted(made, key=lambda item: -item.wasted)


def _sources(artifacts: GraphArtifacts, storage: Storage) -> tuple[SourceLocation, ...]:
    """The program's lines of the writes: of the node itself, else of what it writes."""
    place: dict[str, SourceLocation] = {}
    for graph in (artifacts.fx_before, artifacts.fx_after):
        for node in graph.nodes if graph else ():
            if node.source is not None:
                place[node.name] = node.source
    lines: dict[str, SourceLocation] = {}
    for name, written in storage.parts.items():
        source = place.get(written or "") or place.get(name)
        if source is not None:
            lines.setdefault(str(source), source)
    return tuple(lines.values())
