"""`inspector summary`: whether it paid, a table of graphs, calls, breaks and recompiles, problems."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from inspector.analysis.ending import ending
from inspector.analysis.load import busy_text
from inspector.analysis.summary import RunSummary
from inspector.model.problem import Problem
from inspector.model.run import Content
from inspector.model.state import Value
from inspector.units import plural, size

from .calls import calls_lines, event_lines, verdict_lines
from .compile_time import divergence_lines, time_line
from .identity import identity
from .record import result_lines
from .run import counted_table, event_spans, events_of, told_once
from .spans import Line, Span, apart, fitted, line, more, plain, toned, wrapped
from .tables import table_lines
from .waste import run_text

_PREFIX = re.compile(r"^(backends\.|get_|is_|are_)")
_MAX_EVENTS = 24
_MAX_PROBLEMS = 20


def lines(summary: RunSummary, width: int) -> list[Line]:
    """Where nothing was compiled, the first line says so."""
    facts = summary.facts
    head = [toned(summary.nothing_compiled, "warn")] if summary.nothing_compiled is not None else []
    for remark in filter(None, (ending(facts.manifest), busy_text(summary.busy))):
        head += wrapped(remark, width, "warn")
    head.append(line(Span(identity(facts.root, len(summary.graphs), facts), "accent")))
    calls = summary.calls
    return [
        *head,
        *(verdict_lines(calls) if calls is not None else ()),
        *apart(_graphs(summary, width)),
        *apart(plain(map(content_text, facts.contents))),
        *_waste(summary, width),
        *apart(calls_lines(calls, width) if calls is not None and calls.callables else ()),
        *apart(_events(summary, width)),
        *_compile_time(summary, width),
        *(fitted(item.spans, width) for item in result_lines(summary.records)),
        *_settings(summary, width),
        *apart(_differences(summary, width)),
        *apart(_problems(summary)),
    ]


def _graphs(summary: RunSummary, width: int) -> list[Line]:
    if not summary.graphs:
        return [line("no compiled graph")]
    return table_lines(counted_table(summary.graphs), width)


def content_text(content: Content) -> str:
    """`entries of the FX graph cache, pickled: 2, 180 KB`"""
    weight = f", {size(content.bytes)}" if content.bytes else ""
    return f"{content.what}: {content.count:,}{weight}"


def _waste(summary: RunSummary, width: int) -> Iterator[Line]:
    if text := run_text(summary.waste):
        yield from wrapped(f"never asked for: {text} (more: inspector fusions)", width, "warn", "", "  ")


def _events(summary: RunSummary, width: int) -> list[Line]:
    facts, events = summary.facts, events_of(summary.facts)
    if facts.contents:
        return []
    if any(event.kind == "skipped_frame" for process in facts.calls for event in process.events):
        # The recorder has the function's name, too.
        events = [event for event in events if event not in facts.given_up]
    text = [line(f"graph breaks: {len(facts.graph_breaks)}   recompiles: {len(facts.recompiles)}")]
    told = told_once(events)
    for number, count in list(told.items())[:_MAX_EVENTS]:
        spans = [
            Span(f"  {span.text}", span.tone) for span in event_spans(events[number], count) if span.text
        ]
        text.append(fitted(spans, width))
    return text + more(len(told) - _MAX_EVENTS, "") + event_lines(facts, width)


def _compile_time(summary: RunSummary, width: int) -> Iterator[Line]:
    time = summary.compile_time
    if time is not None and time.total_ns:
        yield from wrapped(time_line(time).text, width, hang="  ")


def _settings(summary: RunSummary, width: int) -> Iterator[Line]:
    """How the program set torch for its calls, of the first process that called compiled code."""
    for calls in summary.facts.calls:
        called = [position for item in calls.callables for position in item.states]
        if calls.state is None or not called:
            continue
        if changes := calls.state.changes(called):
            parts = (f"{_PREFIX.sub('', name)}={_values(values)}" for name, values in changes.items())
            yield from wrapped(f"set by the program: {', '.join(parts)}", width, "dim", "", "  ")
        return


def _values(values: Sequence[Value]) -> str:
    return " and ".join("off" if value is None else str(value) for value in values)


def _differences(summary: RunSummary, width: int) -> list[Line]:
    if not summary.divergence:
        return []
    head = f"differences between ranks: {len(summary.divergence)} (more: inspector trace)"
    return [toned(head, "warn"), *divergence_lines(summary.divergence, width)]


def _problems(summary: RunSummary) -> list[Line]:
    if not summary.problems:
        return []
    where: dict[tuple[int | None, str], list[str]] = {}
    for problem in summary.problems:
        where.setdefault((problem.line, problem.message), []).append(problem.path)
    told = [
        Problem(path if not others else f"{path} and {plural(len(others), 'other')}", line, message)
        for (line, message), (path, *others) in where.items()
    ]
    shown = plain(f"  {problem}" for problem in told[:_MAX_PROBLEMS])
    head = toned(f"problems: {len(summary.problems)}", "warn")
    return [head, *shown, *more(len(told) - _MAX_PROBLEMS)]
