"""`inspector explain --try`: settings side by side, and the prediction beside the measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from inspector.explain.rule import amount, size
from inspector.model.trial import ROUNDS, Outcome, TrialReport

from .table import Column, render_table

SCHEMA = "inspector.trial/1"

AGREES = 0.3
"""Prediction and measurement differ by no more than this share of the larger one."""


def to_json(report: TrialReport) -> dict[str, Any]:
    """Milliseconds per steady call, seconds of compiling, bytes and launches per call."""
    return {
        "schema": SCHEMA,
        "rule": report.rule,
        "base": _outcome(report.base, report.base),
        "tried": [_outcome(outcome, report.base) for outcome in report.tried],
    }


def from_json(data: Mapping[str, Any]) -> TrialReport:
    """The report of what `to_json` gave; settings are told by their labels only."""

    def outcome(item: Mapping[str, Any]) -> Outcome:
        known = {field.name: item[field.name] for field in fields(Outcome)}
        return Outcome(**{**known, "trial": None, "checks": tuple(item["checks"].items())})

    return TrialReport(outcome(data["base"]), tuple(map(outcome, data["tried"])), data["rule"])


def _outcome(outcome: Outcome, base: Outcome) -> dict[str, Any]:
    data = asdict(outcome)
    data["checks"] = dict(outcome.checks)
    data["saved_ms"] = saved_ms(outcome, base)
    return data


def saved_ms(outcome: Outcome, base: Outcome) -> float | None:
    """What a steady call became shorter by, or a call with its share of compiling where that was predicted;
    None where either has no time."""
    before, after = (item.whole_ms if outcome.compiling else item.ms for item in (base, outcome))
    return None if after is None or before is None else before - after


def to_text(report: TrialReport, width: int = 100) -> str:
    """A table, the command as it is first; then what was predicted and what came of it."""
    columns = [
        Column("setting"),
        Column("per call", right=True),
        Column("gain", right=True),
        Column("compiling", right=True),
        Column("kernels", right=True),
        Column("bytes", right=True),
        Column("results"),
    ]
    rows = [_row(outcome, report.base) for outcome in (report.base, *report.tried)]
    lines = render_table(columns, rows, width)
    for outcome in report.tried:
        if outcome.failure:
            lines.append(f"{outcome.label}: {outcome.failure}")
        elif outcome.predicted_ms is not None:
            lines.append(prediction(outcome, report.base))
    for outcome in (report.base, *report.tried):
        if outcome.unchecked:
            lines.append(f"{outcome.label}: results not checked: {outcome.unchecked}")
    lines.append(f"one capture each, then {ROUNDS} runs without debug output in turns; steady calls, medians")
    return "\n".join(lines) + "\n"


def prediction(outcome: Outcome, base: Outcome) -> str:
    """One sentence: predicted against measured, and why they may differ."""
    saved, predicted = saved_ms(outcome, base), outcome.predicted_ms
    if saved is None or predicted is None:
        return f"{outcome.label}: nothing measured"
    what = "a call with its share of compiling" if outcome.compiling else "a call"
    head = f"{outcome.label}: predicted to save {_signed(predicted)} {what}, saved {_signed(saved)}"
    if abs(saved - predicted) <= AGREES * max(abs(saved), abs(predicted)):
        return f"{head}: as predicted"
    if base.ms is not None and abs(saved) < 0.05 * base.ms:
        return f"{head}: it changes nothing here beyond the spread between runs"
    more = "more" if saved > predicted else "less"
    return f"{head}: {more} than predicted, which took the whole of what the finding costs"


def _row(outcome: Outcome, base: Outcome) -> tuple[str, ...]:
    if outcome.failure:
        return (outcome.label, "failed", "", "", "", "", "")
    gain = "" if outcome is base or not outcome.ms or not base.ms else f"{base.ms / outcome.ms:.2f}x"
    return (
        outcome.label,
        "-" if outcome.ms is None else amount(outcome.ms),
        gain,
        "-" if outcome.cold_s is None else f"{outcome.cold_s:.1f} s",
        f"{outcome.launches:.0f}",
        size(outcome.bytes),
        ", ".join(f"{count} {verdict.replace('_', ' ')}" for verdict, count in outcome.checks) or "-",
    )


def _signed(ms: float) -> str:
    return amount(ms) if ms >= 0 else f"-{amount(-ms)}"
