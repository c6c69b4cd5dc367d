"""Before and after fusion side by side, so that what merged is seen as merging."""

from __future__ import annotations

from inspector.model.fusion import FusionReport
from inspector.model.links import Ref, Related
from inspector.model.run import GraphArtifacts
from inspector.present.content import Rows, merge
from inspector.present.ir_diff import Line, before_only, blocks, rows, what_is_absent
from inspector.present.tables import Cell, Column, Row, Table, Tone, cell, message_table

_TONES: dict[str, Tone] = {"before": "warn", "after": "good", "gone": "bad", "rule": "dim"}
_COLUMNS = (
    Column("before fusion", shrinks=True, least=16),
    Column(""),
    Column("after fusion", shrinks=True, least=16),
)
_TITLE = "Before | after fusion"


def sides_table(artifacts: GraphArtifacts, report: FusionReport) -> Table:
    """The order is that after fusion; a bracket joins the nodes that became one entry."""
    if absent := what_is_absent(artifacts):
        return message_table(_TITLE, absent)
    found: list[Row] = []
    places: dict[str, list[int]] = {}
    for block in blocks(artifacts, report):
        if found:
            found.append(Row(str(len(found)), tuple(Cell("") for _ in _COLUMNS)))
        node = ""
        for before, gutter, after in rows(block):
            # Lines of the right side beyond the last node belong to that node's entry.
            node = before.node or node
            places.setdefault(node, []).append(len(found))
            cells = (_cell(before), Cell(gutter[1:4].rstrip(), "dim"), _cell(after))
            found.append(Row(str(len(found)), cells, Ref("node", node)))
    for name in before_only(artifacts):
        places.setdefault(name, []).append(len(found))
        text = f"{name}: gone after fusion"
        found.append(Row(str(len(found)), (cell(text, "bad"), Cell(""), Cell("")), Ref("node", name)))

    def find(related: Related) -> tuple[Rows, ...]:
        return merge((row, row) for name in related.leaves for row in places.get(name, ()))

    pre = len(artifacts.pre.nodes) if artifacts.pre is not None else 0
    title = f"{_TITLE} · {pre} entries become {len(report.groups)}"
    return Table(title, _COLUMNS, tuple(found), find=find)


def _cell(line: Line) -> Cell:
    return cell(line.text, _TONES.get(line.tone, ""))
