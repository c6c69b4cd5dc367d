"""Others worked on the machine while the calls were timed: what was measured then is not evidence.

Looks at: the kernel's counters between the first steady call and the last, of every run of the command.
"""

from __future__ import annotations

from collections.abc import Iterable

from inspector.explain.case import Case
from inspector.explain.rule import Rule, Stage
from inspector.model.explain import Evidence, Finding


def find(case: Case) -> Iterable[Finding]:
    if not case.busy:
        return
    holds = _holds(case)
    yield Finding(
        rule="machine_busy",
        severity="low" if holds else "medium",
        title="the machine was busy, so that times say little"
        + (
            f" but that compiled calls are {case.times.outcome}, beyond what others may have had"
            if holds
            else ""
        ),
        graph=None,
        cost_ms=None,
        evidence=tuple(Evidence("record", None, reason) for reason in case.busy),
        advice="capture again when nothing else runs",
        how="measured",
        account="remark",
    )


def _holds(case: Case) -> bool:
    """Whether one side is the faster even if others had their part of the other's time alone."""
    compiled, eager, own = case.times.compiled_ms, case.times.eager_ms, 1 - case.taken
    if compiled is None or eager is None or case.times.outcome not in ("faster", "slower"):
        return False
    return compiled * own > eager or eager * own > compiled


RULE = Rule("machine_busy", Stage.VOID, find)
