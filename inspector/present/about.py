"""What there is to say of a run as a whole, as rows around its graphs: ranks, compile time, the recorder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from inspector.frozen import dataclass
from inspector.model.compile_time import CompileTime
from inspector.model.ranks import Divergence
from inspector.model.record import ProcessRecord
from inspector.model.run import RunFacts

from .compile_time import parts_lines, time_spans
from .record import recorder_lines, recorder_spans
from .rows import AboutRow
from .spans import Line, Span, Tone, plain, toned
from .tables import Row

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
class About:
    """One row, and all that there is behind it. `traced`: the structured trace has more. `first`: it stands
    above the graphs, as it changes what they mean; other rows stand below."""

    cells: tuple[Span, ...]
    detail: tuple[Line, ...]
    traced: bool = False
    first: bool = False


def about_run(story: Story | None, facts: RunFacts | None) -> tuple[About, ...]:
    """Differences between ranks first, then compile time with caches, then the recorder."""
    if story is None or facts is None:
        return ()
    return (
        *_uncompared(story),
        *_differences(story.differences),
        *_compile_time(story.compile_time, facts.cache_events),
        *_recorder(story),
    )


def about_rows(abouts: Sequence[About]) -> tuple[list[Row], list[Row]]:
    """Those above the graphs, and those below."""
    rows = [Row(AboutRow(number), about.cells, wide=True) for number, about in enumerate(abouts)]
    return (
        [row for row, about in zip(rows, abouts, strict=True) if about.first],
        [row for row, about in zip(rows, abouts, strict=True) if not about.first],
    )


def _uncompared(story: Story) -> list[About]:
    if not story.uncompared:
        return []
    text = f"{story.uncompared} graphs of several processes: not compared"
    remedy = f"{text}, as that takes reading all of them; inspector summary RUN does so"
    return [About((Span("  ≠ ranks", "dim"), Span(text, "dim")), (toned(remedy),), first=True)]


def _differences(differences: Sequence[Divergence]) -> list[About]:
    shown = differences if len(differences) <= _SHOWN + 1 else differences[:_SHOWN]
    abouts = []
    for item in shown:
        tone: Tone = "bad" if item.kind == "collective" else "warn"
        cells = (Span(f"  ≠ {item.kind}", tone), Span(item.text))
        abouts.append(About(cells, tuple(_difference_lines(item)), traced=True, first=True))
    if rest := differences[len(shown) :]:
        kinds = Counter(item.kind for item in rest)
        text = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        lines = tuple(line for item in rest for line in _difference_lines(item))
        cells = (Span(f"  ≠ {len(rest)} more", "warn"), Span(f"differences between ranks: {text}", "dim"))
        abouts.append(About(cells, lines, traced=True, first=True))
    return abouts


def _difference_lines(item: Divergence) -> list[Line]:
    groups = (f"  {', '.join(labels)}: {value}" for labels, value in item.groups)
    return [toned(f"ranks differ in {item.kind}: {item.text}", "warn"), *plain(groups)]


def _compile_time(time: CompileTime | None, events: Mapping[str, int]) -> list[About]:
    cells: tuple[Span, ...] = ()
    lines: list[Line] = []
    if time is not None and time.total_ns:
        cells = (Span("  compile time", "dim"), *time_spans(time))
        lines = list(parts_lines(time))
    if caches := cache_text(events):
        cells += (Span("  caches" if not cells else "· caches", "dim"), Span(caches))
        lines += _cache_lines(events)
    return [About(cells, tuple(lines), traced=True)] if cells else []


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


def _cache_lines(events: Mapping[str, int]) -> list[Line]:
    """One line for each cache: `  fx_graph_cache: 2 hit, 1 miss`."""
    caches: dict[str, list[str]] = {}
    for name, count in events.items():
        cache, _, outcome = name.rpartition("_")
        caches.setdefault(cache, []).append(f"{count} {outcome}")
    return plain(f"  {cache}: {', '.join(texts)}" for cache, texts in caches.items())


def _recorder(story: Story) -> list[About]:
    if story.records:
        return [About(recorder_spans(story.records), tuple(recorder_lines(story.records)))]
    if story.recorded is None:
        return []
    why = "switched off (--no-record)" if story.recorded is False else "left no record"
    tone: Tone = "dim" if story.recorded is False else "warn"
    text = f"recorder {why}: fusion decisions come from torch's log, which has only part of them"
    return [About((Span("  recorder", "dim"), Span(why, tone)), (toned(text),))]
