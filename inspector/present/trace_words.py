"""`inspector trace` as text: all compilations, where their time went, how the ranks differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inspector.model.compilation import Compilation, TraceContent
from inspector.model.compile_time import CompileTimes
from inspector.model.problem import Problem
from inspector.model.ranks import Divergence
from inspector.present.compile_time import LEGEND, bar, divergence_lines, more_line, parts_lines, seconds_text
from inspector.present.summary import break_text, recompile_text
from inspector.present.text import Column, elide, render_table

_MAX_LINES = 12


@dataclass(frozen=True, slots=True)
class TraceView:
    """One trace as it is shown: what it says, and where its time went."""

    content: TraceContent
    times: CompileTimes


def overview(
    title: str,
    views: Sequence[TraceView],
    differences: Sequence[Divergence],
    problems: Sequence[Problem],
    width: int = 100,
) -> str:
    """All compilations of all ranks, one line each, with what went wrong below it."""
    total = sum(view.times.total.total_ns for view in views)
    count = sum(len(view.content.compilations) for view in views)
    lines = [f"{title} · {_plural(count, 'compilation')} in {seconds_text(total)} of compile time"]
    for view in views:
        lines.append("")
        if len(views) > 1:
            rank = view.content.rank
            name = f"rank {rank}" if rank is not None else view.content.path
            lines.append(f"{name} · {seconds_text(view.times.total.total_ns)}")
        lines += _compilations(view, width)
        lines += parts_lines(view.times.total)
    if differences:
        lines += ["", f"differences between ranks: {len(differences)}"]
        lines += divergence_lines(differences, width)
    unknown = [kind for view in views for kind in view.content.kinds if not kind.known]
    if unknown:
        lines += ["", "kinds of events that have no view here (--show prints their text):"]
        lines += [elide(f"  {kind.count:5}  {kind.name}: {kind.example}", width) for kind in unknown]
    if problems:
        lines += ["", f"problems: {len(problems)}", *(f"  {problem}" for problem in problems[:_MAX_LINES])]
        lines += more_line(len(problems))
    if count:
        lines += ["", "more: --compile-id ID, and with it --show STAGE; --kinds; --json"]
    return "\n".join(lines) + "\n"


def _compilations(view: TraceView, width: int) -> list[str]:
    if not view.content.compilations:
        return ["nothing was compiled while this trace was written"]
    columns = [
        Column("id"), Column("function"), Column("status"), Column("time", right=True),
        Column("where the time went"), Column("breaks", right=True), Column("guards", right=True),
        Column("graphs", right=True),
    ]  # fmt: skip
    rows = []
    for item in view.content.compilations:
        time = view.times.ids.get(item.ident)
        rows.append(
            (
                item.ident,
                function_text(item),
                status_text(item),
                seconds_text(time.total_ns) if time is not None else "-",
                bar(time),
                str(len(item.breaks) or ""),
                str(len(item.guards)),
                str(sum(stage.is_graph for stage in item.stages)),
            )
        )
    table = render_table(columns, rows, width)
    lines = [table[0]]
    for item, row in zip(view.content.compilations, table[1:], strict=True):
        lines.append(row)
        lines += [f"      {elide(text, width - 6)}" for text in event_lines(item)]
    used = {letter for row in rows for letter in row[4]}
    if used:
        lines.append("  " + "  ".join(f"{letter} {name}" for letter, name in LEGEND if letter in used))
    return lines


def function_text(item: Compilation) -> str:
    if item.function is None:
        return "?"
    return f"{item.function.function or '?'} {item.function.short}"


def status_text(item: Compilation) -> str:
    return item.status + (f", restarted {item.restarts}" if item.restarts else "")


def event_lines(item: Compilation) -> list[str]:
    """What a person must see below the compilation's line."""
    lines = [f"{failure.kind}: {headline(failure.text)}" for failure in item.failures]
    lines += [break_text(event) for event in item.breaks]
    lines += [recompile_text(event) for event in item.recompiles]
    if item.metrics is not None and item.metrics.cudagraph_skip_reason:
        lines.append(f"no CUDA graph: {headline(item.metrics.cudagraph_skip_reason)}")
    return lines


def headline(text: str) -> str:
    """The first line that says something."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
