"""Compiling takes longer than all calls together can win back.

Looks at: what the first call of each callable took beyond a steady one, what a steady call saves against
eager, and how many calls there are.
"""

from __future__ import annotations

from collections.abc import Iterable

from inspector.analysis.ending import ending
from inspector.explain.case import MOST, Case
from inspector.explain.ledger import break_even
from inspector.explain.rule import Rule, Stage
from inspector.model.explain import Evidence, Finding, Severity
from inspector.units import duration, plural

FEW_CALLS = 10
"""Less often than any benchmark or loop calls a model: the program itself does not repeat its work."""


def find(case: Case) -> Iterable[Finding]:
    times = case.times
    if times.cold_ms is None or not times.calls or not case.graphs:
        return
    if ending(case.facts.manifest):
        # How many calls there would have been, nobody knows.
        return
    # What compiling again costs is for the rule of recompiles to say.
    first = times.cold_ms - times.recompile_ms
    steady = times.compiled_ms or 0.0
    total = times.cold_ms + steady * times.calls
    if total <= 0 or first / total < MOST:
        return
    needed = break_even(case)
    if needed is not None and times.calls >= needed:
        return
    few = times.calls <= FEW_CALLS
    severity: Severity = "high" if few else "low"
    if needed is not None:
        pays = f" and pays after {needed:,} calls, there are {times.calls:,}"
    elif times.ratio is not None:
        pays = " and never pays, as a call is no faster than in eager"
    else:
        pays = f", for {plural(times.calls, 'call')} in all"
    yield Finding(
        rule="compile_cost_not_amortized",
        severity=severity,
        title=f"compiling takes {duration(times.cold_ms)}{pays}",
        graph=None,
        cost_ms=first,
        evidence=(
            _where(case, f"{duration(times.cold_ms)} of {duration(total)} in compiled calls is compiling"),
        ),
        advice=(
            (
                "for so few calls leave torch.compile out, or keep the cache between runs "
                "(TORCHINDUCTOR_CACHE_DIR)"
            )
            if few
            else "worth it for longer runs only; keep the cache between runs (TORCHINDUCTOR_CACHE_DIR)"
        ),
        how="measured",
        share=first / total,
        account="run",
    )


def _where(case: Case, text: str) -> Evidence:
    for program in case.programs:
        for call in program.compile_calls:
            return Evidence(program.path, call.line, text)
    return Evidence("record", None, text)


RULE = Rule("compile_cost_not_amortized", Stage.BOUND, find)
