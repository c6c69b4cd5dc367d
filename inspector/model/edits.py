"""What-if: a kernel's source changed by hand, and how the change did beside the original."""

from __future__ import annotations

from inspector.frozen import dataclass

from .replay import KernelReplay


@dataclass(frozen=True, slots=True)
class StageFigure:
    """A number of what the kernel is lowered to, such as its registers; None where there is none of it."""

    name: str
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True)
class KernelEdit:
    """One changed source of a kernel, replayed right after the original on the same inputs.

    `number` counts the edits of one kernel from 1; `source` is the whole changed text. `started`: seconds
    since the epoch. `original` and `edited` are None where that replay did not come to the launch;
    `failure` is then the reason in a sentence.
    """

    graph: str
    kernel: str
    call: int
    number: int
    source: str
    started: float = 0.0
    original: KernelReplay | None = None
    edited: KernelReplay | None = None
    failure: str | None = None
    stages: tuple[StageFigure, ...] = ()
    """Of both sources, lowered by one compiler with the recorded configuration; empty where that failed."""

    @property
    def ratio(self) -> float | None:
        """Time of the edit over that of the original; None where either has none."""
        if self.original is None or self.edited is None:
            return None
        before, after = self.original.time, self.edited.time
        if before is None or after is None or not before.median_ms:
            return None
        return after.median_ms / before.median_ms
