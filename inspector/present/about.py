"""What there is to say of a run as a whole, as rows around its graphs: ranks, compile time, the recorder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inspector.model.compile_time import CompileTime
from inspector.model.ranks import Divergence
from inspector.model.record import ProcessRecord
from inspector.model.run import RunFacts
from inspector.present.compile_time import parts_lines, time_text
from inspector.present.content import clean
from inspector.present.run import plural
from inspector.present.tables import Cell, Row, Tone, cell

ABOUT_KEY = "about "
"""Keys of these rows start with this; the number behind it counts them."""

_SHOWN = 3
"""Differences between ranks with a row of their own; one more row tells of the rest."""


@dataclass(frozen=True, slots=True)
class Story:
    """What was gathered; `recorded` is None where nobody knows whether the recorder was asked for."""

    differences: tuple[Divergence, ...] = ()
    compile_time: CompileTime | None = None
    records: tuple[ProcessRecord, ...] = ()
    recorded: bool | None = None
    uncompared: int = 0
    """Graphs of several processes, too many to be compared unasked."""


@dataclass(frozen=True, slots=True)
class DetailLine:
    text: str
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class About:
    """One row, and all that there is behind it. `traced`: the structured trace has more. `first`: it stands
    above the graphs, as it changes what they mean; other rows stand below."""

    cells: tuple[Cell, ...]
    detail: tuple[DetailLine, ...]
    traced: bool = False
    first: bool = False


def about_run(story: Story | None, facts: RunFacts | None) -> tuple[About, ...]:
    """Differences between ranks first, then compile time with caches, then the recorder."""
    if story is None or facts is None:
        return ()
    return (
        *_uncompared(story),
        *_differences(story.differences),
        *_compile_time(story, facts),
        *_recorder(story),
    )


def about_rows(abouts: Sequence[About]) -> tuple[list[Row], list[Row]]:
    """Those above the graphs, and those below."""
    rows = [Row(f"{ABOUT_KEY}{number}", about.cells, wide=True) for number, about in enumerate(abouts)]
    return (
        [row for row, about in zip(rows, abouts, strict=True) if about.first],
        [row for row, about in zip(rows, abouts, strict=True) if not about.first],
    )


# -- ranks


def _uncompared(story: Story) -> list[About]:
    if not story.uncompared:
        return []
    text = f"{story.uncompared} graphs of several processes: not compared"
    remedy = f"{text}, as that takes reading all of them; inspector summary RUN does so"
    return [About((cell("  ≠ ranks", "dim"), cell(text, "dim")), (DetailLine(remedy),), first=True)]


def _differences(differences: Sequence[Divergence]) -> list[About]:
    shown = differences if len(differences) <= _SHOWN + 1 else differences[:_SHOWN]
    found = [
        About(
            (cell(f"  ≠ {item.kind}", "bad" if item.kind == "collective" else "warn"), cell(item.text)),
            tuple(_difference_lines(item)),
            traced=True,
            first=True,
        )
        for item in shown
    ]
    rest = differences[len(shown) :]
    if rest:
        kinds = Counter(item.kind for item in rest)
        text = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        lines = [line for item in rest for line in _difference_lines(item)]
        row = (cell(f"  ≠ {len(rest)} more", "warn"), cell(f"differences between ranks: {text}", "dim"))
        found.append(About(row, tuple(lines), traced=True, first=True))
    return found


def _difference_lines(item: Divergence) -> list[DetailLine]:
    lines = [DetailLine(clean(f"ranks differ in {item.kind}: {item.text}"), "warn")]
    lines += [DetailLine(clean(f"  {', '.join(labels)}: {value}")) for labels, value in item.groups]
    return lines


# -- compile time and caches


def _compile_time(story: Story, facts: RunFacts) -> list[About]:
    time = story.compile_time
    caches = cache_text(facts.cache_events)
    cells = []
    lines = []
    if time is not None and time.total_ns:
        head, _, parts = time_text(time).removeprefix("compile time: ").partition(": ")
        cells = [cell("  compile time", "dim"), cell(head, "accent"), cell(parts)]
        lines = [DetailLine(clean(line)) for line in parts_lines(time) if line]
    if caches:
        cells += [cell("  caches" if not cells else "· caches", "dim"), cell(caches)]
        lines += [DetailLine(clean(line)) for line in _cache_lines(facts.cache_events)]
    return [About(tuple(cells), tuple(lines), traced=True)] if cells else []


def cache_text(events: Mapping[str, int]) -> str:
    """`3 hits, 2 misses, 1 bypass` of all caches; empty where the trace tells of none."""
    totals: Counter[str] = Counter()
    for name, count in events.items():
        totals[name.rpartition("_")[2]] += count
    plurals = {"hit": "hits", "miss": "misses", "bypass": "bypasses"}
    return ", ".join(
        f"{totals[outcome]} {outcome if totals[outcome] == 1 else many}"
        for outcome, many in plurals.items()
        if totals[outcome]
    )


def _cache_lines(events: Mapping[str, int]) -> list[str]:
    """One line for each cache: `  fx_graph_cache: 2 hit, 1 miss`."""
    caches: dict[str, list[str]] = {}
    for name, count in events.items():
        cache, _, outcome = name.rpartition("_")
        caches.setdefault(cache, []).append(f"{count} {outcome}")
    return [f"  {cache}: {', '.join(texts)}" for cache, texts in caches.items()]


# -- the recorder


def _recorder(story: Story) -> list[About]:
    if not story.records:
        if story.recorded is None:
            return []
        why = "switched off (--no-record)" if story.recorded is False else "left no record"
        tone: Tone = "dim" if story.recorded is False else "warn"
        text = "fusion decisions come from torch's log, which has only part of them"
        return [About((cell("  recorder", "dim"), cell(why, tone)), (DetailLine(f"recorder {why}: {text}"),))]
    hooks = list(dict.fromkeys(name for record in story.records for name in record.hooks))
    missing = list(dict.fromkeys(name for record in story.records for name in record.missing))
    problems = [problem for record in story.records for problem in record.problems]
    graphs = sum(len(record.graphs) for record in story.records)
    unfinished = sum(not graph.finished for record in story.records for graph in record.graphs)
    cells = [
        cell("  recorder", "dim"),
        cell(f"{plural(len(hooks), 'hook')} in place, {plural(graphs, 'schedule')} recorded"),
    ]
    if missing:
        cells.append(cell(f"{len(missing)} missing: {', '.join(missing)}", "warn"))
    if problems or unfinished:
        cells.append(cell(plural(len(problems) + unfinished, "problem"), "warn"))
    lines = [
        DetailLine(
            clean(f"record of {_process(record)}: {plural(len(record.graphs), 'schedule')}, {record.path}")
        )
        for record in story.records
    ]
    if missing:
        text = f"hooks that torch {story.records[0].torch} has no place for: {', '.join(missing)}"
        lines.append(DetailLine(clean(text), "warn"))
    if unfinished:
        lines.append(DetailLine(f"{plural(unfinished, 'schedule')} on which torch failed", "warn"))
    lines += [DetailLine(clean(f"problem  {problem}"), "warn") for problem in problems]
    lines.append(DetailLine(clean(f"hooks in place: {', '.join(hooks) or 'none'}"), "dim"))
    return [About(tuple(cells), tuple(lines))]


def _process(record: ProcessRecord) -> str:
    name = f"rank {record.rank}" if record.rank is not None else "the process"
    return f"{name} (pid {record.pid})" if record.pid is not None else name
