"""`inspector.doctor/1`."""

from __future__ import annotations

from typing import Any

from inspector.model.doctor import Diagnosis, Finding

from .fields import pick

SCHEMA = "inspector.doctor/1"


def to_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """`facts` are the probe's own sections and may gain keys; the rest is the contract."""
    return {
        "schema": SCHEMA,
        **pick(diagnosis, "verdict checks=findings", {Finding: "name status text effect remedy"}),
        "facts": {name: dict(facts) for name, facts in diagnosis.facts.sections.items()},
    }
