"""The neighbourhood of one node in boxes: whom it reads from, who reads it, what fused, what was refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from inspector.analysis.reasons import CATEGORIES
from inspector.model.fusion import FusionGroup, Missed, NodeTraffic
from inspector.model.links import Ref
from inspector.present.fusion import bytes_text
from inspector.present.fusion_lanes import NODE_TONES, kind_text
from inspector.present.fusion_why import Partners
from inspector.present.spans import Piece, TonedLine, TonedText, line
from inspector.present.tables import Tone
from inspector.present.text import elide

_MOST = 40
"""Neighbours drawn on each side; a buffer may have thousands of readers."""

_WIDEST_BOX = 44
_NARROWEST_BOX = 26
_OWN_BOX = 52
_LABEL = 49
"""Cells between box and trunk, such that most labels are whole."""

EdgeKind = Literal["fused", "refused", "apart"]
_STROKES: dict[EdgeKind, tuple[str, Tone]] = {
    "fused": ("━", "good"),
    "refused": ("╌", "bad"),
    "apart": ("─", "dim"),
}


@dataclass(frozen=True, slots=True)
class Edge:
    """A neighbour with the buffers between, bytes as the reader counts them. `missed`: that of the two final
    groups, where they share memory and did not fuse."""

    name: str
    buffers: tuple[str, ...]
    bytes: int | None
    kind: EdgeKind
    missed: Missed | None = None


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """`shares`: nodes that only touch the same memory as the node, refused all the same."""

    name: str
    producers: tuple[Edge, ...]
    consumers: tuple[Edge, ...]
    shares: tuple[Edge, ...]


class Neighbours:
    """Finds neighbourhoods; built once for a graph."""

    def __init__(self, partners: Partners) -> None:
        self.partners = partners
        self._writer: dict[str, str] = {}
        self._readers: dict[str, dict[str, int | None]] = {}
        for node in partners.report.nodes:
            for access in node.writes:
                self._writer[access.buffer] = node.name
            for access in node.reads:
                self._readers.setdefault(access.buffer, {})[node.name] = access.bytes

    def of(self, name: str) -> Neighbourhood:
        node = self.partners.names.nodes[name]
        producers: dict[str, list[tuple[str, int | None]]] = {}
        consumers: dict[str, list[tuple[str, int | None]]] = {}
        for access in node.reads:
            source = self._writer.get(access.buffer)
            if source is not None and source != name:
                producers.setdefault(source, []).append((access.buffer, access.bytes))
        for access in node.writes:
            for reader, size in self._readers.get(access.buffer, {}).items():
                if reader != name:
                    consumers.setdefault(reader, []).append((access.buffer, size))
        near = {*producers, *consumers}
        return Neighbourhood(
            name,
            tuple(self._edge(name, other, found) for other, found in producers.items()),
            tuple(self._edge(name, other, found) for other, found in consumers.items()),
            tuple(self._shares(name, near)),
        )

    def _edge(self, name: str, other: str, found: list[tuple[str, int | None]]) -> Edge:
        sizes = [size for _, size in found if size is not None]
        total = sum(sizes) if len(sizes) == len(found) else None
        buffers = tuple(buffer for buffer, _ in found)
        missed = self._missed(name, other)
        same = self.partners.report.group(name) is self.partners.report.group(other)
        kind: EdgeKind = "fused" if same else "refused" if missed is not None else "apart"
        return Edge(other, buffers, total, kind, missed)

    def _missed(self, one: str, two: str) -> Missed | None:
        first, second = self.partners.report.group(one), self.partners.report.group(two)
        if first is None or second is None or first is second:
            return None
        pair = {first.name, second.name}
        for position in self.partners.misses_of(one):
            missed = self.partners.report.missed[position]
            if {missed.first, missed.second} == pair:
                return missed
        return None

    def _shares(self, name: str, near: set[str]) -> Iterator[Edge]:
        group = self.partners.report.group(name)
        for position in self.partners.misses_of(name):
            missed = self.partners.report.missed[position]
            assert group is not None
            other = self.partners.report.group(missed.second if missed.first == group.name else missed.first)
            if other is not None and near.isdisjoint(other.nodes):
                buffers = tuple(access.buffer for access in missed.buffers)
                yield Edge(other.nodes[0], buffers, missed.bytes, "refused", missed)


# -- drawing


def boxes_text(neighbours: Neighbours, name: str, width: int) -> TonedText:
    """Producers above, the node in the middle, consumers below; edges run along the right side.

    Each box is three lines, and each of its lines stands for its node.
    """
    if name not in neighbours.partners.names.nodes:
        return TonedText(f"Around {name}", (line((f"{name} is not in the schedule", "dim")),))
    found = neighbours.of(name)
    drawing = _Drawing(neighbours.partners, max(width, 60))
    lines: list[TonedLine] = []
    if not found.producers:
        lines.append(line(("reads graph inputs only", "dim")))
    for number, edge in enumerate(found.producers[:_MOST]):
        lines += drawing.producer(edge, first=number == 0)
    lines += drawing.more(len(found.producers), bool(found.producers))
    start = len(lines) + 1
    lines += drawing.middle(name, bool(found.producers), bool(found.consumers))
    shown = found.consumers[:_MOST]
    for number, edge in enumerate(shown):
        lines += drawing.consumer(edge, last=number == len(shown) - 1)
    lines += drawing.more(len(found.consumers), False)
    if not found.consumers:
        made = {access.buffer for access in neighbours.partners.names.nodes[name].writes}
        is_result = not made.isdisjoint(neighbours.partners.report.outputs)
        lines.append(line(("a result of the graph" if is_result else "read by nobody in this graph", "dim")))
    if found.shares:
        lines.append(line(("touch the same memory, without data between them", "dim")))
        for edge in found.shares[:_MOST]:
            lines += drawing.apart(edge)
        lines += drawing.more(len(found.shares), False)
    legend = "━ fused  ╌ refused  ─ apart"
    return TonedText(f"Around {name} · {legend}", tuple(lines), start)


class _Drawing:
    """Boxes at the left, labels of edges, and one trunk at the right that joins them to the node's box."""

    def __init__(self, partners: Partners, width: int) -> None:
        self._partners = partners
        self._box = max(_NARROWEST_BOX, min(_WIDEST_BOX, width - _LABEL))
        self._trunk = width - 2
        """Column of the trunk."""
        self._own = min(_OWN_BOX, self._trunk - 6)

    def more(self, count: int, trunk: bool) -> list[TonedLine]:
        if count <= _MOST:
            return []
        text = f"  and {count - _MOST} more"
        return [line((text.ljust(self._trunk), "dim"), ("│" if trunk else "", "dim"))]

    def producer(self, edge: Edge, first: bool) -> list[TonedLine]:
        top, middle, bottom = self._frame(edge.name)
        corner = "┐" if first else "┤"
        ref = Ref("node", edge.name)
        above = "" if first else "│"
        return [
            self._row(top, above, ref),
            line(*middle, *self._label(edge, arrow=False), (corner, "dim"), ref=ref),
            self._row(bottom, "│", ref),
        ]

    def consumer(self, edge: Edge, last: bool) -> list[TonedLine]:
        top, middle, bottom = self._frame(edge.name)
        ref = Ref("node", edge.name)
        return [
            self._row(top, "│", ref),
            line(*middle, *self._label(edge, arrow=True), ("┘" if last else "┤", "dim"), ref=ref),
            self._row(bottom, "" if last else "│", ref),
        ]

    def apart(self, edge: Edge) -> list[TonedLine]:
        top, middle, bottom = self._frame(edge.name)
        ref = Ref("node", edge.name)
        return [
            self._row(top, "", ref),
            line(*middle, *self._label(edge, False), ref=ref),
            self._row(bottom, "", ref),
        ]

    def middle(self, name: str, reads: bool, read: bool) -> list[TonedLine]:
        """The node's own box: what it reads comes in at its first line, what it makes leaves at its last."""
        node, group = self._partners.names.nodes[name], self._partners.report.group(name)
        assert group is not None
        ref = Ref("node", name)
        inner = self._own - 4
        in_group = (
            f"{group.kind.replace('_', ' ')} of {len(group.nodes)}, saved {bytes_text(group.bytes_saved)}"
            if len(group.nodes) > 1
            else "fused with nothing"
        )
        places = f"{node.sources[0].short} " if node.sources else ""
        texts: list[list[Piece]] = [
            [*self._title(node, group, inner)],
            [(elide(f"{places}{', '.join(node.fx)}".strip(), inner), "dim")],
            [(elide(in_group, inner), "good" if len(group.nodes) > 1 else "dim")],
        ]
        room = self._trunk - self._own
        flat = "═" * (self._own - 2)
        lines = [self._row([(f"╔{flat}╗", "accent")], "│" if reads else "", ref)]
        for number, pieces in enumerate(texts):
            tail: list[Piece] = []
            if number == 0 and reads:
                tail = [("◀" + "─" * (room - 1) + "┘", "dim")]
            elif number == len(texts) - 1 and read:
                tail = [("─" * room + "┐", "dim")]
            lines.append(line(("║ ", "accent"), *_filled(pieces, inner), (" ║", "accent"), *tail, ref=ref))
        lines.append(self._row([(f"╚{flat}╝", "accent")], "│" if read else "", ref))
        return lines

    def _row(self, pieces: list[Piece], trunk: str, ref: Ref) -> TonedLine:
        used = sum(len(text) for text, _ in pieces)
        gap = " " * (self._trunk - used) if trunk else ""
        return line(*pieces, (gap, ""), (trunk, "dim"), ref=ref)

    def _frame(self, name: str) -> tuple[list[Piece], list[Piece], list[Piece]]:
        node, group = self._partners.names.nodes[name], self._partners.report.group(name)
        assert group is not None
        inner = self._box - 4
        tone: Tone = "bad" if group.is_wall else ""
        middle: list[Piece] = [
            ("│ ", tone),
            *_filled(self._title(node, group, inner), inner),
            (" │", tone),
        ]
        return (
            [("┌" + "─" * (self._box - 2) + "┐", tone)],
            middle,
            [("└" + "─" * (self._box - 2) + "┘", tone)],
        )

    def _title(self, node: NodeTraffic, group: FusionGroup, room: int) -> list[Piece]:
        name, kind = elide(node.name, 14), kind_text(node, group)
        left = max(0, room - len(name) - 2)
        kind = elide(kind, left) if left else ""
        ranges = (
            elide(node.ranges, room - len(name) - len(kind) - 4) if room - len(name) - len(kind) > 8 else ""
        )
        return [
            (f"{name}  ", ""),
            (kind, NODE_TONES.get(node.kind, "")),
            (f"  {ranges}" if ranges else "", "dim"),
        ]

    def _label(self, edge: Edge, arrow: bool) -> list[Piece]:
        """The edge from a box to the trunk, with its buffers, bytes and what became of it written on it."""
        stroke, tone = _STROKES[edge.kind]
        room = self._trunk - self._box
        buffers = edge.buffers[0] + (f" +{len(edge.buffers) - 1}" if len(edge.buffers) > 1 else "")
        fate = "fused" if edge.kind == "fused" else "apart"
        if edge.missed is not None:
            fate = f"✗ {CATEGORIES[edge.missed.category].title}"
        head = "◀" if arrow else ""
        text = elide(f" {buffers} {bytes_text(edge.bytes)} {fate} ", room - 4 - len(head))
        tail = room - 2 - len(head) - len(text)
        return [(f"{head}{stroke * 2}", tone), (text, tone), (stroke * tail, tone)]


def _filled(pieces: list[Piece], width: int) -> list[Piece]:
    """The pieces and as many blanks as `width` cells need."""
    used = sum(len(text) for text, _ in pieces)
    return [*pieces, (" " * max(0, width - used), "")]
