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
    yield Finding(
        rule="machine_busy",
        severity="medium",
        title="the machine was busy, so that times say little",
        graph=None,
        cost_ms=None,
        evidence=tuple(Evidence("record", None, reason) for reason in case.busy),
        advice="capture again when nothing else runs",
        how="measured",
        account="remark",
    )


RULE = Rule("machine_busy", Stage.VOID, find)
