"""What the processes of one job compiled, in a form in which they can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from inspector.frozen import dataclass

DivergenceKind = Literal["graph", "kernel", "collective", "graph break", "recompile", "compile time", "cache"]


@dataclass(frozen=True, slots=True)
class RankGraph:
    """One compiled graph of a rank. `key` is its compile id and phase, numbered where they repeat
    (``0/0 forward``). `fx` are the operations of the FX graph in order, without names, places and
    device numbers; empty where the run has no FX graph. `kernels` pairs names with a digest of the
    source, in which device numbers do not count."""

    key: str
    fx: tuple[str, ...]
    kernels: Mapping[str, str]
    collectives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RankFacts:
    """One rank, or one process whose rank is not known (`label` says which). `seconds` is compile
    time by compile id. `breaks` and `recompiles` are places with reasons. `caches` is the outcome
    of each lookup by compile id and cache."""

    label: str
    rank: int | None
    graphs: tuple[RankGraph, ...] = ()
    breaks: tuple[str, ...] = ()
    recompiles: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    caches: Mapping[str, str] = field(default_factory=dict)

    @property
    def total_seconds(self) -> float:
        return sum(self.seconds.values())


@dataclass(frozen=True, slots=True)
class Divergence:
    """One difference: what differs (`subject`: a compile id and phase, a place), which ranks have
    what (`groups`: labels with what they have, the most common first), and a sentence."""

    kind: DivergenceKind
    subject: str
    groups: tuple[tuple[tuple[str, ...], str], ...]
    text: str
