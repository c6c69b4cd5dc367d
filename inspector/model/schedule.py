"""Inductor's schedule: the scheduler nodes of ir_pre_fusion.txt and ir_post_fusion.txt.

The text is written by torch/_inductor/scheduler.py (BaseSchedulerNode.debug_str and its
overrides), through torch/_inductor/debug.py: DebugFormatter.ir_pre_fusion / ir_post_fusion.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Literal

from inspector.frozen import dataclass

from .problem import Problem
from .source import LineSpan, Size


@dataclass(frozen=True, slots=True)
class Dependency:
    """A read or a write of a buffer (torch/_inductor/dependencies.py: MemoryDep, StarDep, WeakDep).

    `kind` `memory`: `index` is the address in elements as an expression over the names in
    `ranges` (name, extent); `star`: the whole buffer; `weak`: ordering only, not a read. `text`
    is what the file says; a class that is not known is `other`, with the text kept.
    """

    kind: Literal["memory", "star", "weak", "other"]
    buffer: str
    text: str
    index: str | None = None
    ranges: tuple[tuple[str, Size], ...] = ()
    mode: str | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """A buffer's layout (torch/_inductor/ir.py: FixedLayout and its siblings).

    `kind` is the class name. `size` is None where the layout has none (MultiOutputLayout);
    `offset` counts elements. A MutationLayoutSHOULDREMOVE has its target's size and memory.
    """

    kind: str
    text: str
    device: str | None = None
    dtype: str | None = None
    size: tuple[Size, ...] | None = None
    stride: tuple[Size, ...] | None = None
    offset: Size = 0


@dataclass(frozen=True, slots=True)
class BufferUser:
    """Who reads a buffer: a scheduler node's name, or `OUTPUT` for the graph's result."""

    node: str
    can_inplace: bool
    is_weak: bool


@dataclass(frozen=True, slots=True)
class Buffer:
    """One entry of `opN.outputs`. `kind` is the IR class (ComputedBuffer, ExternKernelOut, ...).

    `mutations`: names of the buffers whose memory this one is. `aliases`: buffers that it views.
    `extras` keeps attributes that have no field here, as (name, text).
    """

    name: str
    kind: str
    layout: Layout | None = None
    users: tuple[BufferUser, ...] = ()
    mutations: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    extras: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class LoopBody:
    """A node's inner loop (torch/_inductor/loop_body.py: LoopBody.debug_str).

    `ranges`: loop variable and extent; `indexing`: name and expression (index0 = 100*p0 + p1);
    `lines`: the text, whole and in order, the head line included.
    """

    name: str
    ranges: tuple[tuple[str, Size], ...]
    indexing: tuple[tuple[str, str], ...]
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SchedulerNode:
    """One entry, or one member of a group.

    `cls` is the scheduler's class (SchedulerNode, FusedSchedulerNode, ...), `inner` what stands in
    the brackets: an IR class for a leaf, the members' classes for a group. `members` are the
    snodes of a group, empty for a leaf. `unmet` and `met` are the dependencies on buffers of this
    graph and on its inputs. torch 2.4 names nodes by their buffer (buf5) and writes users at the
    node, later versions name them op5 with `outputs`; both end up in `outputs`. `layouts` holds
    the ``NAME_layout =`` lines: every buffer that the loop body touches. `kernel` is the extern
    target (extern_kernels.mm), None where there is none. `iteration` is the ``group.iteration``
    text, `sizes` the pair (loop sizes, reduction sizes). `extras` keeps attributes without a field
    here. `span` is in lines of the file; members lie inside their group's span.
    """

    name: str
    cls: str
    inner: tuple[str, ...]
    span: LineSpan
    writes: tuple[Dependency, ...] = ()
    unmet: tuple[Dependency, ...] = ()
    met: tuple[Dependency, ...] = ()
    outputs: tuple[Buffer, ...] = ()
    members: tuple[SchedulerNode, ...] = ()
    device: str | None = None
    iteration: str | None = None
    sizes: tuple[tuple[Size, ...], tuple[Size, ...]] | None = None
    kernel: str | None = None
    layouts: tuple[tuple[str, Layout], ...] = ()
    body: LoopBody | None = None
    extras: tuple[tuple[str, str], ...] = ()

    @property
    def body_lines(self) -> tuple[str, ...]:
        """Of its loop body; none where it has no body."""
        return self.body.lines if self.body is not None else ()

    @property
    def is_group(self) -> bool:
        return bool(self.members)

    @property
    def is_extern(self) -> bool:
        return self.cls.startswith("Extern")

    @property
    def reads(self) -> tuple[Dependency, ...]:
        """Dependencies that read memory: met and unmet without the ordering-only ones."""
        return tuple(dep for dep in self.met + self.unmet if dep.kind != "weak")

    def leaves(self) -> Iterator[SchedulerNode]:
        """The nodes that compute: this one, or its members' leaves, in file order."""
        if not self.members:
            yield self
        for member in self.members:
            yield from member.leaves()


@dataclass(frozen=True, slots=True)
class Schedule:
    """One IR file. `nodes` are the top-level entries in file order, which is execution order for
    `post`. `unparsed` lists the lines that no object
    holds; each has a problem, so nothing is lost in silence."""

    path: str
    stage: Literal["pre", "post"]
    nodes: tuple[SchedulerNode, ...]
    text: str
    unparsed: tuple[int, ...] = ()
    problems: tuple[Problem, ...] = ()
    _by_name: dict[str, SchedulerNode] = field(default_factory=dict, repr=False, compare=False)

    def leaves(self) -> Iterator[SchedulerNode]:
        for node in self.nodes:
            yield from node.leaves()

    def find(self, name: str) -> SchedulerNode | None:
        """The entry, group or member of that name; a group member is found as itself."""
        if not self._by_name:
            stack = list(reversed(self.nodes))
            while stack:
                node = stack.pop()
                self._by_name.setdefault(node.name, node)
                stack.extend(reversed(node.members))
        return self._by_name.get(name)
