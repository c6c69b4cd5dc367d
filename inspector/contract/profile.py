"""`inspector.profile/1`: what `summary --json` prints of a profiler's trace without its run."""

from __future__ import annotations

from typing import Any

from inspector.analysis.profile_summary import ProfileSummary
from inspector.model.two_sides import KernelTime

from .fields import pick

SCHEMA = "inspector.profile/1"


def to_json(summary: ProfileSummary) -> dict[str, Any]:
    """Milliseconds per steady call."""
    whole = summary.whole
    return {
        "schema": SCHEMA,
        **pick(summary, "path devices"),
        **pick(whole, "calls wall_ms work_ms overlap_ms transfers_ms"),
        "host": [{"part": part, "ms": ms} for part, ms in whole.host],
        **pick(summary, "kernels operators", {KernelTime: "name calls ms generated"}),
        "graphs": [{"key": key, "runs": runs} for key, runs in summary.graphs],
        "regions": [{"compile_id": compile_id, "runs": runs} for compile_id, runs in summary.regions],
    }
