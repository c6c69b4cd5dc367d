"""`inspector summary`: as text, and as the contract's `inspector.summary/1`."""

from __future__ import annotations

from typing import Any

from inspector.analysis.summary import KERNEL_KINDS, GraphSummary, RunSummary
from inspector.model.logs import GraphBreak, Recompile
from inspector.present.calls import (
    baseline_json,
    calls_json,
    event_lines,
    events_json,
    table_lines,
    verdict_lines,
)
from inspector.present.compile_time import divergence_json, divergence_lines, time_json, time_text
from inspector.present.record import inputs_json, kernels_json, record_lines
from inspector.present.text import Column, elide, render_table

SCHEMA = "inspector.summary/1"

_MAX_EVENTS = 12
_MAX_PROBLEMS = 20


def to_json(summary: RunSummary) -> dict[str, Any]:
    """The contract's object; `run` and each graph carry a few keys more."""
    facts = summary.facts
    run: dict[str, Any] = {
        "root": facts.root,
        "kind": facts.kind,
        "torch_version": facts.torch_version,
        "devices": list(facts.devices),
        "ranks": facts.ranks,
    }
    if facts.manifest is not None:
        run["command"] = list(facts.manifest.command)
        run["status"] = facts.manifest.status
        run["exit_code"] = facts.manifest.exit_code
        run["seconds"] = facts.manifest.seconds
    return {
        "schema": SCHEMA,
        "run": run,
        "graphs": [_graph_json(graph) for graph in summary.graphs],
        "graph_breaks": len(facts.graph_breaks),
        "recompiles": len(facts.recompiles),
        "nothing_compiled": summary.nothing_compiled,
        "calls": calls_json(summary.calls),
        "baseline": baseline_json(summary.calls),
        "events": events_json(facts.calls),
        "cache_events": dict(facts.cache_events),
        "compile_time": None if summary.compile_time is None else time_json(summary.compile_time),
        "divergence": divergence_json(summary.divergence),
        "kernel_results": kernels_json(summary.records),
        "saved_inputs": inputs_json(summary.records),
        "problems": [
            {"path": problem.path, "line": problem.line, "message": problem.message}
            for problem in summary.problems
        ],
    }


def _graph_json(graph: GraphSummary) -> dict[str, Any]:
    return {
        "name": graph.name,
        "id": graph.ident,
        "phase": graph.phase,
        "compile_id": graph.compile_id,
        "rank": graph.rank,
        "artifacts": list(graph.artifacts),
        "missing": list(graph.missing),
        "fx_nodes": graph.fx_nodes,
        "scheduler_nodes_pre": graph.scheduler_nodes_pre,
        "scheduler_nodes_post": graph.scheduler_nodes_post,
        "kernels": graph.kernels,
        "kernel_calls": graph.kernel_calls,
    }


def to_text(summary: RunSummary, width: int = 100) -> str:
    """For a terminal or a pipe: whether it paid, a table of graphs, calls, breaks and recompiles, problems.

    Where nothing was compiled, the first line says so.
    """
    facts = summary.facts
    head = [
        facts.root,
        f"torch {facts.torch_version or 'unknown'}",
        ", ".join(facts.devices) or "device unknown",
    ]
    if facts.ranks > 1:
        head.append(f"{facts.ranks} ranks")
    if facts.manifest is not None and facts.manifest.status != "done":
        head.append(f"{facts.manifest.status}, exit code {facts.manifest.exit_code}")
    lines = [" · ".join(head)]
    if summary.nothing_compiled is not None:
        lines.insert(0, summary.nothing_compiled)
    if summary.calls is not None:
        lines += verdict_lines(summary.calls)
    lines.append("")
    if summary.graphs:
        lines += _graph_table(summary.graphs, width)
    else:
        lines.append("no compiled graph")
    lines.append("")
    if summary.calls is not None and summary.calls.callables:
        lines += [*table_lines(summary.calls, width), ""]
    lines.append(f"graph breaks: {len(facts.graph_breaks)}   recompiles: {len(facts.recompiles)}")
    lines += [f"  {elide(break_text(event), width - 2)}" for event in facts.graph_breaks[:_MAX_EVENTS]]
    lines += _more(len(facts.graph_breaks))
    lines += [f"  {elide(recompile_text(event), width - 2)}" for event in facts.recompiles[:_MAX_EVENTS]]
    lines += _more(len(facts.recompiles))
    lines += event_lines(facts.calls, width)
    if summary.compile_time is not None and summary.compile_time.total_ns:
        lines.append(time_text(summary.compile_time))
    lines += [elide(line, width) for line in record_lines(summary.records)]
    if summary.divergence:
        lines += ["", f"differences between ranks: {len(summary.divergence)} (more: inspector trace)"]
        lines += divergence_lines(summary.divergence, width)
    if summary.problems:
        lines += ["", f"problems: {len(summary.problems)}"]
        lines += [f"  {problem}" for problem in summary.problems[:_MAX_PROBLEMS]]
        if len(summary.problems) > _MAX_PROBLEMS:
            lines.append(f"  ... and {len(summary.problems) - _MAX_PROBLEMS} more (--json has all)")
    return "\n".join(lines) + "\n"


def break_text(event: GraphBreak) -> str:
    place = event.location.short if event.location else "unknown place"
    return f"graph break  {place}  {event.headline}"


def recompile_text(event: Recompile) -> str:
    place = event.location.short if event.location else "unknown place"
    return f"recompile  {event.function} ({place})  {event.headline}"


def kernels_text(kernels: dict[str, int] | None) -> str:
    """`3 triton + 2 extern`; kinds that do not occur are left out."""
    if kernels is None:
        return "?"
    parts = [f"{kernels[kind]} {kind}" for kind in KERNEL_KINDS if kernels[kind]]
    return " + ".join(parts) or "none"


def _graph_table(graphs: tuple[GraphSummary, ...], width: int) -> list[str]:
    columns = [
        Column("graph"),
        Column("phase"),
        Column("id"),
        Column("fx", right=True),
        Column("nodes", right=True),
        Column("kernels"),
        Column("calls", right=True),
    ]
    rows = [
        (
            graph.ident,
            graph.phase,
            graph.compile_id or "",
            _count(graph.fx_nodes),
            f"{_count(graph.scheduler_nodes_pre)} → {_count(graph.scheduler_nodes_post)}",
            kernels_text(graph.kernels),
            _count(graph.kernel_calls),
        )
        for graph in graphs
    ]
    return render_table(columns, rows, width)


def _count(value: int | None) -> str:
    return "?" if value is None else str(value)


def _more(total: int) -> list[str]:
    return [f"  ... and {total - _MAX_EVENTS} more"] if total > _MAX_EVENTS else []
