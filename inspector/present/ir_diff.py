"""The schedule before fusion beside the schedule after it, so that what merged is seen as merging.

Nodes are matched by name: on a GPU fusion renames loop variables and merges loops, so that texts
differ where nothing happened. The order is that after fusion, with a node's earlier self beside the
entry it became part of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from inspector.analysis.fusion import analyse_fusion
from inspector.frozen import dataclass
from inspector.model.fusion import Access, FusionGroup, FusionReport
from inspector.model.links import Ref, Related
from inspector.model.run import GraphArtifacts
from inspector.model.schedule import Dependency, SchedulerNode
from inspector.text import spaced
from inspector.units import plural, size

from .content import Rows, merge
from .spans import Line, Span, Tone, fitted, toned
from .tables import Column, Row, Table, message_table, table_lines

SIDE_BY_SIDE = 120
"""Columns from which both schedules stand side by side."""

_MOST_DEPS = 12
_TITLE = "Before | after fusion"
_COLUMNS = (
    Column("before fusion", shrinks=True, least=16),
    Column(""),
    Column("after fusion", shrinks=True, least=16),
)


@dataclass(frozen=True, slots=True)
class _Block:
    """One entry of the schedule after fusion, and each node that is in it as it was before."""

    before: tuple[tuple[str, tuple[Span, ...]], ...]
    after: tuple[Span, ...]


def lines(artifacts: GraphArtifacts, title: str, width: int) -> Iterator[Line]:
    """One graph, called `title`, side by side where there is room."""
    before = len(artifacts.pre.nodes) if artifacts.pre else "?"
    after = len(artifacts.post.nodes) if artifacts.post else "?"
    yield toned(f"{title}: {before} entries before fusion, {after} after", "accent")
    if absent := _what_is_absent(artifacts):
        yield toned(f"  {absent}", "warn")
        return
    report = analyse_fusion(artifacts)
    if width >= SIDE_BY_SIDE:
        yield from table_lines(sides_table(artifacts, report), width)
        return
    for block in _blocks(artifacts, report):
        yield Line()
        merged = len(block.before) > 1
        for sign, spans in [("-", spans) for _, spans in block.before if merged] + [("+", block.after)]:
            for span in spans:
                yield fitted([Span(f"{sign if merged else ' '} {span.text}", span.tone)], width)
    for name in _before_only(artifacts):
        yield toned(f"- {_gone(name)}", "bad")


def sides_table(artifacts: GraphArtifacts, report: FusionReport) -> Table:
    """The order is that after fusion; a bracket joins the nodes that became one entry."""
    if absent := _what_is_absent(artifacts):
        return message_table(_TITLE, absent)
    rows: list[Row] = []
    places: dict[str, list[int]] = {}

    def add(cells: tuple[Span, ...], node: str) -> None:
        places.setdefault(node, []).append(len(rows))
        rows.append(Row(str(len(rows)), cells, Ref("node", node)))

    for block in _blocks(artifacts, report):
        if rows:
            rows.append(Row(str(len(rows)), tuple(Span("") for _ in _COLUMNS)))
        node = ""
        for name, left, bracket, right in _sides(block):
            # Lines of the right side beyond the last node belong to that node's entry.
            node = name or node
            add((left, Span(bracket, "dim"), right), node)
    for name in _before_only(artifacts):
        add((Span(_gone(name), "bad"), Span(""), Span("")), name)

    def find(related: Related) -> tuple[Rows, ...]:
        return merge((row, row) for name in related.leaves for row in places.get(name, ()))

    pre = len(artifacts.pre.nodes) if artifacts.pre is not None else 0
    title = f"{_TITLE} · {pre} entries become {len(report.groups)}"
    return Table(title, _COLUMNS, tuple(rows), find=find)


def _gone(name: str) -> str:
    return f"{name}: gone after fusion"


def _what_is_absent(artifacts: GraphArtifacts) -> str:
    """Which schedule is not here, so that there is nothing to compare; empty where both are."""
    for name, schedule in (("ir_pre_fusion.txt", artifacts.pre), ("ir_post_fusion.txt", artifacts.post)):
        if schedule is None:
            return f"{name} is missing: there is nothing to compare"
    return ""


def _before_only(artifacts: GraphArtifacts) -> list[str]:
    """Nodes that are in the schedule before fusion and not in that after it."""
    after = {leaf.name for leaf in artifacts.post.leaves()} if artifacts.post is not None else set()
    before = artifacts.pre.leaves() if artifacts.pre is not None else ()
    return [leaf.name for leaf in before if leaf.name not in after]


# -- entries


def _blocks(artifacts: GraphArtifacts, report: FusionReport) -> Iterator[_Block]:
    """The entries after fusion in their order, each with what it was before."""
    pre, post = artifacts.pre, artifacts.post
    known = {leaf.name: leaf for leaf in pre.leaves()} if pre is not None else {}
    for entry in post.nodes if post is not None else ():
        names = [leaf.name for leaf in entry.leaves()]
        merged = len(names) > 1
        left = tuple((name, tuple(_leaf(known.get(name), name, "warn" if merged else ""))) for name in names)
        group = report.group(entry.name)
        right = [Span(f"{entry.name}: {entry.cls}", "good" if merged else "")]
        right += _group(group) if merged and group is not None else _dependencies(entry)
        yield _Block(left, tuple(right))


def _leaf(leaf: SchedulerNode | None, name: str, tone: Tone) -> Iterator[Span]:
    if leaf is None:
        yield Span(f"{name}: new")
        return
    kernel = f" {leaf.kernel}" if leaf.kernel else ""
    sizes = f" {_sizes(leaf)}" if leaf.sizes is not None else ""
    yield Span(f"{leaf.name}: {leaf.cls}({', '.join(leaf.inner)}){kernel}{sizes}", tone)
    yield from _dependencies(leaf)


def _sizes(leaf: SchedulerNode) -> str:
    assert leaf.sizes is not None
    return " x ".join(f"[{', '.join(map(str, part))}]" for part in leaf.sizes if part)


def _dependencies(node: SchedulerNode) -> Iterator[Span]:
    yield from _listed("reads ", [_dependency(dep) for dep in (*node.met, *node.unmet)])
    yield from _listed("writes", [_dependency(dep) for dep in node.writes])


def _listed(title: str, texts: Sequence[str]) -> Iterator[Span]:
    yield from (Span(f"  {title} {text}") for text in texts[:_MOST_DEPS])
    if len(texts) > _MOST_DEPS:
        yield Span(f"  {title} and {len(texts) - _MOST_DEPS} more")


def _dependency(dep: Dependency) -> str:
    if dep.kind == "memory":
        loops = ", ".join(f"{name}: {extent}" for name, extent in dep.ranges)
        return f"{dep.buffer}[{dep.index}]" + (f" for {loops}" if loops else "")
    if dep.kind == "weak":
        return f"{dep.buffer} (order only)"
    return f"{dep.buffer} (whole)" if dep.kind == "star" else dep.text


def _group(group: FusionGroup) -> Iterator[Span]:
    kernel = f" in {group.kernel}" if group.kernel else ""
    yield Span(f"  {plural(len(group.nodes), 'node')}, {spaced(group.kind)}{kernel}")
    yield Span(f"  saved  {size(group.bytes_saved)} of {size(group.bytes_unfused)}", "good")
    kept = {access.buffer for access in group.kept}
    writes = [
        f"{_sized(access)}{' (only read here, yet written)' if access.buffer in kept else ''}"
        for access in group.writes
    ]
    yield from _listed("reads ", [_sized(access) for access in group.reads])
    yield from _listed("writes", writes)
    yield from (Span(f"  gone   {_sized(access)}", "bad") for access in group.gone)


def _sized(access: Access) -> str:
    return f"{access.buffer} {size(access.bytes)}"


# -- side by side


def _sides(block: _Block) -> Iterator[tuple[str, Span, str, Span]]:
    """The node, before, the bracket between, after; the sides are of different length."""
    last = len(block.before) - 1
    left = [
        (name, span, _bracket(number, last, row == 0))
        for number, (name, spans) in enumerate(block.before)
        for row, span in enumerate(spans)
    ]
    for one, right in zip_longest(left, block.after):
        name, span, bracket = one if one is not None else ("", Span(""), "")
        yield name, span, bracket, right if right is not None else Span("")


def _bracket(number: int, last: int, is_head: bool) -> str:
    """Joins the members, with its arm towards the group at the first one; a node alone is the same."""
    if not last:
        return " =" if is_head else ""
    if is_head:
        return "─┬─" if number == 0 else "─┘" if number == last else "─┤"
    return " │" if number < last else ""
