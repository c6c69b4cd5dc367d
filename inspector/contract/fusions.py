"""`inspector.fusions/1`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inspector.model.decision import NO_EVIDENCE, Decision, Evidence
from inspector.model.fusion import Access, FusionGroup, FusionReport, Missed, NodeTraffic, total
from inspector.model.source import SourceLocation
from inspector.model.waste import Evaluation, Rewritten

from .fields import Shapes, pick, shaped

SCHEMA = "inspector.fusions/1"


def to_json(reports: Sequence[FusionReport], everything: bool = False) -> dict[str, Any]:
    """With more keys for each graph than the contract has. `everything` adds the pairs that are left out as
    noise, as `minor`."""
    sources = {report.decision_source for report in reports}
    return {
        "schema": SCHEMA,
        "decision_source": next((source for source in ("recorder", "log") if source in sources), "none"),
        "graphs": [_graph(report, everything) for report in reports],
    }


def _graph(report: FusionReport, everything: bool) -> dict[str, Any]:
    untried = [
        pair for pair in (*report.missed, *report.minor) if pair.verdict == "never_tried" and not pair.reason
    ]
    data: dict[str, Any] = {
        **pick(report, "name id=ident groups nodes", _SHAPES),
        "decisions": [*map(_decision, report.decisions), *map(_untried, untried)],
        **pick(report, "bytes_unfused bytes_fused bytes_minimum bytes_kept fused_ratio excess_ratio"),
        **pick(report, "bytes_asked rewritten evaluations", _SHAPES),
        "counts": {"before": dict(report.counts_before), "after": dict(report.counts_after)},
        **pick(report, "missed noise decision_source notes", _SHAPES),
    }
    if everything:
        data["minor"] = shaped(report.minor, _SHAPES)
    return data


def _decision(decision: Decision) -> dict[str, Any]:
    return {
        **pick(decision, "first second round verdict reason category shared_bytes shared fused_later"),
        "reason_by": _reason_by(decision),
        "line": decision.line,
        **_evidence(decision.evidence),
    }


def _evidence(evidence: Evidence) -> dict[str, Any]:
    # Of tens of thousands of pairs few have any.
    data = evidence._asdict()
    return data if evidence is NO_EVIDENCE else {name: shaped(value, {}) for name, value in data.items()}


def _untried(pair: Missed) -> dict[str, Any]:
    """A pair of final groups that no decision mentions: the contract lists it with the decisions."""
    return {
        **pick(pair, "first second"),
        "round": None,
        "verdict": "never_tried",
        "reason": pair.plain,
        "category": pair.category,
        "shared_bytes": total(pair.buffers),
        "shared": [access.memory for access in pair.buffers],
        "fused_later": False,
        "reason_by": None,
        "line": None,
        **_evidence(NO_EVIDENCE),
    }


def _missed(missed: Missed) -> dict[str, Any]:
    return {
        **pick(missed, "first second bytes buffers verdict category reason", _SHAPES),
        "reason_by": _reason_by(missed),
        **pick(missed, "plain possible inferred advice line between first_sources second_sources", _SHAPES),
    }


def _rewritten(item: Rewritten) -> dict[str, Any]:
    return {
        **pick(item, "storage writes sources moved asked by_index", _SHAPES),
        "groups": [{"name": name, "wasted": wasted} for name, wasted in item.groups],
    }


def _reason_by(item: Decision | Missed) -> str | None:
    if not item.reason:
        return None
    return "torch" if item.by_torch else "recorder"


_SHAPES: Shapes = {
    Access: "buffer bytes counted=basis",
    FusionGroup: (
        "name kind nodes kernel calls bytes_saved bytes_unfused bytes_moved bytes_asked "
        "reads writes gone kept sources"
    ),
    Evaluation: "operator group fx sources elements evaluations occurrences exact part",
    Missed: _missed,
    NodeTraffic: "name kind group bytes_read bytes_written sources",
    Rewritten: _rewritten,
    SourceLocation: str,
}
