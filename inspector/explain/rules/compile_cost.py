"""Compiling takes longer than all calls together can win back, or did not end.

Looks at: what the first call of each callable took beyond a steady one, what a steady call saves against
eager, and how many calls there are; of a command that was ended before any call was done, the trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from inspector.analysis.ending import ending
from inspector.analysis.repeats import Repeated, repeated
from inspector.analysis.steady import MOST
from inspector.explain.case import Case
from inspector.explain.ledger import NO_GAIN, break_even
from inspector.explain.rule import Rule, Stage, source_evidence
from inspector.model.compile_time import PARTS
from inspector.model.explain import Evidence, Finding, Severity
from inspector.units import duration, plural, some_calls

FEW_CALLS = 10
"""Less often than any benchmark or loop calls a model: the program itself does not repeat its work."""


def find(case: Case) -> Iterable[Finding]:
    times = case.times
    if not times.calls and ending(case.facts.manifest):
        yield from _unfinished(case)
    if times.cold_ms is None or not times.calls or not case.graphs:
        return
    if ending(case.facts.manifest):
        # How many calls there would have been, nobody knows.
        return
    # What compiling again costs is for the rule of recompiles to say.
    first = times.cold_ms - times.recompile_ms
    steady = times.compiled_ms or 0.0
    total = times.cold_ms + steady * times.calls
    if total <= 0 or first / total < MOST:
        return
    needed = break_even(case)
    if needed is not None and times.calls >= needed:
        return
    few = times.calls <= FEW_CALLS
    again = _repeated(case)
    severity: Severity = "high" if few else "low"
    if needed is not None:
        pays = f", won back after {some_calls(needed)}; the run made {times.calls:,}"
    elif times.outcome in NO_GAIN:
        pays = f", never won back: {NO_GAIN[times.outcome]}"
    else:
        pays = f", for {plural(times.calls, 'call')} in all"
    yield Finding(
        rule="compile_cost_not_amortized",
        severity=severity,
        title=f"compiling takes {duration(times.cold_ms)}{pays}{_how_often(again)}",
        graph=None,
        cost_ms=first,
        evidence=(
            _where(case, f"{duration(times.cold_ms)} of {duration(total)} in compiled calls is compiling"),
            *(source_evidence(case, line) for line in (again.lines[:2] if again is not None else ())),
        ),
        advice=_advice(case, again, few),
        how="measured",
        share=first / total,
        account="run",
    )


def _repeated(case: Case) -> Repeated | None:
    """Of the largest graph that calls run, as Dynamo traced it, where that is known."""
    forward = [graph.artifacts for graph in case.graphs if graph.artifacts.phase != "backward" and graph.runs]
    graphs = [case.frame(own.compile_id) or own.fx_after for own in forward]
    largest = max(filter(None, graphs), key=lambda graph: len(graph.nodes), default=None)
    return repeated(largest) if largest is not None else None


def _how_often(again: Repeated | None) -> str:
    if again is None:
        return ""
    lines, share = plural(len(again.lines), "line"), f"{again.operators:,} of {again.of:,} operators"
    return f"; {lines} of the program come {again.times} times and more in one graph, {share}"


def _advice(case: Case, again: Repeated | None, few: bool) -> str:
    keep = "keep the cache between runs (TORCHINDUCTOR_CACHE_DIR)"
    if few:
        return f"for so few calls leave torch.compile out, or {keep}"
    if again is None:
        return f"worth it for longer runs only; {keep}"
    each = duration(case.costs.graph_ms)
    return (
        "compile what comes again, one round of a loop that is unrolled or one of layers that are alike, and "
        f"call that as often: a call of compiled code costs some {each}; or {keep}"
    )


def _unfinished(case: Case) -> Iterable[Finding]:
    """Sections of compiling that the trace has no end of: what they took until then."""
    time = case.in_trace
    if time is None or time.complete or not time.parts:
        return
    part, ns = max(time.parts.items(), key=lambda item: item[1])
    whole = duration(time.total_ns / 1e6)
    nodes = [
        node
        for graph in case.graphs
        for node in (graph.artifacts.fx_after.nodes if graph.artifacts.fx_after is not None else ())
    ]
    lines = Counter(node.source for node in nodes if node.source is not None)
    yield Finding(
        rule="compile_cost_not_amortized",
        severity="high",
        title=f"{whole} of compiling, and no call was done when the command was ended: "
        f"{PARTS[part]} {duration(ns / 1e6)}",
        graph=None,
        cost_ms=None,
        evidence=tuple(
            source_evidence(case, line, f"{count} of {plural(len(nodes), 'operator')} in the graphs")
            for line, count in lines.most_common(2)
        )
        or (_where(case, f"{whole} in the trace"),),
        advice="compile less at once: what a loop repeats, as tracing unrolls it, or parts of a model apart",
        how="measured",
        account="run",
    )


def _where(case: Case, text: str) -> Evidence:
    for program in case.programs:
        for call in program.compile_calls:
            return Evidence(program.path, call.line, text)
    return Evidence("record", None, text)


RULE = Rule("compile_cost_not_amortized", Stage.BOUND, find)
