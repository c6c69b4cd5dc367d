"""Calls of compiled callables in words and a table: whether compiling paid, and after how many."""

from __future__ import annotations

import math
from collections.abc import Sequence

from inspector.analysis.calls import CallPayOff, PayOff
from inspector.model.calls import Event, Steady
from inspector.model.logs import GraphBreak, led_to
from inspector.model.run import RunFacts
from inspector.model.source import function_name
from inspector.text import elide, headline
from inspector.units import comparison, duration, plural, some_calls, untold, with_spread

from .spans import Line, Span, compared, more, plain, toned
from .tables import Column, Row, Table, table_lines

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


def verdict_lines(result: PayOff) -> list[Line]:
    """The answer in one or two sentences, for the top of a summary; empty where no call was measured."""
    measured = [item for item in result.callables if item.compiled is not None]
    both = [item for item in measured if item.eager is not None]
    # Ranks work side by side: the first one's steps are those of the run.
    first = min((item.rank for item in both if item.rank is not None), default=None)
    both = [item for item in both if item.rank == first]
    if not result.callables or (measured and not result.baseline):
        return []
    if not result.baseline:
        return [toned("every call of a compiled function compiled something: no steady time", "warn")]
    if not both:
        text = "compiled and eager cannot be compared: no function has steady calls in both runs"
        return [toned(text, "warn")]
    if result.both_eager:
        text = "nothing was compiled, so both runs are eager: what they differ by is the machine's"
        return [toned(text, "warn")]
    if len(both) > 1:
        return [_whole(result, both)]
    return [_one(both[0], result.again)]


def _one(item: CallPayOff, again: float | None) -> Line:
    assert item.compiled is not None and item.eager is not None
    count = f"median of {item.compiled.count:,} and {item.eager.count:,}"
    if item.compiled.count == item.eager.count:
        count = f"median of {item.compiled.count:,}"
    if len(item.groups) > 1:
        count = "means over calls of several sizes"
    ours, theirs = duration(item.compiled.median_ms), duration(item.eager.median_ms)
    times = f"{ours} against {theirs} per call of {item.name} ({count})"
    return _answer(item, times, some_calls(item.break_even or 0), again)


def _whole(result: PayOff, both: Sequence[CallPayOff]) -> Line:
    """Per step where every function is called as often as the others, as in training; else over the run."""
    assert result.compiled_ms is not None and result.eager_ms is not None
    calls = {item.calls for item in both}
    steps = calls.pop() if len(calls) == 1 else 1
    ours, theirs = duration(result.compiled_ms / steps), duration(result.eager_ms / steps)
    back = plural(math.ceil((result.break_even_runs or 0.0) * steps), "step" if steps > 1 else "run")
    over = "per step, one call each" if steps > 1 else "over the run's calls"
    return _answer(result, f"{ours} against {theirs} {over} of {len(both)} functions", back, result.again)


def _answer(item: CallPayOff | PayOff, times: str, back: str, again: float | None) -> Line:
    cost = duration(item.cost_ms or 0.0)
    how = comparison(item.ratio, "eager") if item.ratio else ""
    if item.outcome == "faster":
        return toned(f"compiled is {how}: {times}; compiling ({cost}) is won back after {back}", "good")
    if item.outcome == "slower":
        return toned(f"compiled is {how}: {times}; compiling ({cost}) is never won back", "warn")
    if item.outcome == "same":
        text = "compiled and eager take the same time, within noise"
        return toned(f"{text}: {times}; compiling cost {cost}", "warn")
    why = f"compiled is {how}{untold(item.outcome, again)}" if again else "too few steady calls to compare"
    return toned(f"{why}: {times}; compiling cost {cost}", "warn")


def calls_lines(result: PayOff, width: int) -> list[Line]:
    """A row for each callable, those that take longest first."""
    columns = [
        Column("called", shrinks=True, least=12),
        Column("at", shrinks=True, least=8, rank=2),
        Column("calls", right=True),
        Column("first", right=True, rank=1),
        Column("compiled", right=True),
    ]
    if result.baseline:
        columns += [
            Column("eager", right=True),
            Column("compiled is", right=True),
            Column("pays off", right=True),
        ]
    ordered = sorted(result.callables, key=_weight, reverse=True)
    ranks = {item.rank for item in result.callables}
    rows: list[Row] = []
    for item in ordered[:_MAX_CALLABLES]:
        name = item.name if len(ranks) < 2 else f"rank {item.rank} {item.name}"
        cells = [
            Span(name, "accent"),
            Span(item.location.short if item.location else "", "dim"),
            Span(f"{item.calls:,}"),
            Span("" if item.first_ms is None else duration(item.first_ms)),
            Span(steady_text(item.compiled, spread=width >= _WIDE)),
        ]
        if result.baseline:
            cells += [
                Span(steady_text(item.eager, spread=width >= _WIDE)),
                _ratio_cell(item),
                Span(_pays_off(item)),
            ]
        rows.append(Row(str(len(rows)), tuple(cells)))
    lines = table_lines(Table("Calls", tuple(columns), tuple(rows)), width)
    lines += more(len(ordered) - _MAX_CALLABLES, tone="")
    if not result.baseline:
        text = "with debug output on; for eager beside it: inspector capture --baseline"
        lines.append(toned(text, "dim"))
    return lines


def _weight(item: CallPayOff) -> float:
    return item.calls * item.compiled.median_ms if item.compiled is not None else 0.0


def steady_text(steady: Steady | None, *, spread: bool) -> str:
    """`34.5 ± 0.6 us`: the median, with half the interquartile range where there is room for `spread`."""
    if steady is None:
        return "-"
    return with_spread(steady.median_ms, steady.iqr_ms) if spread else duration(steady.median_ms)


def _ratio_cell(item: CallPayOff) -> Span:
    if item.ratio is None:
        return Span("-")
    cell = compared(item.ratio)
    return Span(f"{cell.text} (noise)") if item.outcome == "same" else cell


def _pays_off(item: CallPayOff) -> str:
    if item.outcome == "faster":
        return some_calls(item.break_even or 0)
    return {"slower": "never", "same": "never", "unknown": "-"}[item.outcome]


def event_lines(facts: RunFacts, width: int) -> list[Line]:
    """What the recorder saw and torch's log of graph breaks and recompiles does not have."""
    events = [event for process in facts.calls for event in process.events if event.kind in _SAID]
    lines = plain(
        f"  {elide(event_text(event, facts.given_up), width - 2)}" for event in events[:_MAX_EVENTS]
    )
    return lines + more(len(events) - _MAX_EVENTS, tone="")


def event_text(event: Event, given_up: Sequence[GraphBreak] = ()) -> str:
    """`runs in eager  f (model.py:12)  Tensor.item() call`, for a table or a list; a library's place stands
    behind the user's line, where the log of a frame that was `given_up` there has it."""
    place = event.location.short if event.location else ""
    users = led_to(event.location, event.frame, given_up)
    if users is not None and users.short != place:
        place = f"{users.short}, in {place}"
    frame = function_name(event.frame) if event.frame else ""
    where = f"{frame} ({place})" if frame and place else frame or place
    times = f"  ({event.count} times)" if event.count > 1 else ""
    parts = (_SAID.get(event.kind, event.kind), where, headline(event.reason))
    return "  ".join(part for part in parts if part) + times
