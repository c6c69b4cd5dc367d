"""`inspector.check/1`."""

from __future__ import annotations

from typing import Any

from inspector.gates.judge import Breach, Judged, Report

from .fields import Shapes, pick, place_text, shaped

SCHEMA = "inspector.check/1"


def to_json(report: Report) -> dict[str, Any]:
    """`kept`: no relation has a breach; one that was not judged says why in its `note`."""
    return {
        "schema": SCHEMA,
        "run": report.run,
        "kept": not report.breaches,
        "relations": shaped(report.judged, _SHAPES),
    }


def _breach(breach: Breach) -> dict[str, Any]:
    return {**pick(breach, "message reason graph"), "location": place_text(breach.place)}


_SHAPES: Shapes = {Judged: "relation allowed there note breaches", Breach: _breach}
