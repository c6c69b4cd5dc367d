"""The one sentence at the top, as a colleague would say it."""

from __future__ import annotations

from collections.abc import Sequence

from inspector.analysis.nothing import nothing_compiled
from inspector.model.explain import Finding
from inspector.units import comparison, duration, untold

from .block_words import calls_text
from .case import Case


def verdict(case: Case, findings: Sequence[Finding]) -> str:
    """How compiled compares with eager, the reason, and what to do."""
    start = _comparison(case)
    if case.busy and findings[0].rule == "machine_busy":
        seen = f"; as it was measured, {start}" if start else ""
        title = findings[0].title
        return f"{title[:1].upper()}{title[1:]}: {findings[0].advice}{seen}"
    if not findings:
        why = nothing_compiled(case.facts, len(case.graphs)) or "nothing was found"
        return f"{start}: {why}" if start else f"{why[:1].upper()}{why[1:]}"
    first = findings[0]
    if start and first.account == "run":
        start += " once steady"
    sentence = f"{start}: {first.title}" if start else f"{first.title[:1].upper()}{first.title[1:]}"
    if first.rule != "healthy":
        sentence += f"; {first.advice}"
    once = next((item for item in findings if item.account == "run" and item.severity != "low"), first)
    return sentence if once is first else f"{sentence}; of the run, {once.title.partition(': ')[0]}"


def _comparison(case: Case) -> str:
    losing = case.times.losing
    return f"{_whole(case)}, but {calls_text(losing[0])}" if losing else _whole(case)


def _whole(case: Case) -> str:
    ratio = case.times.ratio
    if ratio is not None:
        if case.times.outcome == "same":
            return f"as fast as eager ({duration(case.times.compiled_ms or 0)} a call)"
        return comparison(ratio, "eager") + untold(case.times.outcome, case.times.again)
    if case.times.compiled_ms is not None:
        return f"{duration(case.times.compiled_ms)} a call"
    return ""
