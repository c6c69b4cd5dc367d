"""A structured trace: all compilations with where their time went, as lines and as a list to be browsed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from inspector.frozen import dataclass
from inspector.gather import ProcessTrace, TraceReport
from inspector.model.compilation import Compilation, EventKind, Stage
from inspector.model.source import function_name, users_place
from inspector.text import elide, headline
from inspector.units import count, plural

from .compile_time import LEGEND, bar, divergence_lines, ns_text, parts_lines
from .rows import TraceRow
from .run import Event, event_spans
from .spans import Line, Span, Tone, apart, line, more, plain, toned
from .tables import Column, Row, Table, table_lines

ALL = "all"
"""Key of the first row, which stands for the whole."""

_MAX_LINES = 12
_TONES: dict[str, Tone] = {"ok": "", "cache hit": "good", "failed": "bad", "skipped": "warn"}
_COLUMNS = (
    Column("id"),
    Column("function", shrinks=True, least=20),
    Column("status", rank=1),
    Column("time", right=True),
    Column("where it went", rank=2),
    Column("breaks", right=True, rank=4),
    Column("guards", right=True, rank=3),
    Column("stages", right=True, rank=5),
)


@dataclass(frozen=True, slots=True)
class Spot:
    """What a row stands for: `trace` of the report; a compilation or None; a stage or None. With neither, all
    kinds of events of that trace."""

    trace: int
    compilation: Compilation | None = None
    stage: Stage | None = None


# -- one compilation, as lists and pages both have it


def function_text(item: Compilation, *, whole: bool = True) -> str:
    """Name and the user's line; with `whole` a library's own place, too, where the function is one's."""
    if item.function is None:
        return "?"
    function = item.function.function or "?"
    text = function_name(function, item.function)
    users = users_place(item.function, item.stack)
    if users is None or users == item.function:
        return f"{text} {item.function.short}"
    return f"{text} {users.short}" + (f" ({item.function.short})" if whole else "")


def status_text(item: Compilation) -> str:
    return item.status + (f", restarted {item.restarts}" if item.restarts else "")


def event_lines(item: Compilation) -> Iterator[Line]:
    """What a person must see below the compilation's line."""
    for failure in item.failures:
        yield toned(f"{failure.kind}: {headline(failure.text)}", "bad")
    again = (replace(event, frames=item.stack) for event in item.recompiles)
    events: tuple[Event, ...] = (*item.breaks, *again)
    for event in events:
        first, *rest = (span for span in event_spans(event) if span.text)
        yield line(first, *(Span(f"  {span.text}", span.tone) for span in rest))
    if item.metrics is not None and item.metrics.cudagraph_skip_reason:
        yield toned(f"no CUDA graph: {headline(item.metrics.cudagraph_skip_reason)}", "warn")


def stage_notes(stage: Stage) -> str:
    notes = [stage.phase] if stage.phase else []
    return ", ".join([*notes, f"attempt {stage.attempt + 1}"] if stage.attempt else notes)


def _compilation_cells(trace: ProcessTrace, item: Compilation, name: str) -> tuple[Span, ...]:
    time = trace.times.ids.get(item.ident)
    return (
        Span(name, "accent"),
        Span(function_text(item, whole=False)),
        Span(status_text(item), _TONES.get(item.status, "warn")),
        Span(ns_text(time.total_ns) if time is not None else "-"),
        Span(bar(time), "dim"),
        Span(sum(not broken.gave_up for broken in item.breaks) or "", "warn"),
        Span(count(len(item.guards))),
        Span(len(item.stages)),
    )


def whole_text(report: TraceReport) -> str:
    """`3 compilations in 8.31 s of compile time`"""
    number = sum(len(trace.content.compilations) for trace in report.traces)
    return f"{plural(number, 'compilation')} in {ns_text(report.total.total_ns)} of compile time"


# -- the report


def lines(report: TraceReport, width: int) -> list[Line]:
    """All compilations of all ranks, one row each, with what went wrong below it."""
    text = [line(Span(report.root, "accent"), f" · {whole_text(report)}")]
    for trace in report.traces:
        text.append(Line())
        if len(report.traces) > 1:
            rank = trace.content.rank
            name = f"rank {rank}" if rank is not None else trace.content.path
            text.append(line(Span(name, "accent"), f" · {ns_text(trace.times.total.total_ns)}"))
        text += _compilation_lines(trace, width)
        text += apart(parts_lines(trace.times.total))
    if report.differences:
        head = toned(f"differences between ranks: {len(report.differences)}", "warn")
        text += [Line(), head, *divergence_lines(report.differences, width)]
    unknown = [kind for trace in report.traces for kind in trace.content.kinds if not kind.known]
    if unknown:
        text += [Line(), line("kinds of events that have no view here (--show prints their text):")]
        text += plain(elide(f"  {kind.count:5}  {kind.name}: {kind.example}", width) for kind in unknown)
    if report.problems:
        text += [Line(), toned(f"problems: {len(report.problems)}", "warn")]
        text += plain(f"  {problem}" for problem in report.problems[:_MAX_LINES])
        text += more(len(report.problems) - _MAX_LINES)
    return text


def _compilation_lines(trace: ProcessTrace, width: int) -> list[Line]:
    items = trace.content.compilations
    if not items:
        return [line("torch.compile compiled nothing while this trace was written")]
    rows: list[Row] = []
    for item in items:
        rows.append(Row(str(len(rows)), _compilation_cells(trace, item, item.ident)))
        for event in event_lines(item):
            cell = Span(f"      {elide(event.text, width - 6)}", event.spans[0].tone)
            rows.append(Row(str(len(rows)), (cell,), wide=True))
    used = set("".join(bar(trace.times.ids.get(item.ident)) for item in items))
    legend = "  ".join(f"{letter} {name}" for letter, name in LEGEND if letter in used)
    text = table_lines(Table("", _COLUMNS, tuple(rows)), width)
    return [*text, toned(f"  {legend}", "dim")] if used else text


def kinds_lines(kinds: Sequence[EventKind], width: int) -> list[Line]:
    """Every kind of event of a trace, those without a view first."""
    columns = (
        Column("kind", shrinks=True, least=20),
        Column("events", right=True),
        Column("view"),
        Column("line", right=True),
        Column("example", shrinks=True, least=12),
    )
    rows = []
    for kind in kinds:
        view = Span("yes") if kind.known else Span("no", "warn")
        example = Span(" ".join(kind.example.split()), "dim")
        rows.append(Row(kind.name, (Span(kind.name), Span(kind.count), view, Span(kind.line), example)))
    return table_lines(Table("", columns, tuple(rows)), width)


# -- the list


def trace_table(report: TraceReport, expanded: Collection[str]) -> tuple[Table, dict[str, Spot]]:
    """The list, and what each of its keys stands for; compilations whose key is in `expanded` show their
    stages."""
    cells = (Span("  all", "dim"), Span("where the time went, and how ranks differ", "dim"))
    rows = [Row(TraceRow(ALL), cells, wide=True)]
    spots: dict[str, Spot] = {}
    for number, trace in enumerate(report.traces):
        rank = trace.content.rank
        who = f"rank {rank}  " if rank is not None and len(report.traces) > 1 else ""
        for index, item in enumerate(trace.content.compilations):
            key = f"{number} {index}"
            spots[key] = Spot(number, item)
            name = f"{'-' if key in expanded else '+'} {who}{item.ident}"
            rows.append(Row(TraceRow(key), _compilation_cells(trace, item, name)))
            if key in expanded:
                rows += _stage_rows(key, Spot(number, item), item.stages, spots)
        key = f"{number} kinds"
        spots[key] = Spot(number)
        rows.append(_kinds_row(key, who, trace.content.kinds))
        rows += _stage_rows(f"{number} general", Spot(number), trace.content.general, spots)
    return Table(whole_text(report), _COLUMNS, tuple(rows)), spots


def _stage_rows(key: str, owner: Spot, stages: Sequence[Stage], spots: dict[str, Spot]) -> Iterator[Row]:
    for index, stage in enumerate(stages):
        spots[f"{key} {index}"] = Spot(owner.trace, owner.compilation, stage)
        cells = (
            Span(f"      {stage.label}", "" if stage.is_graph else "dim"),
            Span(f"{stage.size:,} bytes  {stage_notes(stage)}".rstrip(), "dim"),
        )
        yield Row(TraceRow(f"{key} {index}"), cells, wide=True)


def _kinds_row(key: str, who: str, kinds: Sequence[EventKind]) -> Row:
    unknown = [f"{kind.name} {kind.count}x" for kind in kinds if not kind.known]
    text = f"{sum(kind.count for kind in kinds):,} of {plural(len(kinds), 'kind')}"
    if unknown:
        text += f"; without a view here: {', '.join(unknown)}"
    return Row(
        TraceRow(key), (Span(f"  {who}events", "dim"), Span(text, "warn" if unknown else "dim")), wide=True
    )
