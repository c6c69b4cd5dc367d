"""`inspector explain --try`: settings side by side, and the prediction beside the measurement."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from inspector.analysis.steady import RUN_TO_RUN
from inspector.model.explain import KEEP_IN_PLACE, LOOP_VECTORS, Finding, is_dictionary
from inspector.model.trial import AUTO, ROUNDS, Outcome, TrialReport
from inspector.text import joined
from inspector.units import duration, size

from .replay import verdict_text
from .spans import Line, Span, compared, wrapped
from .tables import Column, Row, Table, table_lines

AGREES = 0.3
"""Prediction and measurement differ by no more than this share of the larger one."""

_COLUMNS = (
    Column("setting", shrinks=True, least=12),
    Column("per call", right=True),
    Column("gain", right=True),
    Column("compiling", right=True),
    Column("kernels", right=True, rank=2),
    Column("bytes", right=True, rank=1),
    Column("results"),
)


def by_finding(findings: Sequence[Finding], trials: Mapping[str, TrialReport]) -> dict[int, TrialReport]:
    """Reports by the position of the finding that each is shown below: its rule's own, and of all settings
    the first finding without one."""
    without = next((number for number, finding in enumerate(findings) if finding.trial is None), None)
    rules = {number: AUTO if number == without else finding.rule for number, finding in enumerate(findings)}
    return {number: trials[rule] for number, rule in rules.items() if rule in trials}


def lines(report: TrialReport, width: int) -> Iterator[Line]:
    """A table, the command as it is first; then what was predicted and what came of it."""
    outcomes = (report.base, *report.tried)
    rows = tuple(Row(str(number), _cells(outcome, report.base)) for number, outcome in enumerate(outcomes))
    yield from table_lines(Table("Settings", _COLUMNS, rows), width)
    for outcome in report.tried:
        if outcome.failure:
            yield from wrapped(f"{outcome.label}: {outcome.failure}", width, "bad")
        elif outcome.predicted_ms is not None:
            yield from wrapped(prediction(outcome, report.base), width)
    for outcome in outcomes:
        if outcome.unchecked:
            yield from wrapped(f"{outcome.label}: results not checked: {outcome.unchecked}", width, "warn")
    if report.rule == AUTO and report.tried and _won(report.tried[0], report.base):
        yield from wrapped(f"to keep it: {as_code(report.tried[0])}", width, "accent")
    if report.left:
        yield from wrapped(f"no time was left for {joined(report.left, 6)}", width, "warn")
    how = f"one capture each, and {ROUNDS} runs without debug output in turns; steady calls, medians"
    if any(outcome.rounds == 1 for outcome in report.tried):
        how += ". What one run of either showed to be no better was not captured, timed again or checked"
    yield from wrapped(how, width, "dim")


def _won(outcome: Outcome, base: Outcome) -> bool:
    return outcome.rounds == ROUNDS and (outcome.saved_ms(base) or 0.0) > RUN_TO_RUN * (base.ms or 0.0)


def as_code(outcome: Outcome) -> str:
    """What to write for a setting to stay."""
    trial = outcome.trial
    if trial is None:
        return outcome.label
    given = [f"mode={trial.mode!r}"] if trial.mode else []
    given += [f"dynamic={trial.dynamic}"] if trial.dynamic is not None else []
    said = [f"torch.compile(..., {', '.join(given)})"] if given else []
    for name, value in trial.config:
        module, _, key = name.partition(".")
        own = (module, key) if module in ("dynamo", "functorch") else ("inductor", name)
        shown = json.loads(value) if is_dictionary(value) else value
        said.append(f"torch._{own[0]}.config.{own[1]} = {shown!r}")
    said += [f"{name}={value} in the environment" for name, value in trial.environment]
    if trial.whole:
        names = joined(trial.whole, len(trial.whole))
        said.append(
            f"call {names} in a torch.library.custom_op (with register_fake), or leave these lines out"
        )
    if trial.kept:
        names = joined(trial.kept, len(trial.kept))
        said.append(f"y = y.as_strided(y.size(), y.stride()) of what {names} gives")
    if trial.in_place:
        said.append(f"{KEEP_IN_PLACE} before the first call")
    said += [f"{LOOP_VECTORS}, in the environment"] if trial.loop_vectors else []
    said += [f"torch.{name}({value}) first of all" for name, value in trial.state if name.startswith("set_")]
    return "; ".join(said)


def prediction(outcome: Outcome, base: Outcome) -> str:
    """One sentence: predicted against measured, and why they may differ."""
    saved, predicted = outcome.saved_ms(base), outcome.predicted_ms
    if saved is None or predicted is None:
        return f"{outcome.label}: nothing measured"
    what = "a call with its share of compiling" if outcome.compiling else "a call"
    head = f"{outcome.label}: predicted to save {duration(predicted)} {what}, saved {duration(saved)}"
    if abs(saved - predicted) <= AGREES * max(abs(saved), abs(predicted)):
        return f"{head}: as predicted"
    if base.ms is not None and abs(saved) < 0.05 * base.ms:
        return f"{head}: it changes nothing here beyond the spread between runs"
    more = "more" if saved > predicted else "less"
    return f"{head}: {more} than predicted, which took the whole of what the finding costs"


def _cells(outcome: Outcome, base: Outcome) -> tuple[Span, ...]:
    if outcome.failure:
        return (Span(outcome.label, "accent"), Span("failed", "bad"), *(Span("") for _ in _COLUMNS[2:]))
    beside = outcome.beside_ms or base.ms
    gain = Span("") if outcome is base or not outcome.ms or not beside else compared(beside / outcome.ms)
    checks = ", ".join(f"{count} {verdict_text(verdict)}" for verdict, count in outcome.checks)
    return (
        Span(outcome.label, "accent"),
        Span("-" if outcome.ms is None else duration(outcome.ms)),
        gain,
        Span("-" if outcome.cold_s is None else duration(outcome.cold_s * 1e3)),
        Span("-" if outcome.launches is None else f"{outcome.launches:.0f}"),
        Span("-" if outcome.bytes is None else size(outcome.bytes)),
        Span(checks or "-"),
    )
