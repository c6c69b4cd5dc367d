"""`inspector.explain/1`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from inspector.model.account import Account, Part
from inspector.model.calls import CallGroup
from inspector.model.explain import Explanation, Finding, LedgerPart
from inspector.model.source import SourceLocation
from inspector.model.two_sides import Block, Difference, KernelTime, TwoSidedLedger

from .fields import Shapes, pick, shaped

SCHEMA = "inspector.explain/1"


def to_json(explanation: Explanation) -> dict[str, Any]:
    """Milliseconds per steady call, seconds of compiling."""
    ledger, sides = explanation.ledger, explanation.sides
    return {
        "schema": SCHEMA,
        **pick(explanation, "verdict quality remarks"),
        "ledger": shaped(ledger.parts, _SHAPES),
        **pick(ledger, "unexplained_ms eager_ms compiled_ms compiled_how=how compile_s compile_source"),
        **pick(ledger, "break_even_calls missing doubts"),
        **pick(explanation, "faster outcome again phase only groups", _SHAPES),
        "blocks": shaped(sides.joined.blocks if sides is not None else (), _SHAPES),
        "differences": shaped(sides and sides.ledger, _SHAPES),
        **pick(explanation, "account", _SHAPES),
        "findings": [_finding_json(finding) for finding in explanation.findings],
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    data = {**asdict(finding), "measured": finding.measured, "saves_ms": finding.saves}
    if finding.trial is not None:
        data["trial"] = {
            **pick(finding.trial, "mode dynamic whole kept in_place loop_vectors"),
            "config": dict(finding.trial.config),
            "environment": dict(finding.trial.environment),
        }
    return data


def _group(group: CallGroup) -> dict[str, Any]:
    """Milliseconds of a call, medians."""
    eager = group.eager
    return {
        "sizes": list(group.sizes),
        "calls": group.compiled.count,
        "compiled_ms": group.compiled.median_ms,
        "eager_ms": None if eager is None else eager.median_ms,
        "outcome": group.outcome,
    }


_SHAPES: Shapes = {
    Account: "ms eager_ms noise_ms over_eager_ms unexplained_ms left_ms claimed_ms"
    " once_ms once_claimed_ms calls parts",
    Part: "name ms how eager_ms least_ms block launches claimed_ms left_ms",
    CallGroup: _group,
    Block: "lines modules operators phase graph times place inside sure eager_ms compiled_ms"
    " eager_kernels compiled_kernels",
    Difference: "part block eager_ms compiled_ms ms",
    KernelTime: "name calls ms generated",
    LedgerPart: "part ms source how",
    SourceLocation: lambda line: line.short,
    TwoSidedLedger: "source eager_ms compiled_ms parts=differences"
    " unexplained_ms unexplained_eager_ms unexplained_compiled_ms",
}
"""Per steady call; a side that was not profiled is null. Parts and what is unexplained add up."""
