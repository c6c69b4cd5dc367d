"""`inspector.trial/1`: what `inspector explain --try` found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from inspector.model.trial import Outcome, TrialReport

SCHEMA = "inspector.trial/1"


def to_json(report: TrialReport) -> dict[str, Any]:
    """Milliseconds per steady call, seconds of compiling, bytes and launches per call."""
    return {
        "schema": SCHEMA,
        "rule": report.rule,
        "base": _outcome_json(report.base, report.base),
        "tried": [_outcome_json(outcome, report.base) for outcome in report.tried],
        "left": list(report.left),
    }


def from_json(data: Mapping[str, Any]) -> TrialReport:
    """The report of what `to_json` gave; settings are told by their labels only."""

    def outcome(item: Mapping[str, Any]) -> Outcome:
        known = {field.name: item[field.name] for field in fields(Outcome)}
        return Outcome(**{**known, "trial": None, "checks": tuple(item["checks"].items())})

    tried = tuple(map(outcome, data["tried"]))
    return TrialReport(outcome(data["base"]), tried, data["rule"], tuple(data["left"]))


def _outcome_json(outcome: Outcome, base: Outcome) -> dict[str, Any]:
    return {**asdict(outcome), "checks": dict(outcome.checks), "saved_ms": outcome.saved_ms(base)}
