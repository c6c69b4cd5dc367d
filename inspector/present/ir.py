"""The schedule before and after fusion: as text with remarks, and as an outline, both sides aligned."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from inspector.frozen import dataclass
from inspector.model.links import Ref, Related
from inspector.model.schedule import Schedule, SchedulerNode
from inspector.text import cells, clean, elide, pad
from inspector.units import plural

from .content import RefIndex, Rows
from .documents import Document, split_lines, whole

_NAME_WIDTH = 48


def ir_document(schedule: Schedule, other: Schedule | None) -> Document:
    """The file's text; a remark at each head says what fusion made of the entry, by the `other` side."""
    lines = split_lines(schedule.text)
    refs = RefIndex(_spans(schedule))
    leaves = {leaf.name for leaf in schedule.leaves()}

    def find(related: Related) -> tuple[Rows, ...]:
        # Whole entries only where no leaf is known here.
        names = (related.leaves & leaves) or related.entries
        return refs.rows_of(Ref("node", name) for name in names)

    return Document(
        title=_title(schedule),
        lines=lines,
        regions=whole(lines, "ir"),
        refs=refs,
        find=find,
        notes=dict(_notes(schedule, other)) if other is not None else {},
    )


def _title(schedule: Schedule) -> str:
    side = "before" if schedule.stage == "pre" else "after"
    text = f"IR {side} fusion · {plural(len(schedule.nodes), 'node')}"
    groups = sum(node.is_group for node in schedule.nodes)
    return f"{text}, {groups} fused" if groups else text


def _spans(schedule: Schedule) -> Iterator[tuple[int, int, Ref]]:
    stack = list(schedule.nodes)
    while stack:
        node = stack.pop()
        yield node.span.first - 1, node.span.last - 1, Ref("node", node.name)
        stack.extend(node.members)


def _notes(schedule: Schedule, other: Schedule) -> Iterator[tuple[int, str]]:
    entry_of = {leaf.name: node for node in other.nodes for leaf in node.leaves()}
    for node in schedule.nodes:
        row = node.span.first - 1
        if node.is_group:
            count = sum(1 for _ in node.leaves())
            if schedule.stage == "post" and node.name not in entry_of:
                yield row, f"fused from {count} nodes"
            continue
        partner = entry_of.get(node.name)
        if partner is None:
            yield row, "gone after fusion" if schedule.stage == "pre" else "new"
        elif partner.is_group and schedule.stage == "pre":
            yield row, f"fused into {elide(partner.name, _NAME_WIDTH)}"


@dataclass(frozen=True, slots=True)
class _Line:
    """One leaf node in the aligned outline: its text on either side, None where it is not there."""

    name: str
    before: str | None
    after: str | None
    entry: str


def ir_outlines(pre: Schedule | None, post: Schedule | None) -> tuple[Document | None, Document | None]:
    """One row for each leaf node, the same node in the same row on both sides, in the order after fusion.

    The left side says where a node stood before; the right side brackets what became one entry.
    """
    if pre is None and post is None:
        return None, None
    lines = list(_outline(pre, post))
    left = [line.before or "" for line in lines]
    right = [line.after or "" for line in lines]
    return (
        _outline_document(pre, left, lines) if pre is not None else None,
        _outline_document(post, right, lines) if post is not None else None,
    )


def _outline(pre: Schedule | None, post: Schedule | None) -> Iterator[_Line]:
    before = {leaf.name: (index, leaf) for index, leaf in enumerate(pre.leaves() if pre else ())}
    names = [leaf.name for leaf in chain(pre.leaves() if pre else (), post.leaves() if post else ())]
    wide = min(max(map(cells, names), default=0), 24)
    digits = len(str(len(before)))
    entry_before = {leaf.name: node.name for node in (pre.nodes if pre else ()) for leaf in node.leaves()}

    def left(name: str) -> str | None:
        if name not in before:
            return None
        index, leaf = before[name]
        return f"{index:>{digits}}  {pad(elide(name, wide), wide)}  {describe(leaf)}"

    shown = set()
    for entry in post.nodes if post else ():
        leaves = list(entry.leaves())
        for position, leaf in enumerate(leaves):
            shown.add(leaf.name)
            bracket = _bracket(position, len(leaves)) if entry.is_group else " "
            text = f"{bracket} {pad(elide(leaf.name, wide), wide)}  {describe(leaf)}"
            if entry.is_group and position == 0:
                text = f"{text}   ← {len(leaves)} in one: {elide(entry.name, _NAME_WIDTH)}"
            elif pre is not None and leaf.name not in before:
                text = f"{text}   new"
            yield _Line(leaf.name, left(leaf.name), text, entry.name)
    for name in before:
        if name not in shown:
            gone = "   gone after fusion" if post is not None else ""
            yield _Line(name, f"{left(name)}{gone}", None, entry_before[name])


def _bracket(position: int, count: int) -> str:
    if count == 1:
        return "╶"
    return "┌" if position == 0 else "└" if position == count - 1 else "│"


def _outline_document(schedule: Schedule, texts: list[str], lines: list[_Line]) -> Document:
    refs = RefIndex((row, row, Ref("node", line.name)) for row, line in enumerate(lines) if texts[row])
    by_entry: dict[str, list[str]] = {}
    for line in lines:
        by_entry.setdefault(line.entry, []).append(line.name)

    def find(related: Related) -> tuple[Rows, ...]:
        names = related.leaves or {name for entry in related.entries for name in by_entry.get(entry, ())}
        return refs.rows_of(Ref("node", name) for name in names)

    return Document(
        title=_title(schedule),
        lines=tuple(map(clean, texts)),
        regions=whole(texts, "outline"),
        refs=refs,
        find=find,
        first_number=None,
    )


def describe(node: SchedulerNode) -> str:
    """`reduction   f32 [100, 1]`: what kind of work a leaf node is, and what it makes."""
    if node.is_extern:
        target = (node.kernel or "").split(".")
        name = target[-1] if target[-1] not in ("default", "None", "") else "".join(target[-2:-1])
        kind = f"extern {name or ''.join(node.inner)}"
    elif node.cls.startswith("Nop"):
        kind = "no operation"
    elif node.inner and "Template" in node.inner[0]:
        kind = "template"
    elif node.sizes is not None and node.sizes[1]:
        kind = "reduction"
    else:
        kind = "pointwise"
    layout = next((buffer.layout for buffer in node.outputs if buffer.layout is not None), None)
    if layout is None or layout.size is None:
        own = [layout for name, layout in node.layouts if any(buffer.name == name for buffer in node.outputs)]
        layout = own[0] if own else layout
    if layout is None or layout.size is None:
        return kind
    shape = ", ".join(str(size) for size in layout.size)
    return f"{kind:<18}  {(layout.dtype or '').removeprefix('torch.')} [{shape}]"
