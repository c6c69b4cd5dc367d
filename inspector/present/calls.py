"""Calls of compiled callables in words, a table and JSON: whether compiling paid, and after how many."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from inspector.analysis.calls import CallPayOff, PayOff, Steady
from inspector.model.calls import Event, ProcessCalls
from inspector.present.text import Column, elide, render_table

_MAX_CALLABLES = 8
_MAX_EVENTS = 12
_WIDE = 100
_SAID = {
    "skipped_frame": "runs in eager",
    "cache_limit": "runs in eager from now on",
    "compile_error": "compiling failed",
    "cudagraph_skip": "no CUDA graph",
}
"""Events that torch's own log has no block for; graph breaks and recompiles are read from there."""


def milliseconds_text(time: float) -> str:
    """`34.5 us`, `1.20 s`: three digits in the unit that suits the size."""
    for unit, scale in (("us", 1e3), ("ms", 1.0), ("s", 1e-3)):
        value = time * scale
        if abs(value) < 999.5 or unit == "s":
            digits = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
            return f"{value:.{digits}f} {unit}"
    raise AssertionError("unreachable: seconds take every size")


def verdict_lines(result: PayOff) -> list[str]:
    """The answer in one or two sentences, for the top of a summary; empty where no call was measured."""
    measured = [item for item in result.callables if item.compiled is not None]
    if not result.callables:
        return []
    if not result.baseline:
        if not measured:
            return ["every call of a compiled function compiled something: no steady time"]
        return []
    compared = [item for item in measured if item.eager is not None]
    if len(compared) == 1:
        return [_one(compared[0])]
    if not compared:
        return ["compiled and eager cannot be compared: no function has steady calls in both runs"]
    return [_whole(result, len(compared))]


def _one(item: CallPayOff) -> str:
    assert item.compiled is not None and item.eager is not None
    ours, theirs = milliseconds_text(item.compiled.median_ms), milliseconds_text(item.eager.median_ms)
    count = f"median of {item.compiled.count:,} and {item.eager.count:,}"
    if item.compiled.count == item.eager.count:
        count = f"median of {item.compiled.count:,}"
    times = f"{ours} against {theirs} per call of {item.name} ({count})"
    cost = milliseconds_text(item.cost_ms or 0.0)
    if item.outcome == "faster":
        return f"compiled is {_times(item.ratio)} faster: {times}; {_won_back(cost, item.break_even)}"
    if item.outcome == "slower":
        return f"compiled is {_times(item.ratio)} slower: {times}; compiling ({cost}) never pays"
    if item.outcome == "same":
        return f"compiled and eager take the same time, within noise: {times}; compiling cost {cost}"
    return f"too few steady calls to compare: {times}; compiling cost {cost}"


def _whole(result: PayOff, count: int) -> str:
    assert result.compiled_ms is not None and result.eager_ms is not None
    times = (
        f"{milliseconds_text(result.compiled_ms)} against {milliseconds_text(result.eager_ms)} "
        f"over the run's calls of {count} functions"
    )
    cost = milliseconds_text(result.cost_ms or 0.0)
    if result.outcome == "faster":
        runs = result.break_even_runs or 0.0
        back = f"compiling ({cost}) pays after {runs:.2g} times these calls"
        return f"compiled is {_times(result.ratio)} faster: {times}; {back}"
    if result.outcome == "slower":
        return f"compiled is {_times(result.ratio)} slower: {times}; compiling ({cost}) never pays"
    if result.outcome == "same":
        return f"compiled and eager take the same time, within noise: {times}; compiling cost {cost}"
    return f"too few steady calls to compare: {times}; compiling cost {cost}"


def _times(ratio: float | None) -> str:
    if ratio is None or ratio <= 0:
        return ""
    return f"{max(ratio, 1 / ratio):.2f}x"


def _won_back(cost: str, break_even: int | None) -> str:
    return f"compiling ({cost}) pays after {break_even or 0:,} calls"


def table_lines(result: PayOff, width: int) -> list[str]:
    """A row for each callable, those that take longest first."""
    if not result.callables:
        return []
    columns = [Column("called"), Column("at"), Column("calls", right=True), Column("first", right=True)]
    columns.append(Column("compiled", right=True))
    if result.baseline:
        columns += [Column("eager", right=True), Column("speedup", right=True)]
        columns.append(Column("pays off", right=True))
    shown = sorted(result.callables, key=_weight, reverse=True)
    ranks = {item.rank for item in result.callables}
    spread = width >= _WIDE
    rows = []
    for item in shown[:_MAX_CALLABLES]:
        name = item.name if len(ranks) < 2 else f"rank {item.rank} {item.name}"
        row = [name, item.location.short if item.location else "", f"{item.calls:,}", _first_text(item)]
        row.append(steady_text(item.compiled, spread=spread))
        if result.baseline:
            row += [steady_text(item.eager, spread=spread), _ratio_text(item), _break_even_text(item)]
        rows.append(tuple(row))
    lines = render_table(columns, rows, width)
    if len(shown) > _MAX_CALLABLES:
        lines.append(f"  ... and {len(shown) - _MAX_CALLABLES} more (--json has all)")
    if not result.baseline:
        lines.append("with debug output on; for eager beside it: inspector capture --baseline")
    return lines


def _first_text(item: CallPayOff) -> str:
    return "" if item.first_ms is None else milliseconds_text(item.first_ms)


def _weight(item: CallPayOff) -> float:
    return item.calls * item.compiled.median_ms if item.compiled is not None else 0.0


def steady_text(steady: Steady | None, *, spread: bool = True) -> str:
    """`34.5 ± 0.6 us`: the median, with half the interquartile range where there is room for `spread`."""
    if steady is None:
        return "-"
    text = milliseconds_text(steady.median_ms)
    if not spread:
        return text
    value, unit = text.split(" ")
    scale = {"us": 1e3, "ms": 1.0, "s": 1e-3}[unit]
    digits = len(value.partition(".")[2])
    return f"{value} ± {steady.iqr_ms * scale / 2:.{digits}f} {unit}"


def _ratio_text(item: CallPayOff) -> str:
    if item.ratio is None:
        return "-"
    return f"{item.ratio:.2f}x" + (" (noise)" if item.outcome == "same" else "")


def _break_even_text(item: CallPayOff) -> str:
    if item.outcome == "faster":
        return f"{item.break_even or 0:,} calls"
    return {"slower": "never", "same": "never", "unknown": "-"}[item.outcome]


def event_lines(calls: Iterable[ProcessCalls], width: int) -> list[str]:
    """What the recorder saw and torch's log of graph breaks and recompiles does not have."""
    events = [event for process in calls for event in process.events if event.kind in _SAID]
    lines = [f"  {elide(event_text(event), width - 2)}" for event in events[:_MAX_EVENTS]]
    if len(events) > _MAX_EVENTS:
        lines.append(f"  ... and {len(events) - _MAX_EVENTS} more (--json has all)")
    return lines


def event_text(event: Event) -> str:
    """`runs in eager  f (model.py:12)  Tensor.item() call`, for a table or a list."""
    place = event.location.short if event.location else ""
    where = f"{event.frame} ({place})" if event.frame and place else event.frame or place
    reason = next((line.strip() for line in event.reason.splitlines() if line.strip()), "")
    times = f"  ({event.count} times)" if event.count > 1 else ""
    return "  ".join(part for part in (_SAID.get(event.kind, event.kind), where, reason) if part) + times


def calls_json(result: PayOff | None) -> list[dict[str, Any]]:
    """`calls` of the summary's object: one object for each callable, times in milliseconds."""
    return [] if result is None else [_callable_json(item) for item in result.callables]


def _callable_json(item: CallPayOff) -> dict[str, Any]:
    return {
        "name": item.name,
        "kind": item.kind,
        "location": None if item.location is None else f"{item.location.path}:{item.location.line}",
        "rank": item.rank,
        "measured_in": item.measured_in,
        "calls": item.calls,
        "cold_calls": item.cold,
        "first_ms": item.first_ms,
        **_steady_json("compiled", item.compiled),
        **_steady_json("eager", item.eager),
        "compile_cost_ms": item.cost_ms,
        "ratio": item.ratio,
        "outcome": item.outcome,
        "break_even_calls": item.break_even,
    }


def _steady_json(name: str, steady: Steady | None) -> dict[str, Any]:
    if steady is None:
        return {f"{name}_ms": None, f"{name}_ms_iqr": None, f"{name}_count": 0}
    return {
        f"{name}_ms": steady.median_ms,
        f"{name}_ms_iqr": steady.iqr_ms,
        f"{name}_count": steady.count,
    }


def baseline_json(result: PayOff | None) -> dict[str, Any] | None:
    """`baseline` of the summary's object: the run as a whole; null without a baseline."""
    if result is None or not result.baseline:
        return None
    return {
        "outcome": result.outcome,
        "ratio": result.ratio,
        "compiled_ms": result.compiled_ms,
        "eager_ms": result.eager_ms,
        "compile_cost_ms": result.cost_ms,
        "break_even_runs": result.break_even_runs,
    }


def events_json(calls: Iterable[ProcessCalls]) -> list[dict[str, Any]]:
    """`events` of the summary's object, process by process."""
    return [
        {
            "kind": event.kind,
            "reason": event.reason,
            "frame": event.frame,
            "location": None if event.location is None else f"{event.location.path}:{event.location.line}",
            "count": event.count,
            "raised": event.raised,
            "rank": process.rank,
        }
        for process in calls
        for event in process.events
    ]
