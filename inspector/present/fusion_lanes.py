"""The fusion pane's lanes: one row per scheduler node in execution order, groups bracketed, walls, misses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inspector.analysis.lanes import CellKind, kinds_by_row, lay_out, side_by_side
from inspector.analysis.reasons import CATEGORIES
from inspector.frozen import dataclass
from inspector.model.fusion import FusionGroup, FusionHistory, FusionReport, FusionStep, Missed, NodeTraffic
from inspector.model.links import Ref, Related
from inspector.text import few
from inspector.units import plural, size

from .content import Rows, rows_at
from .fusion import kind_text, short_name
from .rows import MissRow, NodeRow
from .spans import Span, Tone
from .tables import Column, Row, Table

LANES = 12
"""Lanes of buffers that are drawn at most; what is right of them is counted."""

NODE_TONES: dict[str, Tone] = {
    "pointwise": "accent",
    "reduction": "good",
    "scan": "good",
    "template": "warn",
    "extern": "bad",
    "fallback": "bad",
    "user": "bad",
    "part": "dim",
    "nop": "dim",
}
_GROUP_TONES: dict[str, Tone] = {
    "vertical": "accent",
    "horizontal": "good",
    "mixed": "accent",
    "outer_loop": "good",
    "foreach": "good",
}
_WALL = "█"
_SYMBOLS: dict[CellKind, str] = {"made": "●", "read": "├", "last_read": "╰", "passes": "│"}

_COLUMNS = (
    Column("node", shrinks=True, least=5),
    Column(""),
    Column("kind", shrinks=True, least=9),
    Column("loops", shrinks=True, least=10, rank=5),
    Column("reads", right=True, rank=4),
    Column("writes", right=True, rank=6),
    Column("saved", right=True, rank=1, optional=True),
    Column("buffers", rank=7, optional=True),
    Column("fx nodes", shrinks=True, least=10, rank=3, optional=True),
    Column("source", shrinks=True, least=14, rank=2, optional=True),
)


@dataclass(frozen=True, slots=True)
class Lanes:
    """What every step's table is made of, worked out once for a graph."""

    report: FusionReport
    history: FusionHistory
    buffers: Sequence[str]

    @classmethod
    def of(cls, report: FusionReport, history: FusionHistory) -> Lanes:
        lanes = lay_out(report)
        grid = kinds_by_row(lanes, len(report.nodes), LANES)
        return cls(report, history, [_drawn(kinds, len(lanes)) for kinds in grid])

    @property
    def last(self) -> int:
        return len(self.history.steps) - 1


def lanes_table(lanes: Lanes, step: int | None = None) -> Table:
    """The schedule with its groups after `step` of the history; None: as it ended, with what was missed."""
    report = lanes.report
    final = step is None
    now = lanes.history.steps[lanes.last if step is None else step]
    places = {node.name: place for place, node in enumerate(report.nodes)}
    brackets = _brackets([[places[name] for name in group if name in places] for group in now.groups])
    wide = max(map(len, brackets.values()), default=0)
    worst = _worst(report) if final else {}
    rows: list[Row] = []
    position: dict[str, int] = {}
    for place, node in enumerate(report.nodes):
        group = report.group(node.name)
        assert group is not None
        position[node.name] = len(rows)
        bracket = brackets.get(place, "")
        rows.append(_node_row(node, group, lanes.buffers[place], bracket, wide, final))
        if node.name == group.nodes[-1] and group.name in worst:
            rows.append(_miss_row(report, group, worst[group.name]))

    def find(related: Related) -> tuple[Rows, ...]:
        return rows_at(position, related.leaves)

    return Table(_title(lanes, now, final), _COLUMNS, tuple(rows), find=find)


def _title(lanes: Lanes, now: FusionStep, final: bool) -> str:
    report, history = lanes.report, lanes.history
    if final:
        text = f"Fusion · {plural(len(report.nodes), 'node')} in {plural(len(report.groups), 'group')}"
        return (
            f"{text} · {size(report.bytes_unfused)} → {size(report.bytes_fused)}, "
            f"at least {size(report.bytes_minimum)}"
        )
    rounds = sum(bool(step.number) for step in history.steps)
    if now.number is None:
        return f"Fusion · as in ir_post_fusion.txt · {now.count} entries"
    if now.number == 0:
        return f"Fusion · before round 1 of {rounds} · {now.count} entries"
    what = f"{plural(len(now.fused), 'pair')} fused" if now.fused else "nothing fused"
    return f"Fusion · after round {now.number} of {rounds} · {now.count} entries · {what}"


# -- rows


def _node_row(
    node: NodeTraffic, group: FusionGroup, buffers: str, bracket: str, wide: int, final: bool
) -> Row:
    if group.is_wall:
        mark, tone = _WALL * max(wide, 1), NODE_TONES.get(node.kind, "")
    else:
        mark, tone = (bracket or "·").ljust(wide), _GROUP_TONES.get(group.kind, "warn") if bracket else "dim"
    saved = size(group.bytes_saved) if final and node.name == group.nodes[0] != group.nodes[-1] else ""
    source = node.sources[0].short if node.sources else ""
    more = f" +{len(node.sources) - 1}" if len(node.sources) > 1 else ""
    return Row(
        NodeRow(node.name),
        (
            Span(node.name),
            Span(mark, tone),
            Span(kind_text(node, group), NODE_TONES.get(node.kind, "")),
            Span(node.ranges.replace(" reduce ", " r"), "dim"),
            Span(size(node.bytes_read), "dim"),
            Span(size(node.bytes_written), "dim"),
            Span(saved, "good"),
            Span(buffers, "accent"),
            Span(few(list(node.fx), 1)),
            Span(f"{source}{more}", "dim"),
        ),
        Ref("node", node.name),
    )


def _miss_row(report: FusionReport, group: FusionGroup, misses: Sequence[int]) -> Row:
    """The worst miss of a group with a later one, below the group's last row."""
    missed = report.missed[misses[0]]
    partner = report.group(missed.second)
    assert partner is not None
    more = f"and {len(misses) - 1} more" if len(misses) > 1 else ""
    return Row(
        MissRow(misses[0]),
        (
            Span(f"   ✗ {short_name(partner)}", "bad" if missed.possible else "dim"),
            Span(size(missed.bytes), "warn" if missed.possible else "dim"),
            Span(CATEGORIES[missed.category].title),
            Span(more, "dim"),
        ),
        Ref("node", group.nodes[-1]),
        wide=True,
    )


def _worst(report: FusionReport) -> dict[str, list[int]]:
    """Group -> positions of its misses with later groups, worst first."""
    misses: dict[str, list[int]] = {}
    for position, missed in enumerate(report.missed):
        misses.setdefault(missed.first, []).append(position)
    return misses


def missed_of_row(table: Table, row: int, report: FusionReport) -> Missed | None:
    """The miss that a row of the lanes tells of; None for a node's row."""
    key = table.rows[row].key if row < len(table.rows) else None
    return report.missed[key.number] if isinstance(key, MissRow) else None


# -- brackets and buffers


def _brackets(groups: Sequence[Sequence[int]]) -> dict[int, str]:
    """Row -> its bracket; groups that overlap stand side by side."""
    ordered = sorted((sorted(group) for group in groups if len(group) > 1), key=lambda rows: rows[0])
    drawn: dict[int, dict[int, str]] = {}
    columns = side_by_side((rows[0], rows[-1]) for rows in ordered)
    for rows, column in zip(ordered, columns, strict=True):
        members = set(rows)
        for row in range(rows[0], rows[-1] + 1):
            if row == rows[0]:
                sign = "┐"
            elif row == rows[-1]:
                sign = "┘"
            else:
                sign = "┤" if row in members and len(rows) < rows[-1] - rows[0] + 1 else "│"
            drawn.setdefault(row, {})[column] = sign
    return {row: _spread(signs) for row, signs in drawn.items()}


def _spread(signs: Mapping[int, str]) -> str:
    return "".join(signs.get(column, " ") for column in range(max(signs) + 1))


def _drawn(kinds: Sequence[CellKind | None], lanes: int) -> str:
    """The buffers alive in a row, as branches of a git log."""
    text = "".join(" " if kind is None else _SYMBOLS[kind] for kind in kinds)
    return f"{text}…" if lanes > LANES else text.rstrip()
