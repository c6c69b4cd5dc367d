"""Two runs side by side: what of one became what of the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from inspector.frozen import dataclass

from .calls import Outcome
from .problem import Problem

Relation = Literal["same", "changed", "split", "merged", "only_a", "only_b"]
"""`split`: what A does in fewer launches, B does in more; `merged`: the other way round."""

Basis = Literal[
    "source line",  # FX nodes of the same line of the program, as text
    "module",  # parameters of the same module
    "operators",  # the same ATen operators, views and casts removed
    "shapes",  # of the same dtypes and shapes
    "dataflow",  # between neighbours that are matched
    "library call",  # the same target for the same node
    "code",  # the kernel's text itself, variables renamed
]
"""What a match rests on."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that differs between matched sides; `a` and `b` are texts, None for what is absent."""

    what: str
    a: str | None
    b: str | None


@dataclass(frozen=True, slots=True)
class LaunchId:
    """A launch: the graph's ident in its run and the call's number in the wrapper. `kernel` names what runs,
    `lines` are the places of the program that it computes, shortest form."""

    graph: str
    call: int
    kernel: str
    kind: str
    lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.graph}/{self.call}"


@dataclass(frozen=True, slots=True)
class KernelMatch:
    """Launches of both sides that compute the same. Every launch of a run is in exactly one match.

    `share` is the part of the operators of the smaller side that the other side is known to compute, 0 to 1;
    0 for what only one side has.
    """

    a: tuple[LaunchId, ...]
    b: tuple[LaunchId, ...]
    relation: Relation
    basis: tuple[Basis, ...] = ()
    share: float = 0.0
    changes: tuple[Change, ...] = ()
    a_ms: float | None = None
    """Milliseconds of all its launches of A in one steady call, None where that is not known."""
    b_ms: float | None = None


@dataclass(frozen=True, slots=True)
class FusionChange:
    """One side has `whole`, the other `apart`. `reason` is why these did not fuse there: torch's text where
    `by_torch`, empty where nobody gave one; `plain` says it in words."""

    whole: LaunchId
    apart: tuple[LaunchId, ...]
    fused_in: Literal["a", "b"]
    reason: str
    plain: str
    by_torch: bool


@dataclass(frozen=True, slots=True)
class GraphMatch:
    """Graphs of both sides that compute the same, by ident; `nodes` counts (FX operations of A, of B, those
    that are matched), views left out."""

    a: tuple[str, ...]
    b: tuple[str, ...]
    relation: Relation
    nodes: tuple[int, int, int]
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting that differs: `area` is `inductor`, `dynamo`, `environment`, `torch` or `cache key`; values
    are texts, None where a side does not have it."""

    area: str
    name: str
    a: str | None
    b: str | None


@dataclass(frozen=True, slots=True)
class CacheMiss:
    """A graph of B that A compiled before and B compiled again: `causes` are the parts of the key that
    differ."""

    graph: str
    causes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A part of the difference in milliseconds of one steady call; positive where B takes longer."""

    part: str
    a_ms: float | None
    b_ms: float | None
    delta_ms: float


@dataclass(frozen=True, slots=True)
class Total:
    """A figure of both runs: bytes, launches, seconds of a phase."""

    name: str
    unit: Literal["", "B", "s", "ms"]
    a: float | None
    b: float | None


@dataclass(frozen=True, slots=True)
class RunDiff:
    """`a` and `b` name what was opened. `ledger` is empty where either side has no time;
    its differences add up to that of the total `steady call`. `notes` say what
    could not be compared and why."""

    a: str
    b: str
    graphs: tuple[GraphMatch, ...]
    kernels: tuple[KernelMatch, ...]
    fusions: tuple[FusionChange, ...] = ()
    settings: tuple[Setting, ...] = ()
    cache_misses: tuple[CacheMiss, ...] = ()
    events: tuple[Change, ...] = ()
    totals: tuple[Total, ...] = ()
    ledger: tuple[LedgerRow, ...] = ()
    outcome: Outcome = "unknown"
    """How B's steady calls compare with A's."""
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def changed(self) -> tuple[KernelMatch, ...]:
        return tuple(match for match in self.kernels if match.relation != "same")


@dataclass(frozen=True, slots=True)
class CacheKey:
    """One look into Inductor's cache. `graph` is the compiled graph's ident, None where the run has no code
    of it; `parts` maps each part of the key to (its digest, its value as text)."""

    graph: str | None
    compile_id: str | None
    outcome: Literal["hit", "miss", "bypass"]
    key: str
    parts: Mapping[str, tuple[str, str]]
