"""`inspector doctor`: as text, and as `inspector.doctor/1`."""

from __future__ import annotations

import textwrap
from typing import Any

from inspector.model.doctor import Diagnosis, Finding

SCHEMA = "inspector.doctor/1"

_INDENT = 20
_COLOURS = {"ok": "32", "warn": "33", "bad": "31"}


def to_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """`facts` are the probe's own sections and may gain keys; the rest is the contract."""
    return {
        "schema": SCHEMA,
        "verdict": diagnosis.verdict,
        "checks": [
            {
                "name": finding.name,
                "status": finding.status,
                "text": finding.text,
                "effect": finding.effect,
                "remedy": finding.remedy,
            }
            for finding in diagnosis.findings
        ],
        "facts": {name: dict(facts) for name, facts in diagnosis.facts.sections.items()},
    }


def to_text(diagnosis: Diagnosis, width: int = 100, colour: bool = False) -> str:
    """For a terminal or a pipe: the verdict, then a paragraph for each finding."""
    lines = [*textwrap.wrap(diagnosis.verdict, width), ""]
    for finding in diagnosis.findings:
        lines += _paragraph(finding, width, colour)
    return "\n".join(lines) + "\n"


def _paragraph(finding: Finding, width: int, colour: bool) -> list[str]:
    head, *rest = _wrap(finding.text, width)
    if finding.effect:
        rest += _wrap(finding.effect, width)
    if finding.remedy:
        rest += _wrap(f"→ {finding.remedy}", width)
    status = finding.status.ljust(5)
    if colour:
        status = f"\x1b[{_COLOURS[finding.status]}m{status}\x1b[0m"
    return [f"{status} {finding.name:<13} {head}", *(" " * _INDENT + line for line in rest)]


def _wrap(text: str, width: int) -> list[str]:
    """Paths and commands stay in one piece, so that they can be copied."""
    return textwrap.wrap(
        " ".join(text.split()), max(width - _INDENT, 30), break_long_words=False, break_on_hyphens=False
    ) or [""]
