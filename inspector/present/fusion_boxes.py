"""The neighbourhood of one node in boxes: whom it reads from, who reads it, what fused, what was refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from inspector.analysis.reasons import CATEGORIES
from inspector.frozen import dataclass
from inspector.model.fusion import FusionGroup, Missed, NodeTraffic
from inspector.model.links import Ref
from inspector.text import cells, elide, pad, spaced
from inspector.units import size

from .fusion import kind_text
from .fusion_lanes import NODE_TONES
from .fusion_why import Partners
from .spans import Line, Page, Span, Tone, line, toned

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
            for reader, count in self._readers.get(access.buffer, {}).items():
                if reader != name:
                    consumers.setdefault(reader, []).append((access.buffer, count))
        near = {*producers, *consumers}
        return Neighbourhood(
            name,
            tuple(self._edge(name, other, buffers) for other, buffers in producers.items()),
            tuple(self._edge(name, other, buffers) for other, buffers in consumers.items()),
            tuple(self._shares(name, near)),
        )

    def _edge(self, name: str, other: str, between: list[tuple[str, int | None]]) -> Edge:
        known = [count for _, count in between if count is not None]
        total = sum(known) if len(known) == len(between) else None
        buffers = tuple(buffer for buffer, _ in between)
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


def boxes_page(neighbours: Neighbours, name: str, width: int) -> Page:
    """Producers above, the node in the middle, consumers below; edges run along the right side.

    Each box is three lines, and each of its lines stands for its node.
    """
    if name not in neighbours.partners.names.nodes:
        return Page(f"Around {name}", (toned(f"{name} is not in the schedule", "dim"),))
    around = neighbours.of(name)
    drawing = _Drawing(neighbours.partners, max(width, 60))
    lines: list[Line] = []
    if not around.producers:
        lines.append(toned("reads graph inputs only", "dim"))
    for number, edge in enumerate(around.producers[:_MOST]):
        lines += drawing.box(edge, "│" if number else "", "┤" if number else "┐", "│")
    lines += drawing.more(len(around.producers), bool(around.producers))
    start = len(lines) + 1
    lines += drawing.middle(name, bool(around.producers), bool(around.consumers))
    shown = around.consumers[:_MOST]
    for number, edge in enumerate(shown):
        last = number == len(shown) - 1
        lines += drawing.box(edge, "│", "┘" if last else "┤", "" if last else "│", arrow=True)
    lines += drawing.more(len(around.consumers), False)
    if not around.consumers:
        made = {access.buffer for access in neighbours.partners.names.nodes[name].writes}
        is_result = not made.isdisjoint(neighbours.partners.report.outputs)
        lines.append(toned("a result of the graph" if is_result else "read by nobody in this graph", "dim"))
    if around.shares:
        lines.append(toned("touch the same memory, without data between them", "dim"))
        for edge in around.shares[:_MOST]:
            lines += drawing.box(edge)
        lines += drawing.more(len(around.shares), False)
    legend = "━ fused  ╌ refused  ─ apart"
    return Page(f"Around {name} · {legend}", tuple(lines), start)


class _Drawing:
    """Boxes at the left, labels of edges, and one trunk at the right that joins them to the node's box."""

    def __init__(self, partners: Partners, width: int) -> None:
        self._partners = partners
        self._box = max(_NARROWEST_BOX, min(_WIDEST_BOX, width - _LABEL))
        self._trunk = width - 2
        """Column of the trunk."""
        self._own = min(_OWN_BOX, self._trunk - 6)

    def more(self, count: int, trunk: bool) -> list[Line]:
        if count <= _MOST:
            return []
        return [toned(pad(f"  and {count - _MOST} more", self._trunk) + "│" * trunk, "dim")]

    def box(
        self, edge: Edge, above: str = "", corner: str = "", below: str = "", arrow: bool = False
    ) -> list[Line]:
        """A neighbour's box with its edge; `above`, `corner` and `below` are the trunk beside its lines."""
        node, group = self._partners.names.nodes[edge.name], self._partners.report.group(edge.name)
        assert group is not None
        inner, ref = self._box - 4, Ref("node", edge.name)
        tone: Tone = "bad" if group.is_wall else ""
        flat = "─" * (self._box - 2)
        title = _filled(self._title(node, group, inner), inner)
        label = self._label(edge, arrow)
        return [
            self._row([Span(f"┌{flat}┐", tone)], above, ref),
            line(Span("│ ", tone), *title, Span(" │", tone), label, Span(corner, "dim"), ref=ref),
            self._row([Span(f"└{flat}┘", tone)], below, ref),
        ]

    def middle(self, name: str, reads: bool, read: bool) -> list[Line]:
        """The node's own box: what it reads comes in at its first line, what it makes leaves at its last."""
        node, group = self._partners.names.nodes[name], self._partners.report.group(name)
        assert group is not None
        ref = Ref("node", name)
        inner = self._own - 4
        in_group = (
            f"{spaced(group.kind)} of {len(group.nodes)}, saved {size(group.bytes_saved)}"
            if len(group.nodes) > 1
            else "fused with nothing"
        )
        places = f"{node.sources[0].short} " if node.sources else ""
        texts: list[list[Span]] = [
            self._title(node, group, inner),
            [Span(elide(f"{places}{', '.join(node.fx)}".strip(), inner), "dim")],
            [Span(elide(in_group, inner), "good" if len(group.nodes) > 1 else "dim")],
        ]
        room = self._trunk - self._own
        flat = "═" * (self._own - 2)
        lines = [self._row([Span(f"╔{flat}╗", "accent")], "│" if reads else "", ref)]
        for number, spans in enumerate(texts):
            tail: list[Span] = []
            if number == 0 and reads:
                tail = [Span("◀" + "─" * (room - 1) + "┘", "dim")]
            elif number == len(texts) - 1 and read:
                tail = [Span("─" * room + "┐", "dim")]
            lines.append(
                line(Span("║ ", "accent"), *_filled(spans, inner), Span(" ║", "accent"), *tail, ref=ref)
            )
        lines.append(self._row([Span(f"╚{flat}╝", "accent")], "│" if read else "", ref))
        return lines

    def _row(self, spans: list[Span], trunk: str, ref: Ref) -> Line:
        filled = _filled(spans, self._trunk) if trunk else spans
        return line(*filled, Span(trunk, "dim"), ref=ref)

    def _title(self, node: NodeTraffic, group: FusionGroup, room: int) -> list[Span]:
        name = elide(node.name, 14)
        left = max(0, room - cells(name) - 2)
        kind = elide(kind_text(node, group), left) if left else ""
        left -= cells(kind) + 2
        return [
            Span(f"{name}  "),
            Span(kind, NODE_TONES.get(node.kind, "")),
            Span(f"  {elide(node.ranges, left)}" if left > 4 and node.ranges else "", "dim"),
        ]

    def _label(self, edge: Edge, arrow: bool) -> Span:
        """The edge from a box to the trunk, with its buffers, bytes and what became of it written on it."""
        stroke, tone = _STROKES[edge.kind]
        room = self._trunk - self._box
        buffers = edge.buffers[0] + (f" +{len(edge.buffers) - 1}" if len(edge.buffers) > 1 else "")
        fate = "fused" if edge.kind == "fused" else "apart"
        if edge.missed is not None:
            fate = f"✗ {CATEGORIES[edge.missed.category].title}"
        head = "◀" if arrow else ""
        text = elide(f" {buffers} {size(edge.bytes)} {fate} ", room - 4 - len(head))
        tail = stroke * (room - 2 - len(head) - cells(text))
        return Span(f"{head}{stroke * 2}{text}{tail}", tone)


def _filled(spans: list[Span], width: int) -> list[Span]:
    """The spans and as many blanks as `width` cells need."""
    return [*spans, Span(" " * (width - sum(cells(span.text) for span in spans)))]
