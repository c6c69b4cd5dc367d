"""Runs of one command over time."""

from __future__ import annotations

from typing import Literal

from inspector.frozen import dataclass

from .calls import Outcome


@dataclass(frozen=True, slots=True)
class PastRun:
    """A capture of a command, or a replay of its graphs, and what a steady call took then.

    `kind` is `capture` for a run that stands by itself, `trial` for one of RUN/trials. `label` says how it
    was compiled. `eager_ms` is of its own baseline, of a trial that of the run it is of; of a replay the
    graphs op by op. `path` can be opened, empty for replays. `started` is in seconds since the epoch, 0 where
    unknown.
    """

    kind: Literal["capture", "trial", "replay"]
    started: float
    label: str
    compiled_ms: float | None = None
    eager_ms: float | None = None
    outcome: Outcome = "unknown"
    path: str = ""

    @property
    def faster(self) -> float | None:
        """Eager over compiled: above 1 compiled is faster."""
        return self.eager_ms / self.compiled_ms if self.compiled_ms and self.eager_ms else None
