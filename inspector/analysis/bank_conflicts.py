"""What conflicts of shared memory's banks cost a kernel, by its instructions alone.

A multiprocessor starts four warps' instructions in a clock, one of each of its four schedulers, and its
shared memory serves one round of 32 words in a clock (CUDA C++ Programming Guide, "Compute Capability 8.x"
and later; Kernel Profiling Guide, "Shared Memory"). All warps run the same code, so that how many there
are falls out: a loop's turn takes no less than its rounds of the banks, and no less than a quarter of its
instructions, each times the warps.
"""

from __future__ import annotations

from inspector.frozen import dataclass
from inspector.model.lowering import Stage
from inspector.units import plural

from .stage_facts import Loop, StageFacts
from .warp_addresses import Touched, touched, worth

SCHEDULERS = 4
"""Of a multiprocessor, from compute capability 7.0 on."""


_SEEN = 2.0
"""Times what issuing a loop's instructions needs: what loops without conflicts take, which also wait."""


@dataclass(frozen=True, slots=True)
class Conflicts:
    """Of one loop, or of a kernel without loops, a warp's `rounds` of shared memory's banks, `least` without
    conflicts, and its `instructions`; `worst` are the lines of PTX, from 1, that lose rounds, most first."""

    rounds: int
    least: int
    instructions: int
    worst: tuple[int, ...]

    @property
    def lost(self) -> float:
        """The part of the loop's time that conflicts make, where nothing else is as busy; 0 where issuing
        its instructions takes as long as its rounds."""
        return self._beyond(1.0)

    @property
    def surely_lost(self) -> float:
        """The same where what else it does takes twice what its instructions need, as loops are seen to
        (benchmarks/results/lower.txt: 4.1 to 4.6 ms for 2.6)."""
        return self._beyond(_SEEN)

    def _beyond(self, times: float) -> float:
        other = times * max(self.least, self.instructions / SCHEDULERS)
        return max(0.0, 1 - other / self.rounds) if self.rounds else 0.0

    @property
    def told(self) -> str:
        """Of a warp; the loop, where there is one, is not named."""
        rounds = f"{plural(self.rounds, 'round')}, {self.least} without conflicts of its banks"
        return f"shared memory serves a warp in {rounds}, beside {plural(self.instructions, 'instruction')}"


def conflicts(stage: Stage, facts: StageFacts) -> Conflicts | None:
    """Of the loop of PTX that loses most rounds, None where none loses what is worth a word. What stands
    outside of a kernel's loops runs once, and takes no part of its time that these instructions tell."""
    accesses = [each for each in touched(stage) if each.space == "shared"]
    # Of an access whose addresses are not known a round at least.
    known = {each.line for each in accesses}
    others = [each.line for each in facts.accesses if each.space == "shared" and each.line not in known]
    whole = Loop(1, len(stage.lines), facts.instructions)
    found = [_of(loop, accesses, others) for loop in facts.innermost or (whole,)]
    worst = max(found, key=lambda each: each.rounds - each.least, default=None)
    return worst if worst is not None and worth(worst.rounds, worst.least) else None


def _of(loop: Loop, accesses: list[Touched], others: list[int]) -> Conflicts:
    inside = [each for each in accesses if loop.first <= each.line <= loop.last]
    unknown = sum(loop.first <= line <= loop.last for line in others)
    lost = [each for each in inside if each.rounds > each.least]
    lost.sort(key=lambda each: each.least - each.rounds)
    return Conflicts(
        sum(each.rounds for each in inside) + unknown,
        sum(each.least for each in inside) + unknown,
        loop.instructions,
        tuple(each.line for each in lost),
    )
