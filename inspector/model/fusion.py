"""What fusion did to one compiled graph: groups, traffic, decisions, and what it missed.

Bytes are counted as the command contract says: a buffer's numel times its item size, or the region of
it that the index shows to be touched; a node reads a buffer once however many dependencies name it;
ordering-only dependencies are not reads. None stands for a size that is symbolic and has no hint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Literal

from inspector.frozen import dataclass

from .decision import NO_EVIDENCE, Category, Decision, DecisionSource, Evidence, Verdict
from .source import Size, SourceLocation
from .waste import Evaluation, Rewritten

NodeKind = Literal[
    "pointwise", "reduction", "scan", "template", "extern", "fallback", "user", "part", "nop", "other"
]
"""What a leaf computes. `part`: one tensor of a multi-output call; `user`: a user's Triton kernel."""

GroupKind = Literal[
    "vertical",
    "horizontal",
    "mixed",
    "outer_loop",
    "foreach",
    "mix_order",
    "nested_reduction",
    "template_prologue",
    "template_epilogue",
    "template_both",
    "user_epilogue",
    "grouped",
    "single",
]
"""How the members of a group belong together. `vertical`: each feeds or reads another member;
`horizontal`: none does, they share inputs; `mixed`: both occur. `single`: not fused with anything."""


@dataclass(frozen=True, slots=True)
class Region:
    """The elements of one buffer that a dependency touches.

    `low` and `high` are the first and last address in elements. `elements` counts distinct ones where
    `exact`, and is an upper bound otherwise (an indirect index, a form that was not resolved).
    """

    elements: int
    low: int
    high: int
    exact: bool = True

    @property
    def dense(self) -> bool:
        return self.elements == self.high - self.low + 1


Basis = Literal["whole", "region", "bound", "unknown"]
"""How a figure was found: the buffer's numel, a region of it, an upper bound of that, not at all."""


@dataclass(frozen=True, slots=True)
class Access:
    """One buffer as one node, or one group, reads or writes it. `memory` is the buffer whose storage
    it is, which differs from `buffer` where a node changes another's memory in place."""

    buffer: str
    memory: str
    bytes: int | None
    basis: Basis


@dataclass(frozen=True, slots=True)
class NodeTraffic:
    """A leaf of the schedule with what it reads and writes, each buffer once.

    `ranges` is (loop sizes, reduction sizes) as text; `extents` are the (loop points, reduction points)
    that its loops can run as: a reduction's also as one flat loop. Empty for a library call. `group` is
    the post-fusion entry that it ended in.
    """

    name: str
    kind: NodeKind
    group: str
    device: str | None
    ranges: str
    extents: frozenset[tuple[Size, Size]]
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    sources: tuple[SourceLocation, ...] = ()
    fx: tuple[str, ...] = ()

    @property
    def bytes_read(self) -> int | None:
        return total(self.reads)

    @property
    def bytes_written(self) -> int | None:
        return total(self.writes)


@dataclass(frozen=True, slots=True)
class FusionGroup:
    """One entry of ir_post_fusion.txt: a group, or a node that fused with nothing (`single`).

    `nodes` are its leaves in order. `kernel` is the first kernel that its launches call, `calls` their
    numbers. `reads` are distinct reads from outside, `writes` those that survive; `gone` are the
    buffers that fusing removed, `kept` those that only members use and that a launch is handed all the
    same, so that their writes were not saved. `bytes_saved` is the members' reads and writes less `reads`
    and `writes`, `bytes_asked` the part of these two that the program asks for.
    """

    name: str
    kind: GroupKind
    nodes: tuple[str, ...]
    kernel: str | None
    calls: tuple[int, ...]
    device: str | None
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    gone: tuple[Access, ...]
    kept: tuple[Access, ...]
    bytes_unfused: int | None
    bytes_saved: int | None
    sources: tuple[SourceLocation, ...] = ()
    is_wall: bool = False
    """An extern, fallback or user's kernel: nothing fuses through it."""
    bytes_asked: int | None = None

    @property
    def bytes_moved(self) -> int | None:
        """Distinct reads from outside, and the writes that survive."""
        return total((*self.reads, *self.writes))

    @property
    def bytes_fused(self) -> int | None:
        if self.bytes_unfused is None or self.bytes_saved is None:
            return None
        return self.bytes_unfused - self.bytes_saved


@dataclass(frozen=True, slots=True)
class Missed:
    """Two final groups that touch the same memory and did not fuse, and what that costs.

    `bytes` is what fusing the two would have saved on top of what each saves; None where a size is not
    known. `buffers` are the shared ones with their bytes. `reason` is torch's text, or the recorder's where
    not `by_torch`, empty where there is none; `plain` says it in words. `possible` False: no setting and no
    rewrite of this pair alone makes them fuse. `between` are groups that lie between the two; `evidence` is
    that of the decision.
    """

    first: str
    second: str
    bytes: int | None
    buffers: tuple[Access, ...]
    verdict: Verdict
    category: Category
    reason: str
    plain: str
    advice: str
    possible: bool
    inferred: bool
    line: int | None
    first_sources: tuple[SourceLocation, ...] = ()
    second_sources: tuple[SourceLocation, ...] = ()
    between: tuple[str, ...] = ()
    by_torch: bool = True
    evidence: Evidence = NO_EVIDENCE


@dataclass(frozen=True, slots=True)
class FusionReport:
    """Everything about the fusion of one compiled graph.

    `nodes` are the leaves and `groups` the entries in execution order. `missed` is worst first, without
    noise; `minor` are pairs left out as tiny or as two library calls, in the same order. `noise` counts
    by kind what was left out. `bytes_*` are the contract's; `bytes_kept` is the part of `bytes_fused`
    that are writes of buffers used inside one group only. `outputs` are buffers that are results.
    `notes` say what could not be counted and why. `rewritten` and `evaluations` are what kernels do that the
    program did not ask for. `work`: name of a group -> all that its loops do, in plain operations, where that
    is more than moving.
    """

    name: str
    ident: str
    nodes: tuple[NodeTraffic, ...]
    groups: tuple[FusionGroup, ...]
    decisions: tuple[Decision, ...]
    missed: tuple[Missed, ...]
    minor: tuple[Missed, ...]
    noise: Mapping[str, int]
    bytes_unfused: int | None
    bytes_fused: int | None
    bytes_minimum: int | None
    bytes_kept: int | None
    counts_before: Mapping[str, int]
    counts_after: Mapping[str, int]
    decision_source: DecisionSource
    outputs: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    rewritten: tuple[Rewritten, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()
    work: Mapping[str, float] = field(default_factory=dict)
    _groups: dict[str, FusionGroup] = field(default_factory=dict, repr=False, compare=False)

    @property
    def bytes_asked(self) -> int | None:
        """The part of `bytes_fused` that the program asks for."""
        wasted = [
            group.bytes_moved - group.bytes_asked
            for group in self.groups
            if group.bytes_moved is not None and group.bytes_asked is not None
        ]
        if self.bytes_fused is None or len(wasted) < len(self.groups):
            return None
        return self.bytes_fused - sum(wasted)

    @property
    def fused_ratio(self) -> float | None:
        """Bytes as fused over bytes unfused; 1.0 means that fusing saved nothing."""
        return _ratio(self.bytes_fused, self.bytes_unfused)

    @property
    def excess_ratio(self) -> float | None:
        """Bytes as fused over the least possible; 1.0 cannot be beaten."""
        return _ratio(self.bytes_fused, self.bytes_minimum)

    def group(self, name: str) -> FusionGroup | None:
        """The group of that name, or the one that holds the node of that name."""
        if not self._groups:
            for group in self.groups:
                self._groups.update(dict.fromkeys((*group.nodes, group.name), group))
        return self._groups.get(name)

    def by_call(self, of: Callable[[FusionGroup], int | None]) -> dict[int, int]:
        """Bytes of each launch: those of its groups, shared by the launches that compute one together. The
        tensors that a call of several results gives are groups of their own (torch/_inductor/ir.py:
        MultiOutput), and the call's."""
        amounts: dict[int, int] = {}
        made = {access.buffer: group.calls for group in self.groups for access in group.writes}
        parts = {node.name for node in self.nodes if node.kind == "part"}
        for group in self.groups:
            calls = group.calls
            if not calls and parts.issuperset(group.nodes):
                calls = next((made[access.buffer] for access in group.reads if access.buffer in made), ())
            for index in calls:
                if (amount := of(group)) is not None:
                    amounts[index] = amounts.get(index, 0) + amount // len(calls)
        return amounts


def total(accesses: tuple[Access, ...]) -> int | None:
    """Bytes of all accesses; None where one is not known."""
    result = 0
    for access in accesses:
        if access.bytes is None:
            return None
        result += access.bytes
    return result


def _ratio(part: int | None, whole: int | None) -> float | None:
    return part / whole if part is not None and whole else None


# -- fusion as it happened


@dataclass(frozen=True, slots=True)
class FusionStep:
    """The schedule after one round. `number` is 0 before the first one, and None for a last step that is
    taken from ir_post_fusion.txt because no round tells of it. `groups` are those of several nodes, as
    leaf names in execution order; `count` counts groups and single nodes. `fused` are the pairs, by
    the names of that time."""

    number: int | None
    groups: tuple[tuple[str, ...], ...]
    fused: tuple[tuple[str, str], ...]
    count: int


@dataclass(frozen=True, slots=True)
class FusionHistory:
    """`steps` from the unfused schedule to the last; `notes` say what the source cannot tell."""

    source: DecisionSource
    steps: tuple[FusionStep, ...]
    notes: tuple[str, ...] = ()
