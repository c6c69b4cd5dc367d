"""`inspector.trace/1`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from inspector.analysis.compile_time import walk
from inspector.gather import ProcessTrace, TraceReport
from inspector.model.compilation import Compilation, CompileMetrics, Stage
from inspector.model.compile_time import CompileTime

from .fields import divergence_json, filled, in_seconds, pick, place_json, problems_json, time_json

SCHEMA = "inspector.trace/1"


def to_json(report: TraceReport, ident: str | None = None) -> dict[str, Any]:
    """Times in seconds, places as path and line. `ident`: only that compilation, all for None."""
    return {
        "schema": SCHEMA,
        "root": report.root,
        "compile_time": time_json(report.total),
        "traces": [_trace_json(trace, ident) for trace in report.traces],
        "divergence": divergence_json(report.differences),
        "problems": problems_json(report.problems),
    }


def _trace_json(trace: ProcessTrace, ident: str | None) -> dict[str, Any]:
    content = trace.content
    return {
        **pick(content, "path", "rank", "process"),
        "compile_time": time_json(trace.times.total),
        "compilations": [
            _compilation_json(item, trace.times.ids.get(item.ident))
            for item in content.compilations
            if ident in (None, item.ident)
        ],
        "kinds": [pick(kind, "name", "count", "known", "line", "example") for kind in content.kinds],
        "general": [_stage_json(stage) for stage in content.general],
    }


def _compilation_json(item: Compilation, time: CompileTime | None) -> dict[str, Any]:
    return {
        **pick(item, "id=ident", "compile_id", "rank"),
        "function": place_json(item.function),
        **pick(item, "status", "attempts", "line"),
        "stack": [place_json(frame) for frame in item.stack],
        "compile_time": None if time is None else {**time_json(time), "sections": _sections(time)},
        "stages": [_stage_json(stage) for stage in item.stages],
        "guards": [
            {
                **pick(guard, "kind", "text"),
                "location": place_json(guard.location),
                "line": guard.line,
                **filled(guard, "note"),
            }
            for guard in item.guards
        ],
        "symbols": [
            {**pick(symbol, "name", "hint", "range", "source"), "location": place_json(symbol.location)}
            for symbol in item.symbols
        ],
        "caches": [pick(lookup, "cache", "outcome", "key", "reason", "saved_ms") for lookup in item.caches],
        "kernels": [
            {
                **pick(kernel, "name", "cache_state", "configs"),
                "config": dict(kernel.config),
                "compile_us": kernel.compile_us,
                **({"other": _fields(kernel.other)} if kernel.other else {}),
            }
            for kernel in item.kernels
        ],
        "kernel_stacks": {name: list(stacks) for name, stacks in item.kernel_stacks},
        "side_effects": list(item.facts.get("side effects", ())),
        "collectives": list(item.facts.get("communication", ())),
        **({"facts": facts} if (facts := _further(item)) else {}),
        "failures": [
            {**pick(failure, "kind", "text"), "location": place_json(failure.location)}
            for failure in item.failures
        ],
        "graph_breaks": [
            {"location": place_json(event.location), **pick(event, "reason", "line")} for event in item.breaks
        ],
        "recompiles": [
            {"location": place_json(event.location), **pick(event, "reasons", "line")}
            for event in item.recompiles
        ],
        "metrics": [_metrics_json(metrics) for metrics in item.all_metrics],
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
            **pick(node.span, "line", "closed"),
            **filled(node.span, "detail"),
        }
        for depth, node in walk(time.roots)
    ]


def _further(item: Compilation) -> dict[str, list[str]]:
    """The facts that have no key of their own."""
    return {
        title: list(texts)
        for title, texts in item.facts.items()
        if title not in ("side effects", "communication")
    }


def _stage_json(stage: Stage) -> dict[str, Any]:
    return {
        **pick(stage, "label", "name", "graph=is_graph", "phase", "attempt", "bytes=size"),
        "line": stage.event.line,
    }


def _metrics_json(metrics: CompileMetrics) -> dict[str, Any]:
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
