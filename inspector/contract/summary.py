"""`inspector.summary/1`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from inspector.analysis.calls import CallPayOff, PayOff
from inspector.analysis.summary import GraphSummary, GraphWaste, RunSummary
from inspector.model.calls import ProcessCalls, Steady
from inspector.model.logs import GraphBreak, Recompile
from inspector.model.record import ProcessRecord
from inspector.model.source import SourceLocation, users_place
from inspector.model.waste import Evaluation

from .fields import COMMON, Shapes, pick, place_text, shaped

SCHEMA = "inspector.summary/1"


def to_json(summary: RunSummary) -> dict[str, Any]:
    """The contract's object; `run` and each graph carry a few keys more."""
    facts = summary.facts
    run = pick(facts, "root kind torch_version devices ranks")
    if facts.manifest is not None:
        run |= pick(facts.manifest, "command status exit_code seconds")
    return {
        "schema": SCHEMA,
        "run": run,
        "graphs": shaped(summary.graphs, _SHAPES),
        "graph_breaks": len(facts.graph_breaks),
        "recompiles": len(facts.recompiles),
        "breaks": [_break(item) for item in facts.graph_breaks],
        "compiled_again": [_again(item) for item in facts.recompiles],
        **pick(summary, "nothing_compiled busy"),
        "contents": [pick(content, "what count bytes") for content in facts.contents],
        "calls": [] if summary.calls is None else shaped(summary.calls.callables, _SHAPES),
        "baseline": _baseline(summary.calls),
        "events": _events(facts.calls),
        "cache_events": dict(facts.cache_events),
        **pick(summary, "compile_time divergence waste", _SHAPES),
        "kernel_results": _kernels(summary.records),
        "saved_inputs": inputs_json(summary.records),
        "state": _states(facts.calls),
        **pick(summary, "problems", _SHAPES),
    }


def _break(item: GraphBreak) -> dict[str, Any]:
    """Where in the user's program, and why, in one line."""
    place = place_text(users_place(item.location, item.frames))
    return {"location": place, "reason": item.headline, **pick(item, "compile_id rank")}


def _again(item: Recompile) -> dict[str, Any]:
    """A recompile with the first guard that failed."""
    return {
        "function": item.function,
        "location": place_text(item.location),
        "reason": item.headline,
        **pick(item, "compile_id rank"),
    }


def _callable(item: CallPayOff) -> dict[str, Any]:
    """Times in milliseconds."""
    return {
        **pick(item, "name kind"),
        "location": place_text(item.location),
        **pick(item, "rank measured_in calls cold_calls=cold first_ms"),
        **_steady("compiled", item.compiled),
        **_steady("eager", item.eager),
        **pick(item, "compile_cost_ms=cost_ms ratio outcome break_even_calls=break_even"),
    }


_SHAPES: Shapes = {
    **COMMON,
    CallPayOff: _callable,
    GraphWaste: "graph=ident bytes_moved bytes_asked repeated",
    Evaluation: "operator fx sources elements evaluations times",
    SourceLocation: str,
    GraphSummary: "name id=ident phase compile_id rank artifacts missing fx_nodes scheduler_nodes_pre"
    " scheduler_nodes_post kernels kernel_calls",
}


def _steady(name: str, steady: Steady | None) -> dict[str, Any]:
    return {
        f"{name}_ms": None if steady is None else steady.median_ms,
        f"{name}_ms_iqr": None if steady is None else steady.iqr_ms,
        f"{name}_count": 0 if steady is None else steady.count,
    }


def _baseline(result: PayOff | None) -> dict[str, Any] | None:
    """The run as a whole; null without a baseline."""
    if result is None or not result.baseline:
        return None
    return pick(result, "outcome ratio again compiled_ms eager_ms compile_cost_ms=cost_ms break_even_runs")


def _events(calls: Iterable[ProcessCalls]) -> list[dict[str, Any]]:
    return [
        {
            **pick(event, "kind reason frame"),
            "location": place_text(event.location),
            **pick(event, "count raised"),
            "rank": process.rank,
        }
        for process in calls
        for event in process.events
    ]


def _states(processes: Iterable[ProcessCalls]) -> list[dict[str, Any]]:
    """For each process that the recorder looked at: its different states, the first as torch began."""
    return [
        {
            "rank": calls.rank,
            "states": [dict(state.values) for state in calls.state.states],
            **pick(calls.state, "environment cpus"),
        }
        for calls in processes
        if calls.state is not None
    ]


def _kernels(records: Sequence[ProcessRecord]) -> list[dict[str, Any]]:
    """Each kernel's results; `tried` is the autotuning table, fastest first, times in milliseconds."""
    return [
        {
            **pick(kernel, "name graph"),
            "rank": record.rank,
            **pick(kernel, "registers spills shared_bytes config chosen_by"),
            "tried": [{"config": dict(config), "ms": time} for config, time in kernel.tried],
            "refused": kernel.refused,
        }
        for record in records
        for kernel in record.kernels
    ]


def inputs_json(records: Sequence[ProcessRecord]) -> list[dict[str, Any]]:
    """What was kept of each graph's first call; positions count the graph's arguments from 0."""
    return [
        {
            "graph": item.graph,
            "rank": record.rank,
            **pick(item, "file arguments bytes left_out left_out_bytes unknown problem"),
        }
        for record in records
        for item in record.inputs
    ]
