"""Where the time goes as accounts: a steady call in parts, and who claims which milliseconds of them."""

from __future__ import annotations

from typing import Literal

from inspector.frozen import dataclass

ClaimHow = Literal["tried", "measured", "profiled", "replayed", "counted", "bounded", "estimated"]
"""What a figure rests on, best first: a run with the change; times of this run; a profile of it; its kernels
replayed alone; counted work; a bound in physics; a model of the machine."""
Over = Literal["eager", "least"]
Interval = tuple[float, float]


ROUNDING = 1e-9
"""Of a part: what sums of its launches differ from it by."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Milliseconds, from the least to the most, that a finding accounts for: of what compiled takes `over`
    eager, or over the least that the machine could take.

    It is of one block (a place in `Sides.joined.blocks`), else of one launch (`call` of a `graph`'s wrapper),
    else of a named part (`HOST`, `TRANSFERS`), else of the whole call, or of the run where that is the
    finding's account.
    """

    block: int | None
    over: Over
    ms: Interval
    how: ClaimHow
    graph: str | None = None
    call: int | None = None
    part: str = ""


HOST = "the host"
TRANSFERS = "copies between host and device"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a steady call: a block where both sides or the compiled one were profiled, else one launch,
    else what is neither. `ms` is what it took, `eager_ms` what eager took for the same, None where that was
    not profiled, or has no place. `claimed_ms` is the sum of what findings claim of it."""

    name: str
    ms: float
    how: ClaimHow
    eager_ms: float | None = None
    block: int | None = None
    launches: tuple[tuple[str, int], ...] = ()
    """(graph, number of the wrapper's call)."""
    claimed_ms: Interval = (0.0, 0.0)
    least_ms: Interval | None = None
    """The least that it could take, None where nothing is known of that."""

    @property
    def over_eager_ms(self) -> float:
        """What compiled takes more than eager; 0 where that is unknown."""
        return 0.0 if self.eager_ms is None else self.ms - self.eager_ms

    @property
    def over_least_ms(self) -> float:
        """The most that it may take over the least; all of it where nothing is known of that."""
        return self.ms if self.least_ms is None else max(self.ms - self.least_ms[0], 0.0)

    @property
    def left_ms(self) -> float:
        """What it surely takes over the least, and nobody claims; 0 where the least is not known."""
        return self.surely_over_least_ms(self.claimed_ms[1])

    def surely_over_least_ms(self, claimed_ms: float) -> float:
        """What it surely takes over the least and what is claimed; 0 where the least is not known."""
        if self.least_ms is None:
            return 0.0
        left = self.ms - self.least_ms[1] - claimed_ms
        return left if left > ROUNDING * self.ms else 0.0


@dataclass(frozen=True, slots=True)
class Account:
    """A steady call's time by parts, in milliseconds. `ms` is the whole, None where nothing was timed and
    nothing could be estimated; `noise_ms` what two such times differ by for no reason.

    `claimed_ms` is what all findings together claim of the call, those of no particular part included: it
    never exceeds `ms`, and what they claim of a part never what the part took. `once_ms` is what the run paid
    once (compiling, recompiling, warming up), `once_claimed_ms` how much of that findings claim.
    """

    ms: float | None
    eager_ms: float | None
    noise_ms: float
    parts: tuple[Part, ...] = ()
    claimed_ms: Interval = (0.0, 0.0)
    once_ms: float | None = None
    once_claimed_ms: Interval = (0.0, 0.0)
    calls: int = 0

    @property
    def over_eager_ms(self) -> float | None:
        """What a call takes longer than in eager: None where that is unknown, 0 where it is no longer."""
        if self.ms is None or self.eager_ms is None:
            return None
        return max(self.ms - self.eager_ms, 0.0)

    @property
    def left_ms(self) -> float:
        """What its parts surely take over the least, and nobody claims."""
        return sum(part.left_ms for part in self.parts)

    @property
    def unexplained_ms(self) -> float | None:
        """Of what a call takes longer than in eager, what no finding claims."""
        over = self.over_eager_ms
        return None if over is None else max(over - self.claimed_ms[1], 0.0)
