"""`inspector.explain/1`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from inspector.model.account import Account
from inspector.model.explain import Explanation, Finding
from inspector.model.two_sides import Block, TwoSidedLedger

from .fields import pick

SCHEMA = "inspector.explain/1"


def to_json(explanation: Explanation) -> dict[str, Any]:
    """Milliseconds per steady call, seconds of compiling."""
    ledger, sides = explanation.ledger, explanation.sides
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
            "compile_source",
            "break_even_calls",
            "missing",
            "doubts",
        ),
        **pick(explanation, "faster"),
        "blocks": [block_json(block) for block in explanation.sides.joined.blocks]
        if explanation.sides
        else [],
        "differences": _differences(sides.ledger) if sides is not None else None,
        "account": _account(explanation.account),
        "findings": [_finding_json(finding) for finding in explanation.findings],
    }


def block_json(block: Block) -> dict[str, Any]:
    """Per steady call; a side that was not profiled is null."""
    return {
        "lines": [line.short for line in block.lines],
        **pick(block, "modules", "operators", "phase", "graph", "times", "place", "inside", "sure"),
        **pick(block, "eager_ms", "compiled_ms"),
        "eager_kernels": [pick(kernel, "name", "calls", "ms", "generated") for kernel in block.eager_kernels],
        "compiled_kernels": [
            pick(kernel, "name", "calls", "ms", "generated") for kernel in block.compiled_kernels
        ],
    }


def _differences(ledger: TwoSidedLedger | None) -> dict[str, Any] | None:
    """From eager's wall to compiled's; the parts and what is unexplained add up to the difference."""
    if ledger is None:
        return None
    return {
        **pick(ledger, "source", "eager_ms", "compiled_ms"),
        "parts": [
            pick(item, "part", "block", "eager_ms", "compiled_ms", "ms") for item in ledger.differences
        ],
        **pick(ledger, "unexplained_ms", "unexplained_eager_ms", "unexplained_compiled_ms"),
    }


def _account(account: Account | None) -> dict[str, Any] | None:
    """A steady call's parts, and what findings claim of them."""
    if account is None:
        return None
    return {
        **pick(account, "ms", "eager_ms", "noise_ms", "over_eager_ms", "unexplained_ms", "claimed_ms"),
        **pick(account, "once_ms", "once_claimed_ms", "calls"),
        "parts": [
            pick(part, "name", "ms", "how", "eager_ms", "block", "launches", "claimed_ms")
            for part in account.parts
        ],
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
