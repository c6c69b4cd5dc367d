"""Results of re-running compiled code; the JSON contract's `inspector.replay/1` in plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["match", "compiled_closer", "eager_closer", "mismatch", "unverifiable"]


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds: median and inter-quartile range over `rounds` interleaved rounds."""

    median_ms: float
    iqr_ms: float
    rounds: int


@dataclass(frozen=True, slots=True)
class OutputCheck:
    """One output of the graph against the float64 reference.

    Errors are the largest absolute difference, over elements, from the reference; `tolerance` says
    rtol and atol used (torch.testing's defaults for the dtype). `reason` explains everything that
    is not `match`; it is never empty for `unverifiable`.
    """

    index: int
    verdict: Verdict
    reason: str = ""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    error_compiled: float | None = None
    error_eager: float | None = None
    rtol: float | None = None
    atol: float | None = None
    name: str = ""
    """The FX node that is returned, or the input that is written to."""
    kind: Literal["output", "mutated_input"] = "output"
    """Inputs that the graph writes to are numbered after its outputs."""
    elements: int | None = None
    outside_compiled: int | None = None
    """Elements outside the tolerance of the reference, non-finite ones included."""
    outside_eager: int | None = None


@dataclass(frozen=True, slots=True)
class GraphReplay:
    """One graph re-run. `failure` is a sentence where the child crashed, hung or could not build;
    what was measured before that is kept. `eager_label` says what eager was.

    `eager` and `compiled` are device time on a GPU (events around one call, queue kept full) and
    time per call on a CPU; `*_wall` is time per call by the host's clock, GPU only. `log` is the
    end of what the child printed.
    """

    name: str
    eager: Timing | None = None
    compiled: Timing | None = None
    outputs: tuple[OutputCheck, ...] = ()
    failure: str | None = None
    eager_label: str = "decomposed FX graph"
    notes: tuple[str, ...] = ()
    device: str | None = None
    eager_wall: Timing | None = None
    compiled_wall: Timing | None = None
    log: str = ""

    @property
    def speedup(self) -> float | None:
        """Eager over compiled, of the medians; None where either is missing."""
        if self.eager is None or self.compiled is None or not self.compiled.median_ms:
            return None
        return self.eager.median_ms / self.compiled.median_ms


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """One `inspector replay`: the machine it ran on, and each graph's result."""

    machine: Mapping[str, Any]
    graphs: tuple[GraphReplay, ...]
    started: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)
