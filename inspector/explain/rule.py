"""What a rule is, and how severe a cost makes a finding."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum

from inspector.model.explain import Evidence, Finding, Severity
from inspector.model.source import SourceLocation

from .case import Case

HIGH_SHARE = 0.2
"""Of the wall time of one call: what a fifth of the time goes to is worth an afternoon."""
MEDIUM_SHARE = 0.05
"""Below this a gain disappears in the spread between two runs."""

_ORDER: dict[Severity, int] = {"high": 0, "medium": 1, "low": 2}


class Stage(IntEnum):
    """Which findings come first where severities are equal: what makes the others meaningless, what the
    program does, what the compiler made of it, what remains as the limit."""

    VOID = 0
    PROGRAM = 1
    CODE = 2
    BOUND = 3


@dataclass(frozen=True, slots=True)
class Rule:
    """`find` gives the rule's findings for a case, none where it does not apply."""

    name: str
    stage: Stage
    find: Callable[[Case], Iterable[Finding]]


def severity_of(share: float | None, at_most: Severity = "high", at_least: Severity = "low") -> Severity:
    """The severity that a share of the wall time stands for, within bounds."""
    severity: Severity = "low"
    if share is not None and share >= HIGH_SHARE:
        severity = "high"
    elif share is not None and share >= MEDIUM_SHARE:
        severity = "medium"
    if _ORDER[severity] < _ORDER[at_most]:
        severity = at_most
    if _ORDER[severity] > _ORDER[at_least]:
        severity = at_least
    return severity


def rank(finding: Finding, stage: Stage) -> tuple[int, int, float]:
    """The sort key: worst first."""
    return (_ORDER[finding.severity], stage, -(finding.cost_ms or 0.0))


def source_evidence(case: Case, location: SourceLocation, text: str = "") -> Evidence:
    """A line of the user's, with its code where it is known."""
    code = location.code or ""
    for program in case.programs:
        same = (
            program.path == location.path
            or program.path.rsplit("/", 1)[-1] == location.path.rsplit("/", 1)[-1]
        )
        if not code and same:
            code = program.line(location.line)
    return Evidence(location.path, location.line, text or code)


def amount(ms: float) -> str:
    """`34.5 us`, `2.10 ms`, `1.2 s`: three digits."""
    if ms < 1e-3:
        return f"{ms * 1e6:.0f} ns"
    for unit, scale in (("us", 1e3), ("ms", 1.0), ("s", 1e-3)):
        value = ms * scale
        if value < 1000 or unit == "s":
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    raise AssertionError("unreachable: seconds take every size")


def size(count: float) -> str:
    """`120 KB`, `1.6 GB`; a kilobyte is 1,000 bytes."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.0f} B"


def counted(number: int, noun: str) -> str:
    """`1 kernel`, `3 kernels`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def percent(share: float) -> str:
    return f"{share * 100:.0f} %"
