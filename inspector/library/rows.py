"""The flat records of a run, as frames and an index have them: a field is a column of that type.

Times are milliseconds of a steady call, sizes bytes; None is what was not measured or is not known. `graph`
is a compiled graph's ident, lines are ``path:line`` of the program, or of a file of the run.
"""

from __future__ import annotations

from inspector.frozen import dataclass

Texts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as a whole. `started` is seconds since the epoch, `seconds` what the captured command took.
    `faster` is eager's time over the compiled one; `outcome` is how they compare beyond noise: `faster`,
    `slower`, `same` or `unknown`. `compile_s` is what compiling took, in seconds."""

    path: str
    kind: str
    torch: str | None
    devices: Texts
    ranks: int
    host: str | None
    command: str | None
    mode: str | None
    status: str | None
    exit_code: int | None
    started: float | None
    seconds: float | None
    graphs: int
    graph_breaks: int
    recompiles: int
    compiled_ms: float | None
    eager_ms: float | None
    unexplained_ms: float | None
    faster: float | None
    outcome: str
    quality: str
    compile_s: float | None
    verdict: str
    problems: int


@dataclass(frozen=True, slots=True)
class GraphRow:
    """A compiled graph's counts. `nodes_before` and `nodes_after` are the schedule's entries around fusion;
    `triton` to `user` count distinct kernels of each kind; bytes are as docs/figures.md defines them."""

    graph: str
    name: str
    phase: str
    compile_id: str | None
    rank: int | None
    fx_nodes: int | None
    nodes_before: int | None
    nodes_after: int | None
    triton: int | None
    cpp: int | None
    template: int | None
    extern: int | None
    fallback: int | None
    user: int | None
    launches: int | None
    bytes_unfused: int | None
    bytes_fused: int | None
    bytes_minimum: int | None


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of a graph. `ms` is of all its launches in one run of the graph, `how` where that is from:
    `replayed` alone or `profiled` in a call. `verdict` is the worst of its launches' where it was replayed.
    `operators` are FX nodes after the post-grad passes."""

    graph: str
    name: str
    kind: str
    launches: int
    ms: float | None
    how: str | None
    bytes: int | None
    roofline_fraction: float | None
    verdict: str | None
    lines: Texts
    operators: Texts


@dataclass(frozen=True, slots=True)
class Fusion:
    """An entry of the schedule after fusion: a group, or a node that fused with nothing (`single`)."""

    graph: str
    name: str
    kind: str
    kernel: str | None
    nodes: Texts
    bytes_unfused: int | None
    bytes_saved: int | None
    lines: Texts


@dataclass(frozen=True, slots=True)
class MissedFusion:
    """Two groups that touch the same memory and did not fuse. `bytes` is what fusing them would have saved,
    `torch_reason` torch's or the recorder's text, `reason` the same in words; `possible` is False where no
    setting and no rewrite of this pair alone makes them fuse."""

    graph: str
    first: str
    second: str
    bytes: int | None
    category: str
    torch_reason: str
    reason: str
    advice: str
    possible: bool
    first_lines: Texts
    second_lines: Texts


@dataclass(frozen=True, slots=True)
class Block:
    """A place of the program and what a steady call spends there; `how` is what that rests on."""

    name: str
    line: str | None
    graph: str | None
    ms: float
    eager_ms: float | None
    how: str
    operators: int
    kernels: int


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A finding, flat: of the evidence the lines alone. `rank` is its place, 1 for the worst."""

    rank: int
    rule: str
    severity: str
    title: str
    advice: str
    graph: str | None
    cost_ms: float | None
    share: float | None
    how: str
    account: str
    lines: Texts


@dataclass(frozen=True, slots=True)
class Break:
    """A graph break: the user's line, why, and torch's whole text."""

    line: str | None
    reason: str
    text: str
    compile_id: str | None
    rank: int | None
    repeated: bool


@dataclass(frozen=True, slots=True)
class Recompile:
    """A function that was compiled again, the first guard that failed, and all of them as torch says it."""

    function: str
    line: str | None
    reason: str
    reasons: Texts
    compile_id: str | None
    rank: int | None


@dataclass(frozen=True, slots=True)
class RankDifference:
    """In what the ranks of a job differ. `ranks` has a text for each group of ranks that agree."""

    kind: str
    subject: str
    text: str
    ranks: Texts
