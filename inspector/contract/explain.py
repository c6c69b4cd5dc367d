"""`inspector.explain/1`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from inspector.model.explain import Explanation, Finding

from .fields import pick

SCHEMA = "inspector.explain/1"


def to_json(explanation: Explanation) -> dict[str, Any]:
    """Milliseconds per steady call, seconds of compiling."""
    ledger = explanation.ledger
    return {
        "schema": SCHEMA,
        **pick(explanation, "verdict", "quality", "remarks"),
        "ledger": [pick(part, "part", "ms", "source", "how") for part in ledger.parts],
        **pick(
            ledger,
            "unexplained_ms",
            "eager_ms",
            "compiled_ms",
            "compiled_how=how",
            "compile_s",
            "break_even_calls",
            "missing",
            "doubts",
        ),
        "findings": [_finding_json(finding) for finding in explanation.findings],
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    data = {**asdict(finding), "measured": finding.measured}
    if finding.trial is not None:
        data["trial"] = {
            **pick(finding.trial, "mode", "dynamic"),
            "config": dict(finding.trial.config),
            "environment": dict(finding.trial.environment),
        }
    return data
