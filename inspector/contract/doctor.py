"""`inspector.doctor/1`."""

from __future__ import annotations

from typing import Any

from inspector.model.doctor import Diagnosis

from .fields import pick

SCHEMA = "inspector.doctor/1"


def to_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """`facts` are the probe's own sections and may gain keys; the rest is the contract."""
    return {
        "schema": SCHEMA,
        "verdict": diagnosis.verdict,
        "checks": [
            pick(finding, "name", "status", "text", "effect", "remedy") for finding in diagnosis.findings
        ],
        "facts": {name: dict(facts) for name, facts in diagnosis.facts.sections.items()},
    }
