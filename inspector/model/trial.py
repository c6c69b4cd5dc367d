"""What came of running a command again with a setting; `inspector.trial/1`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inspector.frozen import dataclass

if TYPE_CHECKING:
    from .explain import Trial

FOLDER = "trials"
"""In the run: a numbered folder each time settings were tried, a capture below for each."""
TIMED = "timed"
"""In such a capture: the rounds that were timed in turns."""
AUTO = "auto"
"""In a rule's place: no finding's setting, but all that bear on a run's kernels."""
ROUNDS = 3
"""Runs of each side without debug output, taken in turns."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One capture of the command under a setting. `ms` is a steady call, `cold_s` what compiling took in all
    and `calls` over how many calls. `launches` and `bytes` are per steady call, None
    where it was only timed, `checks` counts the verdicts
    of replaying its graphs. `predicted_ms` is what the finding said a call would save, with its share of
    compiling where `compiling`. `failure` is a sentence where it failed."""

    label: str
    trial: Trial | None
    ms: float | None
    cold_s: float | None
    launches: float | None
    bytes: float | None
    checks: tuple[tuple[str, int], ...]
    run: str
    predicted_ms: float | None = None
    failure: str = ""
    unchecked: str = ""
    """Why some results could not be checked; the times hold all the same."""
    calls: int = 0
    compiling: bool = False
    rounds: int = ROUNDS
    """Runs that `ms` is of."""
    beside_ms: float | None = None
    """What the command as it is took in turns with them, where that was not with all the others."""

    @property
    def whole_ms(self) -> float | None:
        """A call with its share of all compiling."""
        if self.ms is None or self.cold_s is None or not self.calls:
            return None
        return self.ms + self.cold_s * 1e3 / self.calls

    def saved_ms(self, base: Outcome) -> float | None:
        """What a steady call became shorter by, or a call with its share of compiling where that was
        predicted; None where either has no time."""
        before, after = (item.whole_ms if self.compiling else item.ms for item in (base, self))
        before = before if self.beside_ms is None else self.beside_ms
        return None if after is None or before is None else before - after


@dataclass(frozen=True, slots=True)
class TrialReport:
    """`base` is the command as it is; `tried` in the order in which they ran."""

    base: Outcome
    tried: tuple[Outcome, ...]
    rule: str = ""
    left: tuple[str, ...] = ()
    """Labels of what there was no time to try."""
