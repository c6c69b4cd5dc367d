"""`inspector trace --json` (`inspector.trace/1`), and the keys that `summary --json` shares with it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from inspector.analysis.compile_time import walk
from inspector.model.compilation import Compilation, CompileMetrics, Guard, Stage
from inspector.model.compile_time import CompileTime
from inspector.model.problem import Problem
from inspector.model.ranks import Divergence
from inspector.model.source import SourceLocation
from inspector.present.compile_time import divergence_json, in_seconds, time_json
from inspector.present.trace_words import TraceView

SCHEMA = "inspector.trace/1"


def to_json(
    root: str,
    views: Sequence[TraceView],
    total: CompileTime,
    differences: Sequence[Divergence],
    problems: Sequence[Problem],
    idents: frozenset[str] | None = None,
) -> dict[str, Any]:
    """Times in seconds, places as path and line. `idents`: only these compilations, all for None."""
    return {
        "schema": SCHEMA,
        "root": root,
        "compile_time": time_json(total),
        "traces": [_trace_json(view, idents) for view in views],
        "divergence": divergence_json(differences),
        "problems": [
            {"path": problem.path, "line": problem.line, "message": problem.message} for problem in problems
        ],
    }


def _trace_json(view: TraceView, idents: frozenset[str] | None) -> dict[str, Any]:
    content = view.content
    return {
        "path": content.path,
        "rank": content.rank,
        "process": content.process,
        "compile_time": time_json(view.times.total),
        "compilations": [
            _compilation_json(item, view.times.ids.get(item.ident))
            for item in content.compilations
            if idents is None or item.ident in idents
        ],
        "kinds": [
            {
                "name": kind.name,
                "count": kind.count,
                "known": kind.known,
                "line": kind.line,
                "example": kind.example,
            }
            for kind in content.kinds
        ],
        "general": [_stage_json(stage) for stage in content.general],
    }


def _compilation_json(item: Compilation, time: CompileTime | None) -> dict[str, Any]:
    return {
        "id": item.ident,
        "compile_id": item.compile_id,
        "rank": item.rank,
        "function": _place(item.function),
        "status": item.status,
        "attempts": item.attempts,
        "line": item.line,
        "stack": [_place(frame) for frame in item.stack],
        "compile_time": None if time is None else {**time_json(time), "sections": _sections(time)},
        "stages": [_stage_json(stage) for stage in item.stages],
        "guards": [_guard_json(guard) for guard in item.guards],
        "symbols": [
            {
                "name": symbol.name,
                "hint": symbol.hint,
                "range": symbol.range,
                "source": symbol.source,
                "location": _place(symbol.location),
            }
            for symbol in item.symbols
        ],
        "caches": [
            {
                "cache": lookup.cache,
                "outcome": lookup.outcome,
                "key": lookup.key,
                "reason": lookup.reason,
                "saved_ms": lookup.saved_ms,
            }
            for lookup in item.caches
        ],
        "kernels": [
            {
                "name": kernel.name,
                "cache_state": kernel.cache_state,
                "configs": kernel.configs,
                "config": dict(kernel.config),
                "compile_us": kernel.compile_us,
                **({"other": _fields(kernel.other)} if kernel.other else {}),
            }
            for kernel in item.kernels
        ],
        "kernel_stacks": {name: list(stacks) for name, stacks in item.kernel_stacks},
        "side_effects": list(item.side_effects),
        "collectives": list(item.collectives),
        "failures": [
            {"kind": failure.kind, "text": failure.text, "location": _place(failure.location)}
            for failure in item.failures
        ],
        "graph_breaks": [
            {"location": _place(event.location), "reason": event.reason, "line": event.line}
            for event in item.breaks
        ],
        "recompiles": [
            {"location": _place(event.location), "reasons": list(event.reasons), "line": event.line}
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
            "line": node.span.line,
            "closed": node.span.closed,
            **({"detail": node.span.detail} if node.span.detail else {}),
        }
        for depth, node in walk(time.roots)
    ]


def _stage_json(stage: Stage) -> dict[str, Any]:
    return {
        "label": stage.label,
        "name": stage.name,
        "graph": stage.is_graph,
        "phase": stage.phase,
        "attempt": stage.attempt,
        "bytes": stage.size,
        "line": stage.event.line,
    }


def _guard_json(guard: Guard) -> dict[str, Any]:
    return {
        "kind": guard.kind,
        "text": guard.text,
        "location": _place(guard.location),
        "line": guard.line,
        **({"note": guard.note} if guard.note else {}),
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


def _place(location: SourceLocation | None) -> dict[str, Any] | None:
    if location is None:
        return None
    return {
        "path": location.path,
        "line": location.line,
        "function": location.function,
        **({"code": location.code} if location.code else {}),
    }
