"""ir_pre_fusion.txt and ir_post_fusion.txt: inductor's scheduler nodes before and after fusion.

torch/_inductor/debug.py: DebugFormatter._write_ir prints each node of the schedule, followed by
two empty lines; the text of a node comes from BaseSchedulerNode.debug_str and its overrides in
torch/_inductor/scheduler.py. An entry is a head line, attributes, and for a group its members:

    op1_op2: FusedSchedulerNode(SchedulerNode,SchedulerNode)
    op1_op2.writes = [...]
    op1_op2.snodes[0] =
    op1: SchedulerNode(ComputedBuffer)
    op1.writes = [...]

A line that starts in the first column starts a *statement*; indented lines and closing brackets
continue it. torch 2.4 indents the members of a group by four columns; they are shifted to the
first one before they are read. The text of a leaf occurs up to four times in a run's files, so
a node's own text is read once and remembered, with lines counted from its head.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from inspector.model.problem import Problem
from inspector.model.schedule import Buffer, BufferUser, Dependency, Layout, LoopBody, Schedule, SchedulerNode
from inspector.model.source import LineSpan

from .ir_values import (
    Ranges,
    Sizes,
    parse_dependencies,
    parse_layout,
    parse_names,
    parse_ranges,
    parse_size_pair,
    parse_users,
)

_SEPARATOR = "\n\n\n"
"""What stands between two entries; within an entry torch writes no empty line (but generated code may)."""

# op1_op2: FusedSchedulerNode(SchedulerNode,SchedulerNode)
_HEAD = re.compile(r"([^\s:()]+): (\w+)\(([^()\n]*)\)(?=\n|\Z)")

# The head of an entry in a damaged stretch. After "op1_op2.snodes[0] =" a head is a member's.
_ENTRY_HEAD = re.compile(r"(?<! =\n)^[^\s:()]+: \w+\([^()\n]*\)$", re.MULTILINE)

# The line break before a statement:  "\nop2.writes = ", but not "\n    [   MemoryDep" nor "\n]"
_NEXT_STATEMENT = re.compile(r"\n(?=[^ \n\]])")

# The line break before a buffer within  op2.outputs = [      "\n    buf2: ComputedBuffer"
_NEXT_BUFFER = re.compile(r"\n    (?=[^\s:]+: \w+\n)")

# The line break before a buffer's attribute:  "\n    buf2.layout = ", but not "\n        NodeUser("
_NEXT_BUFFER_ATTRIBUTE = re.compile(r"\n    (?=[^ \n\]])")

# class op2_loop_body:
_BODY_HEAD = re.compile(r"class (\w+):")

_CACHE = 1 << 13


class _Damage(NamedTuple):
    """Lines `first` to `last`, counted from 0 at the node's head, that were not understood."""

    first: int
    last: int
    message: str


class _NodeText(NamedTuple):
    """What a node's own text says. `node` has a span counted from 0; `rest` is the line and the
    offset at which another entry starts within the text, None in undamaged files."""

    node: SchedulerNode
    damage: tuple[_Damage, ...]
    rest: tuple[int, int] | None


def parse_schedule(text: str, path: str, stage: Literal["pre", "post"]) -> Schedule:
    """The schedule in the text of one IR file; `path` is only used in problems.

    Never raises. Text that is cut, or that holds foreign lines, gives the entries before and after
    the damage; each line that belongs to no entry is in `unparsed`, and each stretch of such lines
    is a problem.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    reader = _Reader(path)
    nodes: list[SchedulerNode] = []
    for line, entry in _entries(text):
        nodes.extend(reader.entry(entry, line))
    if not text.strip():
        reader.problems.append(Problem(path, None, "is empty: no scheduler node"))
    elif not text.endswith(_SEPARATOR):
        last = text.count("\n") + 1
        reader.problems.append(Problem(path, last, "ends without the two empty lines after an entry: cut short?"))
    return Schedule(path, stage, tuple(nodes), text, tuple(reader.unparsed), tuple(reader.problems))


def _entries(text: str) -> Iterator[tuple[int, str]]:
    """(line counted from 1, text) of each entry; text before a file's first head is one too."""
    line, pending, start = 1, "", 1
    for chunk in text.split(_SEPARATOR):
        if _HEAD.match(chunk) and "\n\n" not in chunk:
            cuts = [0]
        else:
            cuts = [match.start() for match in _ENTRY_HEAD.finditer(chunk)]
        if not cuts or cuts[0] > 0:
            before = chunk[: cuts[0]] if cuts else chunk
            pending += (_SEPARATOR if pending else "") + before
        for cut, end in zip(cuts, [*cuts[1:], len(chunk)]):
            if pending:
                yield start, pending
            pending, start = chunk[cut:end], line + chunk.count("\n", 0, cut)
        line += chunk.count("\n") + len(_SEPARATOR)
    if pending:
        yield start, pending


@dataclass(slots=True)
class _Reader:
    """Builds nodes with their place in the file and collects what was not understood."""

    path: str
    unparsed: list[int] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def entry(self, text: str, line: int) -> list[SchedulerNode]:
        """The entry that starts at `line`; several where damage has joined entries, none in junk."""
        match = _HEAD.match(text)
        if match is None:
            return self._headless(text, line)
        if ".snodes[" in text:
            name = match[1]
            for indent in ("", "    "):
                before, mark, after = text.partition(f"\n{indent}{name}.snodes[")
                if mark:
                    return self._group(name, before, after, mark, line)
        return self._placed(text, line)

    def _headless(self, text: str, line: int) -> list[SchedulerNode]:
        match = _ENTRY_HEAD.search(text)
        end = match.start() if match else len(text)
        self._damaged(text[:end], line, "no scheduler node starts here")
        return self.entry(text[end:], line + text.count("\n", 0, end)) if match else []

    def _placed(self, text: str, line: int) -> list[SchedulerNode]:
        """The node whose own text this is, and what damage has left behind it."""
        parsed = _parse_node(text)
        if parsed.damage:
            lines = text.split("\n")
            for first, last, message in parsed.damage:
                self._damaged("\n".join(lines[first : last + 1]), line + first, message)
        nodes = [_copy(parsed.node, line)]
        if parsed.rest is not None:
            offset, start = parsed.rest
            nodes.extend(self.entry(text[start:], line + offset))
        return nodes

    def _group(self, name: str, before: str, after: str, mark: str, line: int) -> list[SchedulerNode]:
        """A group: its own attributes stand before the first `mark`, its members after each."""
        header, *members = self._placed(before, line)
        indent = mark[1 : -len(f"{name}.snodes[")]
        # A group of one has its member's name, so the marks that follow may be the member's own.
        only = after.partition("\n")[2].startswith(f"{indent}{name}: ")
        line += before.count("\n") + 1
        extras = header.extras
        for number, piece in enumerate([after] if only else after.split(mark)):
            first, _, body = piece.partition("\n")
            if first != f"{number}] =":
                self._damaged(mark[1:] + first, line, f"not member {number} of {name}")
            if indent:
                body = body.replace("\n" + indent, "\n").removeprefix(indent)
            body, tail, remark = body.partition(f"\n{name} ")
            if tail:
                extras += (_remark(remark),)
            if body.strip():
                members.extend(self.entry(body, line + 1))
            else:
                self.problems.append(Problem(self.path, line, f"member {number} of {name} is missing"))
            line += piece.count("\n") + 1
        last = max([header.span.last, line - 1 if extras != header.extras else 0, *(m.span.last for m in members)])
        outputs = header.outputs or tuple(buffer for member in members for buffer in member.outputs)
        return [_copy(header, 0, last, tuple(members), outputs, extras)]

    def _damaged(self, text: str, line: int, message: str) -> None:
        """Reports the lines of `text`, which starts at `line`, as not understood."""
        lines = [line + offset for offset, content in enumerate(text.split("\n")) if content.strip()]
        if lines:
            self.unparsed.extend(lines)
            self.problems.append(Problem(self.path, lines[0], message))


def _copy(
    node: SchedulerNode,
    line: int,
    last: int | None = None,
    members: tuple[SchedulerNode, ...] = (),
    outputs: tuple[Buffer, ...] | None = None,
    extras: tuple[tuple[str, str], ...] | None = None,
) -> SchedulerNode:
    """`node` moved down by `line` lines, to end at `last`, with what only a group's end can tell.

    dataclasses.replace does the same at five times the cost, on the hottest path.
    """
    return SchedulerNode(
        node.name,
        node.cls,
        node.inner,
        LineSpan(node.span.first + line, node.span.last + line if last is None else last),
        node.writes,
        node.unmet,
        node.met,
        node.outputs if outputs is None else outputs,
        members,
        node.device,
        node.iteration,
        node.sizes,
        node.kernel,
        node.layouts,
        node.body,
        node.extras if extras is None else extras,
    )


@lru_cache(_CACHE)
def _parse_node(text: str) -> _NodeText:
    """A node's own text, from its head line to the next node or member."""
    statements = _NEXT_STATEMENT.split(text)
    return _NodeBuilder(statements).build()


class _NodeBuilder:
    """Reads the statements of one node; `first` is the head."""

    def __init__(self, statements: list[str]) -> None:
        self.statements = statements
        head = _HEAD.match(statements[0])
        assert head is not None, "callers have seen the head"
        self.name, self.cls, inner = head.groups()
        self.inner = tuple(inner.split(",")) if inner else ()
        self.dependencies: dict[str, tuple[Dependency, ...]] = {}
        self.outputs: tuple[Buffer, ...] = ()
        self.users: tuple[BufferUser, ...] | None = None
        self.texts: dict[str, str] = {}
        self.sizes: tuple[Sizes, Sizes] | None = None
        self.layouts: list[tuple[str, Layout]] = []
        self.body: LoopBody | None = None
        self.extras: list[tuple[str, str]] = []
        self.bad: list[tuple[int, str]] = []
