"""One run: its identity, its compiled graphs with graph breaks and recompiles between them, its verdict."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inspector.analysis.roofline import above_ms
from inspector.model.logs import GraphBreak, Recompile
from inspector.model.problem import Problem
from inspector.model.replay import GraphReplay, OutputCheck
from inspector.model.run import RunFacts
from inspector.present.content import clean
from inspector.present.kernels import duration, worst_kernel
from inspector.present.summary import kernels_text
from inspector.present.tables import Cell, Column, Row, Table, Tone, cell

EVENT_KEY = "event "
"""Keys of rows that are no graphs start with this; the number behind it counts the events."""

FINDING_KEY = "finding "
"""The same for findings."""


@dataclass(frozen=True, slots=True)
class GraphEntry:
    """What a folder's name tells; `compile_id` is filled in from the log, `empty` once it was listed.
    `rank` tells the processes of a run apart: a rank, or `pid N`; empty where there is only one."""

    ident: str
    phase: str
    compile_id: str | None = None
    empty: bool = False
    rank: str = ""

    @property
    def label(self) -> str:
        """The graph's own name where the rank stands beside it, else what is unique in the run."""
        return self.ident.rpartition("/")[2] if self.rank else self.ident


@dataclass(frozen=True, slots=True)
class Counts:
    """What was counted of a graph; `kernels` and `calls` only where output_code.py was read."""

    fx: int | None = None
    pre: int | None = None
    post: int | None = None
    kernels: Mapping[str, int] | None = None
    calls: int | None = None
    error: str = ""
    problems: tuple[Problem, ...] = ()


Event = GraphBreak | Recompile


def run_name(shown: str) -> str:
    return os.path.basename(os.path.normpath(os.path.abspath(shown))) or shown


def identity(shown: str, graphs: int, facts: RunFacts | None) -> str:
    """`softmax · torch 2.13.0+cpu · cpu · 1 graph`"""
    parts = [run_name(shown)]
    if facts is not None:
        parts.append(f"torch {facts.torch_version}" if facts.torch_version else "torch version unknown")
        parts.extend([", ".join(facts.devices)] if facts.devices else [])
    parts.append(plural(graphs, "graph"))
    if facts is not None:
        if facts.ranks > 1:
            parts.append(plural(facts.ranks, "rank"))
        if facts.graph_breaks:
            parts.append(plural(len(facts.graph_breaks), "graph break"))
        if facts.recompiles:
            parts.append(plural(len(facts.recompiles), "recompile"))
    return clean(" · ".join(parts))


def verdict(facts: RunFacts | None, replays: Mapping[str, GraphReplay], graphs: int) -> Cell:
    """The answer on the first line: how fast compiled code is beside eager, once that was measured."""
    timed = [replay for replay in replays.values() if replay.eager and replay.compiled]
    eager = sum(replay.eager.median_ms for replay in timed if replay.eager)
    compiled = sum(replay.compiled.median_ms for replay in timed if replay.compiled)
    if timed and compiled:
        speedup = eager / compiled
        scope = "" if len(timed) == graphs else f" ({len(timed)} of {plural(graphs, 'graph')})"
        return Cell(f"{speedup:.2f}x of eager{scope}", "good" if speedup >= 1 else "bad")
    manifest = facts.manifest if facts is not None else None
    if manifest is not None and manifest.status != "done":
        code = f", exit code {manifest.exit_code}" if manifest.exit_code is not None else ""
        return Cell(clean(f"capture {manifest.status}{code}"), "warn")
    return Cell("")


def run_table(
    entries: Sequence[GraphEntry],
    counts: Mapping[str, Counts],
    replays: Mapping[str, GraphReplay],
    facts: RunFacts | None,
    around: tuple[Sequence[Row], Sequence[Row]] = ((), ()),
    rank: str = "",
) -> Table:
    """Graphs with what happened between them; `around` are rows above and below. `rank` leaves out what is
    known to be another one's."""
    total = len(entries)
    entries = [entry for entry in entries if not rank or entry.rank == rank]
    rows = [graph_row(entry, counts.get(entry.ident), replays.get(entry.ident)) for entry in entries]
    events = events_of(facts)
    places = [
        (place, number)
        for number, place in enumerate(_places(events, entries))
        if not rank or events[number].rank is None or str(events[number].rank) == rank
    ]
    for place, number in sorted(places, reverse=True):
        rows.insert(place, event_row(events[number], number))
    rows = [*around[0], *rows, *around[1]]
    columns = (
        Column("rank", right=True, optional=True),
        Column("graph", shrinks=True, least=22),
        Column("phase", rank=4),
        Column("id", rank=3),
        Column("fx", right=True),
        Column("nodes", right=True),
        Column("kernels", shrinks=True),
        Column("calls", right=True, rank=2),
        Column("eager → compiled", right=True, rank=0 if replays else 6),
        Column("host gap", right=True, rank=2, optional=True),
        Column("worst kernel", shrinks=True, least=16, rank=5, optional=True),
        Column("ok", rank=0 if replays else 5),
    )
    title = f"Compiled graphs · {total}"
    if rank:
        title = f"Compiled graphs · {len(entries)} of {total} · {rank_name(rank)}"
    return Table(title, columns, tuple(rows))


def graph_row(entry: GraphEntry, counts: Counts | None, replay: GraphReplay | None) -> Row:
    if entry.empty:
        numbers = [cell("–", "dim")] * 2 + [cell("no computation", "dim"), cell("–", "dim")]
    elif counts is None:
        numbers = [cell("…", "dim"), cell("…", "dim"), cell("·", "dim"), cell("·", "dim")]
    elif counts.error:
        numbers = [cell("?", "warn"), cell("?", "warn"), cell("unreadable", "warn"), cell("·", "dim")]
    else:
        numbers = [
            cell(_count(counts.fx)),
            cell(f"{_count(counts.pre)} → {_count(counts.post)}"),
            cell(kernels_text(dict(counts.kernels))) if counts.kernels is not None else cell("·", "dim"),
            cell(counts.calls) if counts.calls is not None else cell("·", "dim"),
        ]
    return Row(
        entry.ident,
        (
            cell(entry.rank, "dim"),
            cell(entry.label, "accent"),
            cell(entry.phase, "dim"),
            cell(entry.compile_id or "", "dim"),
            *numbers,
            cell(_times(replay), "dim" if replay is None else ""),
            cell(gap_text(replay)),
            cell(worst_text(replay)),
            ok_cell(replay),
        ),
    )


def event_row(event: Event, number: int) -> Row:
    place = event.location.short if event.location else "unknown place"
    if isinstance(event, GraphBreak):
        what = "graph break"
        extra = "repeated" if event.suppressed else plural(len(event.frames), "frame") if event.frames else ""
    else:
        what = "recompile"
        extra = event.function
    if event.rank is not None:
        extra = f"{extra}, rank {event.rank}" if extra else f"rank {event.rank}"
    cells = (
        cell(f"  ⤷ {what}", "warn"),
        cell(place, "accent"),
        cell(clean(event.headline)),
        cell(f"({extra})" if extra else "", "dim"),
    )
    return Row(f"{EVENT_KEY}{number}", cells, wide=True)


def events_of(facts: RunFacts | None) -> list[Event]:
    """Graph breaks and recompiles in the order in which the log tells them."""
    return sorted((*facts.graph_breaks, *facts.recompiles), key=lambda event: event.line) if facts else []


def _places(events: Sequence[Event], entries: Sequence[GraphEntry]) -> list[int]:
    """For each event, how many graphs stand before it.

    A graph break ends the graph of its compile id, a recompile comes before the graph that it makes.
    An event without such a graph stands where the one before it does.
    """
    firsts: dict[tuple[str, str], int] = {}
    lasts: dict[tuple[str, str], int] = {}
    for position, entry in enumerate(entries):
        if entry.compile_id:
            for rank in {"", entry.rank}:
                firsts.setdefault((rank, entry.compile_id), position)
                lasts[rank, entry.compile_id] = position + 1
    ranked = any(entry.rank for entry in entries)
    places: list[int] = []
    for event in events:
        rank = str(event.rank) if ranked and event.rank is not None else ""
        found = (lasts if isinstance(event, GraphBreak) else firsts).get((rank, event.compile_id or ""))
        places.append(found if found is not None else places[-1] if places else 0)
    return places


def ok_cell(replay: GraphReplay | None) -> Cell:
    """One mark for all outputs: the worst verdict among them."""
    if replay is None:
        return Cell("·", "dim")
    if replay.failure:
        return Cell("failed", "bad")
    order = ("mismatch", "unverifiable", "eager_closer", "compiled_closer", "match")
    found = {check.verdict for check in replay.outputs}
    worst = next((item for item in order if item in found), None)
    if worst not in ("mismatch", "unverifiable") and any(k.verdict == "mismatch" for k in replay.kernels):
        # What a kernel gets wrong may cancel out, or go where no output shows it.
        return Cell("✗ kernel", "bad")
    marks: dict[str | None, tuple[str, Tone]] = {
        "mismatch": ("✗", "bad"),
        "unverifiable": ("?", "warn"),
        "eager_closer": ("≈ eager closer", "warn"),
        "compiled_closer": ("✓ closer", "good"),
        "match": ("✓", "good"),
        None: ("?", "warn"),
    }
    return Cell(*marks[worst])


def _times(replay: GraphReplay | None) -> str:
    if replay is None or replay.eager is None or replay.compiled is None:
        return "·"
    eager, compiled = replay.eager.median_ms, replay.compiled.median_ms
    unit, factor = ("us", 1000.0) if max(eager, compiled) < 1 else ("ms", 1.0)
    ratio = f"  {replay.speedup:.2f}x" if replay.speedup else ""
    return f"{eager * factor:.3g} → {compiled * factor:.3g} {unit}{ratio}"


def gap_text(replay: GraphReplay | None) -> str:
    """`14.2 us`: what the compiled call takes beyond its kernels; empty where they were not all timed.

    Kernels timed alone may take longer than together, in warm caches; there is then no gap to be seen.
    """
    gap = replay.host_gap_ms if replay is not None else None
    return "" if gap is None else duration(gap) if gap > 0 else "none"


def worst_text(replay: GraphReplay | None) -> str:
    """`triton_poi_fused_add_0 5.1 us above`: the launch to look at first."""
    worst = worst_kernel(replay.kernels) if replay is not None else None
    if worst is None:
        return ""
    if worst.verdict == "mismatch":
        return f"{worst.name} mismatch"
    above = above_ms(worst)
    if above:
        return f"{worst.name} {duration(above)} above"
    return f"{worst.name} {duration(worst.own_ms)}" if worst.own_ms is not None else worst.name


def check_text(check: OutputCheck) -> str:
    """`output 0: match  float32 [100, 100]  error 1.2e-07 (eager 1.3e-07)`"""
    errors = [f"error {check.error_compiled:.2g}"] if check.error_compiled is not None else []
    if check.error_eager is not None:
        errors.append(f"eager {check.error_eager:.2g}")
    what = f"{check.dtype} {list(check.shape)}" if check.dtype else ""
    parts = [
        f"output {check.index}: {check.verdict.replace('_', ' ')}",
        what,
        ", ".join(errors),
        check.reason,
    ]
    return clean("  ".join(part for part in parts if part))


def rank_name(rank: str) -> str:
    """`rank 1`, or `pid 25527` as it stands."""
    return f"rank {rank}" if rank.isdigit() else rank


def plural(count: int, noun: str) -> str:
    ending = "" if count == 1 else "es" if noun.endswith("ch") else "s"
    return f"{count} {noun}{ending}"


def _count(value: int | None) -> str:
    return "?" if value is None else str(value)
