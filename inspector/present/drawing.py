"""The fused graph as a drawing: in Graphviz's language, and as SVG that needs no other program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from inspector.model.fusion import FusionGroup, FusionReport
from inspector.text import clean, elide, spaced
from inspector.units import size

from .waste import places_text

_MOST_MEMBERS = 8
_CHARACTER = 6.7
_LINE = 15
_BOX = 250
_GAP_X = 36
_GAP_Y = 46
_MARGIN = 24
_COLOURS = {
    "wall": ("#e4e4e7", "#71717a"),
    "single": ("#f8fafc", "#94a3b8"),
    "group": ("#dcfce7", "#16a34a"),
}
"""Fill and outline: library calls, nodes that fused with nothing, groups."""


def edges(report: FusionReport) -> tuple[tuple[str, str, str, int | None], ...]:
    """(group that writes, group that reads, buffer, bytes read) for each buffer between two groups."""
    writer: dict[str, str] = {}
    links = []
    for group in report.groups:
        for access in group.reads:
            source = writer.get(access.buffer)
            if source is not None and source != group.name:
                links.append((source, group.name, access.buffer, access.bytes))
        writer.update((access.buffer, group.name) for access in group.writes)
    return tuple(links)


def to_dot(report: FusionReport) -> str:
    """Groups as clusters around their nodes, buffers as edges labelled with their bytes; the misses that
    cost most as dashed lines without a say in the layout."""
    lines = [
        f"digraph {_quoted(report.name)} {{",
        "  compound=true; rankdir=TB;",
        '  node [shape=box, fontname="monospace", fontsize=10, style=filled];',
        '  edge [fontname="monospace", fontsize=9];',
    ]
    nodes = {node.name: node for node in report.nodes}
    anchor: dict[str, str] = {}
    for number, group in enumerate(report.groups):
        anchor[group.name] = group.nodes[0]
        fill, outline = _COLOURS[_style(group)]
        pad = "  "
        if len(group.nodes) > 1:
            label = f"{spaced(group.kind)}, saved {size(group.bytes_saved)}"
            lines.append(f"  subgraph cluster_{number} {{")
            lines.append(f'    label={_quoted(label)}; style=filled; color="{outline}"; fillcolor="{fill}";')
            pad = "    "
        for name in group.nodes:
            node = nodes[name]
            label = _quoted(name, f"{node.kind} {node.ranges}".rstrip(), places_text(node.sources))
            shade = fill if group.is_wall else "#ffffff"
            lines.append(f'{pad}{_quoted(name)} [label={label}, fillcolor="{shade}"];')
        if len(group.nodes) > 1:
            lines.append("  }")
    lines += _dot_edges(report)
    for missed in report.missed[:10]:
        label = f"missed {size(missed.bytes)}"
        ends = f"{_quoted(anchor[missed.first])} -> {_quoted(anchor[missed.second])}"
        lines.append(f'  {ends} [label={_quoted(label)}, style=dashed, color="#dc2626", constraint=false];')
    return "\n".join([*lines, "}"]) + "\n"


def _dot_edges(report: FusionReport) -> Iterator[str]:
    writer: dict[str, str] = {}
    for node in report.nodes:
        for access in node.reads:
            source = writer.get(access.buffer)
            if source is not None:
                label = f"{access.buffer} {size(access.bytes)}"
                yield f"  {_quoted(source)} -> {_quoted(node.name)} [label={_quoted(label)}];"
        writer.update((access.buffer, node.name) for access in node.writes)


def _quoted(*lines: str) -> str:
    """A string of the language, clean; its lines are told apart by the escape that Graphviz has for that."""
    safe = (clean(text).replace("\\", "\\\\").replace('"', '\\"') for text in lines)
    return '"' + "\\n".join(safe) + '"'


def _style(group: FusionGroup) -> str:
    return "wall" if group.is_wall else "single" if len(group.nodes) == 1 else "group"


# -- SVG


def _safe(text: str) -> str:
    """Text of the document: clean, and nothing in it is markup."""
    return escape(clean(text))


def to_svg(report: FusionReport) -> str:
    """A layered drawing: a group stands below all groups that it reads from, edges run downwards."""
    links = edges(report)
    boxes = {group.name: _Box(group, report) for group in report.groups}
    width, height = _place(boxes, links)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="monospace" font-size="11">',
        f"<title>{_safe(report.name)}</title>",
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
    ]
    for source, target, buffer, count in links:
        parts.append(_curve(boxes[source], boxes[target], f"{buffer} {size(count)}"))
    for box in boxes.values():
        parts += box.drawn()
    return "\n".join([*parts, "</svg>"]) + "\n"


class _Box:
    """One group as a rectangle with its text; `x`, `y` are its upper left corner in pixels."""

    def __init__(self, group: FusionGroup, report: FusionReport) -> None:
        self.group = group
        limit = int((_BOX - 16) / _CHARACTER)
        title = group.kernel or group.name if group.is_wall else spaced(group.kind)
        if len(group.nodes) > 1:
            title += f", saved {size(group.bytes_saved)}"
        nodes = {node.name: node for node in report.nodes}
        texts = [title]
        for name in group.nodes[:_MOST_MEMBERS]:
            texts.append(f"{name} {nodes[name].kind} {nodes[name].ranges}".rstrip())
        if len(group.nodes) > _MOST_MEMBERS:
            texts.append(f"and {len(group.nodes) - _MOST_MEMBERS} more")
        texts.append(places_text(group.sources))
        self.texts = [elide(text, limit) for text in texts]
        self.height = len(self.texts) * _LINE + 12
        self.x = self.y = 0.0

    def drawn(self) -> list[str]:
        fill, outline = _COLOURS[_style(self.group)]
        lines = [
            f"<g><title>{_safe(self.group.name)}</title>"
            f'<rect x="{self.x:.0f}" y="{self.y:.0f}" width="{_BOX}" height="{self.height}" rx="4" '
            f'fill="{fill}" stroke="{outline}"/>'
        ]
        for number, text in enumerate(self.texts):
            weight = ' font-weight="bold"' if number == 0 else ""
            y = self.y + 18 + number * _LINE
            lines.append(f'<text x="{self.x + 8:.0f}" y="{y:.0f}"{weight}>{_safe(text)}</text>')
        return [*lines, "</g>"]


def _place(boxes: dict[str, _Box], links: Sequence[tuple[str, str, str, int | None]]) -> tuple[float, float]:
    """Gives each box its place; the drawing's width and height."""
    sources: dict[str, list[str]] = {}
    for source, target, _, _ in links:
        sources.setdefault(target, []).append(source)
    # Nothing but a picture needs it, and a command without one starts faster.
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_nodes_from(boxes)
    graph.add_edges_from((source, target) for source, target, _, _ in links)
    order = {name: position for position, name in enumerate(boxes)}
    if not nx.is_directed_acyclic_graph(graph):
        # Only damaged files have circles: then what comes later feeds nothing before it.
        graph.remove_edges_from([edge for edge in graph.edges if order[edge[0]] >= order[edge[1]]])
    layers = [sorted(layer, key=order.__getitem__) for layer in nx.topological_generations(graph)]
    widest = max((len(layer) for layer in layers), default=1)
    width = 2 * _MARGIN + widest * (_BOX + _GAP_X) - _GAP_X
    y = float(_MARGIN)
    for layer in layers:
        # Below the middle of what it reads from, so that few edges cross.
        layer.sort(key=lambda name: _centre([boxes[source] for source in sources.get(name, ())], width))
        x = (width - (len(layer) * (_BOX + _GAP_X) - _GAP_X)) / 2
        for name in layer:
            boxes[name].x, boxes[name].y = x, y
            x += _BOX + _GAP_X
        y += max(boxes[name].height for name in layer) + _GAP_Y
    return width, y - _GAP_Y + _MARGIN if layers else 2 * _MARGIN


def _centre(boxes: list[_Box], width: float) -> float:
    return sum(box.x + _BOX / 2 for box in boxes) / len(boxes) if boxes else width / 2


def _curve(source: _Box, target: _Box, label: str) -> str:
    x1, y1 = source.x + _BOX / 2, source.y + source.height
    x2, y2 = target.x + _BOX / 2, target.y
    bend = max(20.0, (y2 - y1) / 2)
    return (
        f'<path d="M{x1:.0f},{y1:.0f} C{x1:.0f},{y1 + bend:.0f} {x2:.0f},{y2 - bend:.0f} {x2:.0f},{y2:.0f}" '
        f'fill="none" stroke="#64748b"><title>{_safe(label)}</title></path>'
    )
