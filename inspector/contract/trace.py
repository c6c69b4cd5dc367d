"""`inspector.trace/1`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from inspector.analysis.compile_time import walk
from inspector.gather import ProcessTrace, TraceReport
from inspector.model.compilation import (
    CacheLookup,
    Compilation,
    CompileMetrics,
    EventKind,
    Failure,
    Guard,
    KernelInfo,
    Specialization,
    Stage,
    Symbol,
)
from inspector.model.compile_time import CompileTime
from inspector.model.logs import GraphBreak, Recompile
from inspector.model.source import SourceLocation

from .fields import COMMON, Shapes, filled, in_seconds, pick, shaped, time_json

SCHEMA = "inspector.trace/1"
_WITH_KEYS = ("side effects", "communication")
"""Facts that have keys of their own."""


def to_json(report: TraceReport, ident: str | None = None) -> dict[str, Any]:
    """Times in seconds, places as path and line. `ident`: only that compilation, all for None."""
    return {
        "schema": SCHEMA,
        "root": report.root,
        "compile_time": time_json(report.total),
        "traces": [_trace(trace, ident) for trace in report.traces],
        **pick(report, "divergence=differences problems", COMMON),
    }


def _trace(trace: ProcessTrace, ident: str | None) -> dict[str, Any]:
    content = trace.content
    return {
        **pick(content, "path rank process"),
        "compile_time": time_json(trace.times.total),
        "compilations": [
            _compilation(item, trace.times.ids.get(item.ident))
            for item in content.compilations
            if ident in (None, item.ident)
        ],
        **pick(content, "kinds general", _SHAPES),
    }


def _compilation(item: Compilation, time: CompileTime | None) -> dict[str, Any]:
    facts = {title: list(texts) for title, texts in item.facts.items() if title not in _WITH_KEYS}
    return {
        **pick(item, "id=ident compile_id rank function status attempts line stack", _SHAPES),
        "compile_time": None if time is None else {**time_json(time), "sections": _sections(time)},
        **pick(item, "stages guards symbols specializations caches kernels", _SHAPES),
        "kernel_stacks": {name: list(stacks) for name, stacks in item.kernel_stacks},
        "side_effects": list(item.facts.get("side effects", ())),
        "collectives": list(item.facts.get("communication", ())),
        **({"facts": facts} if facts else {}),
        **pick(item, "failures", _SHAPES),
        "graph_breaks": shaped([broken for broken in item.breaks if not broken.gave_up], _SHAPES),
        "given_up": shaped([broken for broken in item.breaks if broken.gave_up], _SHAPES),
        **pick(item, "recompiles metrics=all_metrics", _SHAPES),
    }


def _sections(time: CompileTime) -> list[dict[str, Any]]:
    """The tree, flat: parents before their children, one deeper."""
    return [
        {
            "depth": depth,
            "name": node.span.name,
            "part": node.part,
            "seconds": in_seconds(node.span.duration_ns),
            "self_seconds": in_seconds(node.self_ns),
            **pick(node.span, "line closed"),
            **filled(node.span, "detail"),
        }
        for depth, node in walk(time.roots)
    ]


def _kernel(kernel: KernelInfo) -> dict[str, Any]:
    data = {**pick(kernel, "name cache_state configs"), "config": dict(kernel.config)}
    other = {"other": _fields(kernel.other)} if kernel.other else {}
    return {**data, "compile_us": kernel.compile_us, **other}


def _stage(stage: Stage) -> dict[str, Any]:
    return {**pick(stage, "label name graph=is_graph phase attempt bytes=size"), "line": stage.event.line}


def _metrics(metrics: CompileMetrics) -> dict[str, Any]:
    kind = ("backward" if metrics.backward else "forward") + (" runtime" if metrics.is_runtime else "")
    return {"kind": kind, "line": metrics.line, "fields": _fields(metrics.raw)}


def _fields(raw: Mapping[str, Any]) -> dict[str, Any]:
    """torch's fields as they are, without those that have no value in this version. What JSON cannot
    hold, such as NaN, becomes a text that says so."""
    fields: dict[str, Any] = {}
    for name, value in raw.items():
        try:
            json.dumps(value, allow_nan=False)
        except (ValueError, RecursionError):
            value = "cannot be shown"
        if value is not None:
            fields[name] = value
    return fields


_SHAPES: Shapes = {
    CacheLookup: "cache outcome key reason saved_ms",
    CompileMetrics: _metrics,
    EventKind: "name count known line example",
    Failure: "kind text location",
    GraphBreak: "location reason line",
    Guard: lambda guard: {**pick(guard, "kind text location line", _SHAPES), **filled(guard, "note")},
    KernelInfo: _kernel,
    Recompile: "location reasons line",
    SourceLocation: lambda place: {**pick(place, "path line function"), **filled(place, "code")},
    Specialization: "source value reason location",
    Stage: _stage,
    Symbol: "name hint range source location",
}
