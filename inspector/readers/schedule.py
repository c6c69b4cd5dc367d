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
first one before they are read. Whole nodes are rarely repeated (on a GPU, fusion renames the loop
variables of its members), but their dependencies, layouts, users and buffers are: those are
memoised by their text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, pairwise, repeat
from typing import Literal

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
_ANY_HEAD = re.compile(r"^[^\s:()]+: \w+\([^()\n]*\)$", re.MULTILINE)

# The line break before a statement:  "\nop2.writes = ", but not "\n    [   MemoryDep" nor "\n]"
_NEXT_STATEMENT = re.compile(r"\n(?![ \n]|\](?:\n|\Z))")

# The line break before a buffer within  op2.outputs = [      "\n    buf2: ComputedBuffer"
_NEXT_BUFFER = re.compile(r"\n    (?=[^\s:]+: \w+\n)")

# The line break before a buffer's attribute:  "\n    buf2.layout = ", but not "\n        NodeUser("
_NEXT_BUFFER_ATTRIBUTE = re.compile(r"\n    (?=[^ \n\]])")

# class op2_loop_body:
_BODY_HEAD = re.compile(r"class (\w+):")

_DEEPEST = 32
"""Groups within groups that are followed; torch nests two (foreach of fused nodes)."""

_WRITTEN = re.compile(r"\S[^\n]*")
"""From the first letter of a line to its end: damage may be millions of empty lines."""

_CACHE = 1 << 13


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
    seen: set[str] = set()
    for line, entry in _entries(text):
        for node in reader.entry(entry, line):
            if node.name in seen:
                again = f"{node.name} stands here once more: left out"
                reader.problems.append(Problem(path, node.span.first, again))
                reader.unparsed.extend(range(node.span.first, node.span.last + 1))
            else:
                seen.add(node.name)
                nodes.append(node)
    if not text.strip():
        reader.problems.append(Problem(path, None, "is empty: no scheduler node"))
    elif not text.endswith(_SEPARATOR):
        message = "ends without the two empty lines after an entry: cut short?"
        reader.problems.append(Problem(path, text.count("\n") + 1, message))
    return Schedule(path, stage, tuple(nodes), text, tuple(sorted(reader.unparsed)), tuple(reader.problems))


def parse_pre_fusion(text: str, path: str) -> Schedule:
    return parse_schedule(text, path, "pre")


def parse_post_fusion(text: str, path: str) -> Schedule:
    return parse_schedule(text, path, "post")


def _entries(text: str) -> Iterator[tuple[int, str]]:
    """(line counted from 1, text) of each entry; text before a file's first head is one too."""
    line = start = 1
    pending: list[str] = []
    for chunk in text.split(_SEPARATOR):
        if not chunk:
            # As a file of a million empty lines has them.
            pending.append(chunk)
            line += len(_SEPARATOR)
            continue
        if _is_one_entry(chunk):
            cuts = [0]
        else:
            cuts = [match.start() for match in _ENTRY_HEAD.finditer(chunk)]
        if not cuts or cuts[0] > 0:
            # What has no head of its own belongs to the entry before it, or is found foreign there.
            pending.append(chunk[: cuts[0]] if cuts else chunk)
        counted = 0
        for cut, end in pairwise([*cuts, len(chunk)] if cuts else []):
            if pending:
                yield start, _SEPARATOR.join(pending)
            line += chunk.count("\n", counted, cut)
            pending, start, counted = [chunk[cut:end]], line, cut
        line += chunk.count("\n", counted) + len(_SEPARATOR)
    if pending:
        yield start, _SEPARATOR.join(pending)


def _is_one_entry(chunk: str) -> bool:
    """Whether this is a single, undamaged entry; counting is much cheaper than looking for heads."""
    return _HEAD.match(chunk) is not None and chunk.count(".writes =") == chunk.count(".snodes[") + 1


class _Reader:
    """Builds nodes with their place in the file and collects what was not understood."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.depth = 0
        self.unparsed: list[int] = []
        self.problems: list[Problem] = []

    def entry(self, text: str, line: int) -> list[SchedulerNode]:
        """The entry that starts at `line`; several where damage has joined entries, none in junk."""
        nodes: list[SchedulerNode] = []
        # Looked for once: thousands of entries may be joined.
        heads = chain((match.start() for match in _ANY_HEAD.finditer(text)), repeat(len(text)))
        at, following = 0, next(heads)
        while at < len(text):
            while following <= at:
                following = next(heads)
            match = _HEAD.match(text, at)
            if match is None:
                end = self._headless(text, line, at)
            elif (group := self._members(text, match[1], at, following)) is not None:
                nodes.append(self._group(line, *group))
                break
            else:
                builder, end = self._own(text, line, at)
                nodes.append(builder.build())
            line += text.count("\n", at, end)
            at = end
        return nodes

    def _headless(self, text: str, line: int, at: int) -> int:
        """Reports the text before the next head; the offset of that head, or of the text's end."""
        match = _ENTRY_HEAD.search(text, at)
        end = match.start() if match else len(text)
        self._damaged(text[at:end], line, "no scheduler node starts here")
        return end

    def _own(self, text: str, line: int, at: int = 0) -> tuple[_NodeBuilder, int]:
        """The node whose own text begins at `at`, without members, and the offset at which that text ends.

        It ends before the text does only where the empty lines before the next head were lost.
        """
        # One after the other: the rest of the text may be a thousand entries that damage has joined.
        breaks = chain((match.start() for match in _NEXT_STATEMENT.finditer(text, at)), (len(text),))
        head = text[at : next(breaks)]
        builder = _NodeBuilder(head, line)
        understood, start, end = head.rstrip(), at, at + len(head) + 1
        here, counted = line, at
        for place in breaks:
            statement = text[end:place]
            complaint = builder.read(statement)
            if complaint is None:
                understood, start = statement.rstrip(), end
            elif _HEAD.match(statement):
                break
            else:
                here, counted = here + text.count("\n", counted, end), end
                self._damaged(statement, here, complaint)
            end += len(statement) + 1
        builder.last = line + text.count("\n", at, start + len(understood))
        return builder, end

    def _members(self, text: str, name: str, at: int, following: int) -> tuple[str, str, str] | None:
        """(indent of the members, text before them, text after the first mark) of the group at `at`; None
        where it is none. The mark stands before the first member's head, so before the `following` one."""
        for indent in ("", "    ") if self.depth < _DEEPEST else ():
            mark = f"\n{indent}{name}.snodes["
            if (place := text.find(mark, at, following)) >= 0:
                return indent, text[at:place], text[place + len(mark) :]
        return None

    def _group(self, line: int, indent: str, before: str, after: str) -> SchedulerNode:
        """A group: `before` holds its own attributes, `after` its members with a mark between two."""
        builder, end = self._own(before, line)
        self.depth += 1
        members = self.entry(before[end:], line + before.count("\n", 0, end))
        mark = f"{indent}{builder.own}snodes["
        # A group of one has its member's name, so the marks that follow may be the member's own.
        only = after.partition("\n")[2].startswith(f"{indent}{builder.name}: ")
        line += before.count("\n") + 1
        for number, piece in enumerate([after] if only else after.split("\n" + mark)):
            builder.last = line
            first, _, body = piece.partition("\n")
            if first != f"{number}] =":
                self._damaged(mark + first, line, f"not the line of member {number} of {builder.name}")
            if indent:
                body = body.replace("\n" + indent, "\n").removeprefix(indent)
            body, tail, remark = body.partition(f"\n{builder.name} ")
            if body.strip():
                members.extend(self.entry(body, line + 1))
            else:
                self.problems.append(
                    Problem(self.path, line, f"member {number} of {builder.name} is missing")
                )
            if tail:
                builder.extras.append(_remark(remark))
                builder.last = line + piece.rstrip().count("\n")
            line += piece.count("\n") + 1
        self.depth -= 1
        return builder.build(tuple(members))

    def _damaged(self, text: str, line: int, message: str) -> None:
        """Reports the lines of `text`, which starts at `line`, as not understood."""
        lines, at = [], 0
        for match in _WRITTEN.finditer(text):
            line += text.count("\n", at, match.start())
            at = match.start()
            lines.append(line)
        if lines:
            self.unparsed.extend(lines)
            self.problems.append(Problem(self.path, lines[0], message))


class _NodeBuilder:
    """Takes in the statements of one node, one after the other.

    `first` and `last` are the lines of the file that it spans, without those of its members.
    """

    __slots__ = (
        "body", "cls", "dependencies", "extras", "first", "inner", "last", "layouts", "name",
        "outputs", "own", "sizes", "texts", "users",
    )  # fmt: skip

    def __init__(self, head: str, line: int) -> None:
        match = _HEAD.match(head)
        assert match is not None, "every caller has seen the head"
        self.name, self.cls, self.inner = match.groups()
        self.own = f"{self.name}."
        self.first = self.last = line
        self.dependencies: dict[str, tuple[Dependency, ...]] = {}
        self.outputs: tuple[Buffer, ...] = ()
        self.users: tuple[BufferUser, ...] | None = None
        self.texts: dict[str, str] = {}
        self.sizes: tuple[Sizes, Sizes] | None = None
        self.layouts: list[tuple[str, Layout]] = []
        self.body: LoopBody | None = None
        self.extras: list[tuple[str, str]] = []

    def read(self, statement: str) -> str | None:
        """Takes in one statement; the complaint where it, or a part of it, was not understood."""
        if statement.startswith(self.own):
            key, mark, value = statement[len(self.own) :].partition(" =")
            return self.attribute(key, value.strip()) if mark else f"attribute of {self.name} without a value"
        if statement.startswith("class "):
            return self.loop_body(statement.rstrip())
        if statement.startswith(self.name + " "):
            self.extras.append(_remark(statement[len(self.name) + 1 :]))
            return None
        return self.buffer_layout(statement)

    def attribute(self, key: str, value: str) -> str | None:
        """``NAME.key = value``; the complaint where the value is not whole, kept in `extras` then."""
        whole = True
        if key in ("writes", "unmet_dependencies", "met_dependencies"):
            self.dependencies[key], whole = parse_dependencies(value)
        elif key == "outputs":
            self.outputs, whole = _parse_outputs(value)
        elif key == "users":
            self.users, whole = parse_users(value)
        elif key == "sizes":
            self.sizes = parse_size_pair(value)
            whole = self.sizes is not None
        elif key in ("group.device", "group.iteration", "node.kernel"):
            self.texts[key], foreign, _ = value.partition("\n")
            whole = not foreign
        else:
            self.extras.append((key, value))
        if whole:
            return None
        self.extras.append((key, value))
        return f"{self.own}{key} is cut or garbled"

    def buffer_layout(self, statement: str) -> str | None:
        """``NAME_layout = LAYOUT``, of a buffer that the loop body touches."""
        name, mark, value = statement.partition("_layout =")
        if mark and " " not in name and (layout := parse_layout(value.strip())):
            self.layouts.append((name, layout))
            return None
        return f"not understood within {self.name}"

    def loop_body(self, statement: str) -> str | None:
        """``class NAME_loop_body:`` and the indented lines below it."""
        lines = tuple(statement.split("\n"))
        match = _BODY_HEAD.fullmatch(lines[0])
        if match is None:
            return f"loop body of {self.name} without a head"
        ranges: Ranges = ()
        indexing: list[tuple[str, str]] = []
        for text in lines[1:]:
            key, mark, value = text.strip().partition(" = ")
            if not mark:
                break
            if key == "var_ranges":
                ranges = parse_ranges(value[1:-1])
            else:
                indexing.append((key, value))
        self.body = LoopBody(match[1], ranges, tuple(indexing), lines)
        return None

    def build(self, members: tuple[SchedulerNode, ...] = ()) -> SchedulerNode:
        outputs = self.outputs
        if "SchedulerNode" in self.inner:
            outputs = outputs or tuple(buffer for member in members for buffer in member.outputs)
        elif self.users is not None:
            # torch 2.4: the node is its buffer, and only its own loop body tells the layout.
            layout = next((layout for name, layout in self.layouts if name == self.name), None)
            outputs = (Buffer(self.name, self.inner, layout, self.users),)
        kernel = self.texts.get("node.kernel")
        return SchedulerNode(
            name=self.name,
            cls=self.cls,
            inner=tuple(self.inner.split(",")) if self.inner else (),
            span=LineSpan(self.first, max([self.last, *(member.span.last for member in members)])),
            writes=self.dependencies.get("writes", ()),
            unmet=self.dependencies.get("unmet_dependencies", ()),
            met=self.dependencies.get("met_dependencies", ()),
            outputs=outputs,
            members=members,
            device=self.texts.get("group.device"),
            iteration=self.texts.get("group.iteration"),
            sizes=self.sizes,
            kernel=None if kernel == "None" else kernel,
            layouts=tuple(self.layouts),
            body=self.body,
            extras=tuple(self.extras),
        )


def _remark(text: str) -> tuple[str, str]:
    """What torch/_inductor/codegen/triton.py: debug_triton_code adds, as an extra.

    The text is ``Triton code:`` and the code, or the bare ``Unfinalized multi template buffer``.
    """
    title, _, content = text.rstrip().partition("\n")
    return title.removesuffix(":"), content


def _parse_outputs(value: str) -> tuple[tuple[Buffer, ...], bool]:
    """The buffers of ``NAME.outputs = [..]`` and whether all of it was understood."""
    whole = value.startswith("[\n") and value.endswith("\n]")
    before, *texts = _NEXT_BUFFER.split(value[1:-2] if whole else value.removeprefix("["))
    parsed = tuple(map(_parse_buffer, texts))
    whole = whole and not before.strip() and all(complete for _, complete in parsed)
    return tuple(buffer for buffer, _ in parsed), whole


@lru_cache(_CACHE)
def _parse_buffer(text: str) -> tuple[Buffer, bool]:
    """One buffer as SchedulerBuffer.debug_str prints it, and whether all of it was understood."""
    head, *attributes = _NEXT_BUFFER_ATTRIBUTE.split(text)
    name, _, kind = head.partition(": ")
    own = f"{name}."
    layout: Layout | None = None
    users: tuple[BufferUser, ...] = ()
    names: dict[str, tuple[str, ...]] = {}
    extras: list[tuple[str, str]] = []
    complete = True
    for attribute in attributes:
        key, mark, value = attribute.removeprefix(own).partition(" =")
        value = value.strip()
        understood = bool(mark) and attribute.startswith(own)
        if understood and key == "layout":
            layout = parse_layout(value)
            understood = layout is not None
        elif understood and key == "users":
            users, understood = parse_users(value)
        elif understood and key in ("mutations", "aliases"):
            parsed = parse_names(value)
            understood = parsed is not None
            names[key] = parsed or ()
        elif understood:
            extras.append((key, value))
        if not understood:
            extras.append(("", attribute.strip()))
            complete = False
    buffer = Buffer(
        name, kind, layout, users, names.get("mutations", ()), names.get("aliases", ()), tuple(extras)
    )
    return buffer, complete
