"""Calls of one size that are slower than in eager where others are not."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.analysis.steady import OTHERS
from inspector.explain.block_words import calls_text
from inspector.explain.case import Case
from inspector.explain.claims import on_whole
from inspector.explain.rule import severity_of, source_evidence
from inspector.model.explain import Evidence, Finding, Trial

RECOMPILE_LIMIT = 8
"""Sizes that a function is compiled for before torch gives up (torch/_dynamo/config.py: recompile_limit)."""


def few_sizes(case: Case) -> bool:
    """Whether each size that its calls have can be compiled for; true where the recorder saw no others."""
    calls = case.times.by_sizes
    sizes = {sizes for group in calls.groups for sizes in group.alike} if calls is not None else set()
    return len(sizes) <= RECOMPILE_LIMIT and not any(set(OTHERS) <= set(each) for each in sizes)


def losing_calls(
    case: Case,
    rule: str,
    advice: str,
    why: str = "",
    seen: tuple[Evidence, ...] = (),
    trial: Trial | None = None,
) -> Iterator[Finding]:
    """Those that lose most, if any do, as a finding of `rule`: what a call of any size loses by them in the
    mean, nothing where calls of their kind are not what the account is of. `why` ends the sentence, `seen` is
    evidence beside the line that compiles."""
    calls = case.times.by_sizes
    if calls is None or not case.times.losing:
        return
    group = case.times.losing[0]
    lost = group.lost_ms / sum(other.compiled.count for other in calls.groups)
    phase = case.times.meant.phase
    counted = phase is None or group.alike[0][0] == phase
    place = calls.location
    line = source_evidence(case, place) if place is not None else Evidence("record", None, calls.name)
    yield Finding(
        rule=rule,
        severity=severity_of(case.share(lost)),
        title=calls_text(group) + why,
        graph=None,
        cost_ms=lost if counted else None,
        evidence=(line, *seen),
        advice=advice,
        how="measured",
        share=case.share(lost),
        trial=trial,
        claims=(on_whole(lost, "measured", "eager"),) if counted else (),
    )
