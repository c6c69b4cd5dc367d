"""A structured trace as a list: compilations with their stages, what belongs to none, every kind of event."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from inspector.model.compilation import Compilation, Stage
from inspector.model.problem import Problem
from inspector.model.ranks import Divergence
from inspector.present.compile_time import bar, seconds_text
from inspector.present.content import clean
from inspector.present.documents import Document, Region, split_lines, widest
from inspector.present.run import plural
from inspector.present.tables import Column, Row, Table, Tone, cell
from inspector.present.trace_detail import detail, kinds_text
from inspector.present.trace_words import TraceView, function_text, overview, status_text

ALL = "all"
"""Key of the first row, which stands for the whole."""

_TONES: dict[str, Tone] = {"ok": "", "cache hit": "good", "failed": "bad", "skipped": "warn"}


@dataclass(frozen=True, slots=True)
class Spot:
    """What a row stands for: `view` of the list; a compilation or None; a stage or None. With neither, all
    kinds of events of that view."""

    view: int
    compilation: Compilation | None = None
    stage: Stage | None = None


def trace_rows(
    views: Sequence[TraceView], expanded: Collection[str]
) -> tuple[tuple[Row, ...], dict[str, Spot]]:
    """The rows, and what each key stands for; compilations whose key is in `expanded` show their stages."""
    rows = [
        Row(ALL, (cell("  all", "dim"), cell("where the time went, and how ranks differ", "dim")), wide=True)
    ]
    spots: dict[str, Spot] = {}
    for number, view in enumerate(views):
        rank = view.content.rank
        rank_text = str(rank) if rank is not None and len(views) > 1 else ""
        for index, item in enumerate(view.content.compilations):
            key = f"{number} {index}"
            spots[key] = Spot(number, item)
            rows.append(_compilation_row(key, rank_text, view, item, key in expanded))
            if key in expanded:
                rows += _stage_rows(key, number, item, item.stages, spots)
        key = f"{number} kinds"
        spots[key] = Spot(number)
        rows.append(_kinds_row(key, rank_text, view))
        if view.content.general:
            rows += _stage_rows(f"{number} general", number, None, view.content.general, spots)
    return tuple(rows), spots


def trace_table(rows: tuple[Row, ...], views: Sequence[TraceView]) -> Table:
    columns = (
        Column("id"),
        Column("function", shrinks=True, least=20),
        Column("status", rank=1),
        Column("time", right=True),
        Column("where it went", rank=2),
        Column("breaks", right=True, rank=4),
        Column("guards", right=True, rank=3),
        Column("stages", right=True, rank=5),
    )
    return Table(_whole(views), columns, rows)


def _whole(views: Sequence[TraceView]) -> str:
    count = sum(len(view.content.compilations) for view in views)
    total = sum(view.times.total.total_ns for view in views)
    return f"{plural(count, 'compilation')} · {seconds_text(total)} of compile time"


def _compilation_row(key: str, rank: str, view: TraceView, item: Compilation, expanded: bool) -> Row:
    time = view.times.ids.get(item.ident)
    sign = "-" if expanded else "+"
    name = f"{sign} rank {rank}  {item.ident}" if rank else f"{sign} {item.ident}"
    return Row(
        key,
        (
            cell(name, "accent"),
            cell(function_text(item)),
            cell(status_text(item), _TONES.get(item.status, "warn")),
            cell(seconds_text(time.total_ns) if time is not None else "-"),
            cell(bar(time), "dim"),
            cell(len(item.breaks) or "", "warn"),
            cell(len(item.guards)),
            cell(len(item.stages)),
        ),
    )


def _stage_rows(
    key: str, number: int, item: Compilation | None, stages: Sequence[Stage], spots: dict[str, Spot]
) -> list[Row]:
    rows = []
    for index, stage in enumerate(stages):
        spots[f"{key} {index}"] = Spot(number, item, stage)
        notes = [stage.phase] if stage.phase else []
        notes += [f"attempt {stage.attempt + 1}"] if stage.attempt else []
        cells = (
            cell(f"      {stage.label}", "" if stage.is_graph else "dim"),
            cell(f"{stage.size:,} bytes  {', '.join(notes)}".rstrip(), "dim"),
        )
        rows.append(Row(f"{key} {index}", cells, wide=True))
    return rows


def _kinds_row(key: str, rank: str, view: TraceView) -> Row:
    kinds = view.content.kinds
    unknown = [kind for kind in kinds if not kind.known]
    events = sum(kind.count for kind in kinds)
    name = f"  rank {rank}  events" if rank else "  events"
    text = f"{events:,} of {plural(len(kinds), 'kind')}"
    if unknown:
        names = ", ".join(f"{kind.name} {kind.count}x" for kind in unknown)
        text += f"; without a view here: {names}"
    return Row(key, (cell(name, "dim"), cell(text, "warn" if unknown else "dim")), wide=True)


# -- texts


def overview_document(
    title: str,
    views: Sequence[TraceView],
    differences: Sequence[Divergence],
    problems: Sequence[Problem],
    width: int,
) -> Document:
    """What `inspector trace` prints, without its last line, which tells of options."""
    text = overview(title, views, differences, problems, width)
    lines = [line for line in text.split("\n") if not line.startswith("more: ")]
    return _plain("The whole trace", "\n".join(lines).rstrip())


def spot_document(views: Sequence[TraceView], spot: Spot, text: str, width: int) -> Document:
    """Everything about a compilation, all guards included; the kinds of events; or a stage's `text`."""
    view = views[spot.view]
    if spot.stage is not None:
        lines = split_lines(_indented(text))
        language = "python" if _is_python(spot.stage) else "plain"
        regions = (Region(0, max(0, len(lines) - 1), language),)  # type: ignore[arg-type]
        return Document(clean(spot.stage.label), lines, regions, width=widest(lines))
    if spot.compilation is not None:
        item = spot.compilation
        return _plain(f"{item.ident} · {function_text(item)}", detail(view, item, width, most=None))
    return _plain("Kinds of events", kinds_text(view.content.kinds, width))


def _is_python(stage: Stage) -> bool:
    return stage.is_graph or "code" in stage.name or "repro" in stage.name


def _indented(text: str) -> str:
    """JSON in lines that can be read; anything else as it is."""
    if not text.startswith(("{", "[")):
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _plain(title: str, text: str) -> Document:
    """A report's text: without line numbers, long lines wrapped by the report, not here."""
    lines = split_lines(text)
    return Document(clean(title), lines, first_number=None, width=widest(lines))
