"""What made two runs of a command differ, and what was tried to find out; `inspector.blame/1`."""

from __future__ import annotations

from typing import Literal

from inspector.frozen import dataclass

from .explain import Trial

Kind = Literal["setting", "package", "command", "pass", "fusion", "switch", "lowering"]
SEVERAL: dict[str, Kind] = {
    "settings": "setting", "packages": "package", "passes": "pass", "fusions": "fusion",
    "switches": "switch", "lowerings": "lowering",
}  # fmt: skip
"""What can be looked at, in order; a command line counts among the settings."""

MetricName = Literal["time", "compile", "kernels", "memory", "error", "exit"]
METRICS: tuple[MetricName, ...] = ("time", "compile", "kernels", "memory", "error", "exit")

Side = Literal["a", "b"]


@dataclass(frozen=True, slots=True)
class Factor:
    """One thing that can be taken back in B: with `trial`, with A's command line, or with a package of A's
    environment. `label` says it in words, `was` what B has in its place."""

    kind: Kind
    label: str
    trial: Trial
    was: str = ""
    packages: tuple[str, ...] = ()
    """Top-level names that come from A's environment."""
    command: bool = False
    """Whether A's command line runs in the place of B's."""


@dataclass(frozen=True, slots=True)
class Try:
    """One run of the command: of A, of B, or of B with factors taken back. `value` is the metric's, None
    where the run said nothing; `near` whose value it is as good as, None where that is open."""

    number: int
    what: str
    value: float | None
    near: Side | None
    seconds: float
    run: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Blame:
    """`causes` are needed together, each of them; empty where none is known, and then `verdict` says why.
    `a` and `b` are the metric's typical values, `a` None where the goal is a limit. `commands` reproduce both
    sides: B, and B without the causes."""

    metric: MetricName
    a: float | None
    b: float | None
    limit: float | None
    causes: tuple[Factor, ...]
    verdict: str
    tries: tuple[Try, ...]
    commands: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """What there was no budget, or no way, to look at."""
    folder: str = ""


SAME = "no difference"
A, B, EAGER = "A as it is", "B as it is", "B in eager"
"""What ran without anything taken back."""
