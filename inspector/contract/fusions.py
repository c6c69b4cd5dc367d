"""`inspector.fusions/1`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inspector.model.decision import NO_EVIDENCE, Decision, Evidence
from inspector.model.fusion import Access, FusionGroup, FusionReport, Missed, total
from inspector.model.source import SourceLocation

from .fields import pick

SCHEMA = "inspector.fusions/1"


def to_json(reports: Sequence[FusionReport], everything: bool = False) -> dict[str, Any]:
    """With more keys for each graph than the contract has. `everything` adds the pairs that are left out as
    noise, as `minor`."""
    sources = {report.decision_source for report in reports}
    return {
        "schema": SCHEMA,
        "decision_source": next((source for source in ("recorder", "log") if source in sources), "none"),
        "graphs": [_graph_json(report, everything) for report in reports],
    }


def _graph_json(report: FusionReport, everything: bool) -> dict[str, Any]:
    untried = [
        pair for pair in (*report.missed, *report.minor) if pair.verdict == "never_tried" and not pair.reason
    ]
    data: dict[str, Any] = {
        **pick(report, "name", "id=ident"),
        "groups": [_group_json(group) for group in report.groups],
        "nodes": [
            {
                **pick(node, "name", "kind", "group", "bytes_read", "bytes_written"),
                "sources": _places(node.sources),
            }
            for node in report.nodes
        ],
        "decisions": [*map(_decision_json, report.decisions), *map(_untried_json, untried)],
        **pick(
            report,
            "bytes_unfused",
            "bytes_fused",
            "bytes_minimum",
            "bytes_kept",
            "fused_ratio",
            "excess_ratio",
        ),
        "counts": {"before": dict(report.counts_before), "after": dict(report.counts_after)},
        "missed": [_missed_json(missed) for missed in report.missed],
        "noise": dict(report.noise),
        **pick(report, "decision_source", "notes"),
    }
    if everything:
        data["minor"] = [_missed_json(missed) for missed in report.minor]
    return data


def _group_json(group: FusionGroup) -> dict[str, Any]:
    return {
        **pick(group, "name", "kind", "nodes", "kernel", "calls", "bytes_saved", "bytes_unfused"),
        "reads": _accesses(group.reads),
        "writes": _accesses(group.writes),
        "gone": _accesses(group.gone),
        "kept": _accesses(group.kept),
        "sources": _places(group.sources),
    }


def _accesses(accesses: Sequence[Access]) -> list[dict[str, Any]]:
    return [pick(access, "buffer", "bytes", "counted=basis") for access in accesses]


def _places(places: Sequence[SourceLocation]) -> list[str]:
    return [str(place) for place in places]


def _decision_json(decision: Decision) -> dict[str, Any]:
    return {
        **pick(
            decision, "first", "second", "round", "verdict", "reason", "category", "shared_bytes", "shared"
        ),
        "fused_later": decision.fused_later,
        "reason_by": _reason_by(decision),
        "line": decision.line,
        **_evidence_json(decision.evidence),
    }


def _evidence_json(evidence: Evidence) -> dict[str, Any]:
    # Of tens of thousands of pairs few have any.
    return pick(evidence, *Evidence._fields) if evidence is not NO_EVIDENCE else NO_EVIDENCE._asdict()


def _untried_json(pair: Missed) -> dict[str, Any]:
    """A pair of final groups that no decision mentions: the contract lists it with the decisions."""
    return {
        **pick(pair, "first", "second"),
        "round": None,
        "verdict": "never_tried",
        "reason": pair.plain,
        "category": pair.category,
        "shared_bytes": total(pair.buffers),
        "shared": [access.memory for access in pair.buffers],
        "fused_later": False,
        "reason_by": None,
        "line": None,
        **_evidence_json(NO_EVIDENCE),
    }


def _missed_json(missed: Missed) -> dict[str, Any]:
    return {
        **pick(missed, "first", "second", "bytes"),
        "buffers": _accesses(missed.buffers),
        **pick(missed, "verdict", "category", "reason"),
        "reason_by": _reason_by(missed),
        **pick(missed, "plain", "possible", "inferred", "advice", "line", "between"),
        "first_sources": _places(missed.first_sources),
        "second_sources": _places(missed.second_sources),
    }


def _reason_by(item: Decision | Missed) -> str | None:
    if not item.reason:
        return None
    return "torch" if item.by_torch else "recorder"
