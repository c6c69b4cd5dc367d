"""`inspector.diff/1`."""

from __future__ import annotations

from typing import Any

from inspector.analysis.diff.verdict import verdict
from inspector.model.diff import (
    CacheMiss,
    Change,
    FusionChange,
    GraphMatch,
    KernelMatch,
    LaunchId,
    LedgerRow,
    RunDiff,
    Setting,
    Total,
)

from .fields import COMMON, Shapes, pick, shaped

SCHEMA = "inspector.diff/1"


def to_json(diff: RunDiff) -> dict[str, Any]:
    """Every launch of both runs is in one entry of `kernels`."""
    return {
        "schema": SCHEMA,
        **pick(diff, "a b"),
        "verdict": verdict(diff),
        **pick(diff, "graphs kernels fusions", _SHAPES),
        **pick(diff, "settings cache_miss=cache_misses events totals ledger outcome notes problems", _SHAPES),
    }


_SHAPES: Shapes = {
    **COMMON,
    GraphMatch: lambda item: {
        **pick(item, "a b relation"),
        "operations": dict(zip(("a", "b", "matched"), item.nodes, strict=True)),
        **pick(item, "changes", _SHAPES),
    },
    KernelMatch: lambda item: {
        "a": [str(launch) for launch in item.a],
        "b": [str(launch) for launch in item.b],
        **pick(item, "relation basis share a_ms b_ms"),
        "kernels_a": shaped(item.a, _SHAPES),
        "kernels_b": shaped(item.b, _SHAPES),
        **pick(item, "changes", _SHAPES),
    },
    FusionChange: lambda item: {
        **pick(item, "fused_in reason plain by_torch"),
        "whole": str(item.whole),
        "apart": [str(launch) for launch in item.apart],
    },
    LaunchId: "kernel kind lines",
    Change: "what a b",
    Setting: "area name a b",
    CacheMiss: "graph causes",
    Total: "name unit a b",
    LedgerRow: "part a_ms b_ms delta_ms",
}
