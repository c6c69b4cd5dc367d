"""`inspector ir-diff`: the schedule before fusion beside the schedule after it.

Nodes are matched by name: on a GPU fusion renames loop variables and merges loops, so that texts
differ where nothing happened. The order is that after fusion, with a node's earlier self beside the
entry it became part of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from inspector.analysis.fusion import analyse_fusion
from inspector.model.fusion import Access, FusionGroup, FusionReport
from inspector.model.run import GraphArtifacts
from inspector.model.schedule import Dependency, SchedulerNode
from inspector.present.fusion import bytes_text
from inspector.present.text import elide

SIDE_BY_SIDE = 120
"""Columns from which both schedules stand side by side."""

_COLOURS = {"head": "1", "before": "31", "after": "32", "gone": "33", "rule": "2"}
_MOST_DEPS = 12

Tone = Literal["", "head", "before", "after", "gone", "rule"]


@dataclass(frozen=True, slots=True)
class Line:
    """`node` is the scheduler node, or the entry, that the line tells of."""

    text: str
    tone: Tone = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """One entry of the schedule after fusion, with what it was before."""

    before: tuple[tuple[Line, ...], ...]
    after: tuple[Line, ...]


def to_text(artifacts: GraphArtifacts, width: int = 100, coloured: bool = False) -> Iterator[str]:
    """The lines of one graph, made while they are asked for, so that a pager shows the first at once."""
    yield _paint(_head(artifacts), "head", coloured)
    if absent := what_is_absent(artifacts):
        yield f"  {absent}"
        return
    for block in blocks(artifacts, analyse_fusion(artifacts)):
        yield ""
        yield from (
            _side_by_side(block, width, coloured)
            if width >= SIDE_BY_SIDE
            else _stacked(block, width, coloured)
        )
    lost = before_only(artifacts)
    if lost:
        yield ""
        yield elide(f"before fusion only: {', '.join(lost)}", width)


def what_is_absent(artifacts: GraphArtifacts) -> str:
    """Which schedule is not here, so that there is nothing to compare; empty where both are."""
    for name, schedule in (("ir_pre_fusion.txt", artifacts.pre), ("ir_post_fusion.txt", artifacts.post)):
        if schedule is None:
            return f"{name} is missing: there is nothing to compare"
    return ""


def blocks(artifacts: GraphArtifacts, report: FusionReport) -> Iterator[Block]:
    """The entries after fusion in their order, each with what it was before."""
    pre, post = artifacts.pre, artifacts.post
    known = {leaf.name: leaf for leaf in pre.leaves()} if pre is not None else {}
    for entry in post.nodes if post is not None else ():
        yield _block(entry, [known.get(leaf.name) for leaf in entry.leaves()], report)


def before_only(artifacts: GraphArtifacts) -> list[str]:
    """Nodes that are in the schedule before fusion and not in that after it."""
    after = {leaf.name for leaf in artifacts.post.leaves()} if artifacts.post is not None else set()
    before = artifacts.pre.leaves() if artifacts.pre is not None else ()
    return [leaf.name for leaf in before if leaf.name not in after]


def _head(artifacts: GraphArtifacts) -> str:
    before = len(artifacts.pre.nodes) if artifacts.pre else "?"
    after = len(artifacts.post.nodes) if artifacts.post else "?"
    return f"{artifacts.ident}: {before} entries before fusion, {after} after"


def _block(entry: SchedulerNode, before: Sequence[SchedulerNode | None], report: FusionReport) -> Block:
    group = report.group(entry.name)
    names = [leaf.name for leaf in entry.leaves()]
    merged = len(names) > 1
    left = tuple(
        tuple(_leaf_lines(leaf, "before" if merged else ""))
        if leaf is not None
        else (Line(f"{name}: new", "", name),)
        for leaf, name in zip(before, names, strict=True)
    )
    right = [Line(f"{entry.name}: {entry.cls}", "after" if merged else "", entry.name)]
    if merged and group is not None:
        right += _group_lines(entry, group)
    else:
        right += _dependencies(entry)
    return Block(left, tuple(right))


def _leaf_lines(leaf: SchedulerNode, tone: Tone) -> Iterator[Line]:
    kernel = f" {leaf.kernel}" if leaf.kernel else ""
    sizes = f" {_sizes(leaf)}" if leaf.sizes is not None else ""
    yield Line(f"{leaf.name}: {leaf.cls}({', '.join(leaf.inner)}){kernel}{sizes}", tone, leaf.name)
    yield from _dependencies(leaf)


def _sizes(leaf: SchedulerNode) -> str:
    assert leaf.sizes is not None
    return " x ".join(f"[{', '.join(map(str, part))}]" for part in leaf.sizes if part)


def _dependencies(node: SchedulerNode) -> Iterator[Line]:
    for title, deps in (("reads ", (*node.met, *node.unmet)), ("writes", node.writes)):
        for dep in deps[:_MOST_DEPS]:
            yield Line(f"  {title} {_dependency(dep)}", "", node.name)
        if len(deps) > _MOST_DEPS:
            yield Line(f"  {title} and {len(deps) - _MOST_DEPS} more", "", node.name)


def _dependency(dep: Dependency) -> str:
    if dep.kind == "memory":
        loops = ", ".join(f"{name}: {extent}" for name, extent in dep.ranges)
        return f"{dep.buffer}[{dep.index}]" + (f" for {loops}" if loops else "")
    if dep.kind == "weak":
        return f"{dep.buffer} (order only)"
    return f"{dep.buffer} (whole)" if dep.kind == "star" else dep.text


def _group_lines(entry: SchedulerNode, group: FusionGroup) -> Iterator[Line]:
    kernel = f" in {group.kernel}" if group.kernel else ""
    yield Line(f"  {len(group.nodes)} nodes, {group.kind.replace('_', ' ')}{kernel}")
    yield Line(f"  saved  {bytes_text(group.bytes_saved)} of {bytes_text(group.bytes_unfused)}", "after")
    kept = {access.buffer for access in group.kept}
    for title, accesses in (("reads ", group.reads), ("writes", group.writes)):
        for access in accesses[:_MOST_DEPS]:
            own = " (only read here, yet written)" if access.buffer in kept and title == "writes" else ""
            yield Line(f"  {title} {_sized(access)}{own}")
        if len(accesses) > _MOST_DEPS:
            yield Line(f"  {title} and {len(accesses) - _MOST_DEPS} more")
    for access in group.gone:
        yield Line(f"  gone   {_sized(access)}", "gone")


def _sized(access: Access) -> str:
    return f"{access.buffer} {bytes_text(access.bytes)}"


# -- layout


def rows(block: Block) -> Iterator[tuple[Line, str, Line]]:
    """Before, the bracket between, after; the sides are of different length."""
    merged = len(block.before) > 1
    left: list[tuple[Line, str]] = []
    last = len(block.before) - 1
    for number, lines in enumerate(block.before):
        for row, line in enumerate(lines):
            left.append(
                (line, _gutter(number, last, row == 0) if merged else "  =  " if row == 0 else "     ")
            )
    for pair, right in zip_longest(left, block.after):
        line, gutter = pair if pair is not None else (Line(""), "     ")
        yield line, gutter, right if right is not None else Line("")


def _side_by_side(block: Block, width: int, coloured: bool) -> Iterator[str]:
    half = (width - 5) // 2
    for before, gutter, after in rows(block):
        text = elide(before.text, half)
        shown = (
            _paint(text, before.tone, coloured) + " " * (half - len(text)) + _paint(gutter, "rule", coloured)
        )
        yield (shown + _paint(elide(after.text, half), after.tone, coloured)).rstrip()


def _gutter(number: int, last: int, is_head: bool) -> str:
    """A bracket that joins the members, with its arm towards the group at the first one."""
    if is_head:
        return " ─┬─ " if number == 0 else " ─┘  " if number == last else " ─┤  "
    return "  │  " if number < last else "     "


def _stacked(block: Block, width: int, coloured: bool) -> Iterator[str]:
    merged = len(block.before) > 1
    if not merged:
        for line in block.after:
            yield elide(f"  {line.text}", width)
        return
    for lines in block.before:
        for line in lines:
            yield _paint(elide(f"- {line.text}", width), line.tone, coloured)
    for line in block.after:
        yield _paint(elide(f"+ {line.text}", width), line.tone, coloured)


def _paint(text: str, tone: Tone, coloured: bool) -> str:
    return f"\x1b[{_COLOURS[tone]}m{text}\x1b[0m" if coloured and tone and text.strip() else text
