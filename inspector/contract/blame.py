"""`inspector.blame/1`: what made a difference, and every run that was made to find out."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from inspector.model.blame import Blame

SCHEMA = "inspector.blame/1"


def to_json(report: Blame) -> dict[str, Any]:
    """Values in the metric's unit: milliseconds a call, seconds of compiling, counts, bytes, a part of the
    largest number in eager, an exit code."""
    causes = [
        {"kind": item.kind, "label": item.label, "was": item.was, "trial": asdict(item.trial)}
        for item in report.causes
    ]
    return {
        "schema": SCHEMA,
        "metric": report.metric,
        "a": report.a,
        "b": report.b,
        "limit": report.limit,
        "verdict": report.verdict,
        "causes": causes,
        "tries": [asdict(item) for item in report.tries],
        "commands": list(report.commands),
        "left": list(report.left),
        "folder": report.folder,
    }
