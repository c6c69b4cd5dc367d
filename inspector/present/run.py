"""One run: its identity, its compiled graphs with graph breaks and recompiles between them, its verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from inspector.analysis.ending import ending
from inspector.analysis.guard_words import guard_text
from inspector.analysis.summary import KERNEL_KINDS, GraphSummary
from inspector.frozen import dataclass
from inspector.model.logs import GraphBreak, Recompile
from inspector.model.source import is_around, users_place
from inspector.units import count, from_to, plural

from .replay import OP_BY_OP, gap_text, graph_mark, times_text, worst_launch_text
from .rows import EventRow, GraphRow
from .spans import Span, compared
from .tables import Column, Row, Table

if TYPE_CHECKING:
    from inspector.model.problem import Problem
    from inspector.model.replay import GraphReplay
    from inspector.model.run import RunFacts
    from inspector.model.two_sides import GraphWork

_GRAPH_COLUMNS = (
    Column("rank", right=True, optional=True),
    Column("graph", shrinks=True, least=22),
    Column("phase", rank=4),
    Column("id", rank=3),
    Column("fx", right=True),
    Column("nodes", right=True),
    Column("kernels", shrinks=True),
    Column("calls", right=True, rank=2),
)


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

    @property
    def title(self) -> str:
        """`rank 0 · model__0_forward_1.0`; of one process the graph's name alone."""
        return f"{rank_name(self.rank)} · {self.label}" if self.rank else self.ident


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

    @classmethod
    def of(cls, graph: GraphSummary, problems: tuple[Problem, ...] = ()) -> Counts:
        pre, post = graph.scheduler_nodes_pre, graph.scheduler_nodes_post
        return cls(graph.fx_nodes, pre, post, graph.kernels, graph.kernel_calls, problems=problems)


Event = GraphBreak | Recompile


def verdict(facts: RunFacts | None, replays: Mapping[str, GraphReplay], graphs: int) -> Span:
    """The answer on the first line: how compiled graphs compare with the same run op by op, once measured."""
    timed = [(replay.eager, replay.compiled) for replay in replays.values()]
    both = [(eager.median_ms, compiled.median_ms) for eager, compiled in timed if eager and compiled]
    eager, compiled = (sum(times) for times in zip(*both, strict=True)) if both else (0.0, 0.0)
    if eager and compiled and not (facts is not None and facts.eager_ran):
        scope = "" if len(both) == graphs else f" ({len(both)} of {plural(graphs, 'graph')})"
        return compared(eager / compiled, OP_BY_OP, scope)
    how = ending(facts.manifest) if facts is not None else ""
    return Span(how, "warn") if how else Span("")


# -- graphs


def run_table(
    entries: Sequence[GraphEntry],
    counts: Mapping[str, Counts],
    replays: Mapping[str, GraphReplay],
    facts: RunFacts | None,
    around: tuple[Sequence[Row], Sequence[Row]] = ((), ()),
    rank: str = "",
    work: Mapping[str, GraphWork] | None = None,
) -> Table:
    """Graphs with what happened between them; `around` are rows above and below. `rank` leaves out what is
    known to be another one's. `work` is what profiles know of graphs that were not replayed."""
    work = work or {}
    against = facts is None or not facts.eager_ran
    total = len(entries)
    entries = [entry for entry in entries if not rank or entry.rank == rank]
    rows = [
        graph_row(entry, counts.get(entry.ident), replays.get(entry.ident), work.get(entry.ident), against)
        for entry in entries
    ]
    events = events_of(facts)
    told = told_once(events)
    places = [
        (place, number)
        for number, place in enumerate(_places(events, entries))
        if number in told and (not rank or events[number].rank is None or str(events[number].rank) == rank)
    ]
    for place, number in sorted(places, reverse=True):
        rows.insert(place, _event_row(events[number], number, told[number]))
    columns = (
        *_GRAPH_COLUMNS,
        Column(
            "eager → compiled" if work and not replays else "op by op → compiled",
            right=True,
            rank=3 if replays or work else 6,
        ),
        Column("compiled is", right=True, optional=True),
        Column("host gap", right=True, rank=2, optional=True),
        Column("worst kernel", shrinks=True, least=16, rank=5, optional=True),
        Column("ok", rank=0 if replays else 5),
    )
    title = f"Compiled graphs · {total}"
    if rank:
        title = f"Compiled graphs · {len(entries)} of {total} · {rank_name(rank)}"
    return Table(title, columns, (*around[0], *rows, *around[1]))


def counted_table(graphs: Sequence[GraphSummary]) -> Table:
    """The graphs alone, with what was counted of each; of several ranks each beside its rank."""
    rows = []
    ranked = len({graph.rank for graph in graphs} - {None}) > 1
    for graph in graphs:
        rank = str(graph.rank) if ranked and graph.rank is not None else ""
        entry = GraphEntry(graph.ident, graph.phase, graph.compile_id, not graph.artifacts, rank)
        row = graph_row(entry, Counts.of(graph), None)
        rows.append(Row(row.key, row.cells[: len(_GRAPH_COLUMNS)]))
    return Table("Compiled graphs", _GRAPH_COLUMNS, tuple(rows))


def graph_row(
    entry: GraphEntry,
    counts: Counts | None,
    replay: GraphReplay | None,
    work: GraphWork | None = None,
    against: bool = True,
) -> Row:
    """`against` compares the replay with the graph run op by op: not where eager itself was timed, which that
    is not."""
    if entry.empty:
        numbers = [Span("–", "dim")] * 2 + [Span("no files", "dim"), Span("–", "dim")]
    elif counts is None:
        numbers = [Span("…", "dim")] * 2 + [Span("·", "dim")] * 2
    elif counts.error:
        numbers = [Span("?", "warn")] * 2 + [Span("unreadable", "warn"), Span("·", "dim")]
    else:
        numbers = [
            Span(count(counts.fx)),
            Span(f"{count(counts.pre)} → {count(counts.post)}"),
            Span(kernels_text(counts.kernels)) if counts.kernels is not None else Span("·", "dim"),
            Span(count(counts.calls)) if counts.calls is not None else Span("·", "dim"),
        ]
    times = times_text(replay)
    if work is not None and (replay is None or replay.eager is None or replay.compiled is None):
        times = work_text(work)
    return Row(
        GraphRow(entry.ident),
        (
            Span(entry.rank, "dim"),
            Span(entry.label, "accent"),
            Span(entry.phase, "dim"),
            Span(entry.compile_id or "", "dim"),
            *numbers,
            Span(times, "dim" if replay is None and work is None else ""),
            compared(replay.speedup) if against and replay is not None and replay.speedup else Span(""),
            Span(gap_text(replay)),
            Span(worst_launch_text(replay)),
            graph_mark(replay),
        ),
    )


def work_text(work: GraphWork) -> str:
    """`eager 1.49 → 5.48 ms`: as profiled; a side that is not known is `?`."""
    return f"eager {from_to(work.eager_ms, work.compiled_ms)}"


def kernels_text(kernels: Mapping[str, int]) -> str:
    """`3 triton + 2 extern`; kinds that do not occur are left out."""
    return " + ".join(f"{kernels[kind]} {kind}" for kind in KERNEL_KINDS if kernels[kind]) or "none"


def rank_name(rank: str) -> str:
    """`rank 1`, or `pid 25527` as it stands."""
    return f"rank {rank}" if rank.isdigit() else rank


# -- graph breaks and recompiles


def events_of(facts: RunFacts | None) -> list[Event]:
    """Graph breaks, frames that were given up and recompiles in the order in which the log tells them."""
    if facts is None:
        return []
    return sorted((*facts.graph_breaks, *facts.given_up, *facts.recompiles), key=lambda event: event.line)


def told_once(events: Sequence[Event]) -> dict[int, int]:
    """The position of the first of those that say the same -> how many do: a break that torch meets again
    with each function that is compiled again is one line."""
    firsts: dict[tuple[str, ...], int] = {}
    counts: dict[int, int] = {}
    for number, event in enumerate(events):
        what, place, why, _ = event_spans(event)
        rank = str(event.rank)
        function = event.function if isinstance(event, Recompile) else ""
        first = firsts.setdefault((what.text, place.text, why.text, function, rank), number)
        counts[first] = counts.get(first, 0) + 1
    return counts


def event_spans(event: Event, count: int = 1) -> tuple[Span, ...]:
    """What happened, where, why, in how many frames or to which function, and how often."""
    location = users_place(event.location, event.frames)
    theirs = event.location.short if event.location and location != event.location else ""
    place = location.short if location else "unknown place"
    if isinstance(event, GraphBreak):
        what = "runs in eager" if event.gave_up else "graph break"
        extra = "repeated" if event.suppressed else plural(len(event.frames), "frame") if event.frames else ""
        # The user's line comes first, and then the library's that it led to.
        extra = f"in {theirs}, {extra}" if theirs else extra
    else:
        what = "recompile"
        extra = f"{event.name} in {theirs}" if theirs and not is_around(event.location) else event.name
    rank = f"rank {event.rank}" if event.rank is not None else ""
    extra = ", ".join(filter(None, (extra, f"{count} times" if count > 1 else "", rank)))
    return (
        Span(what, "warn"),
        Span(place, "accent"),
        Span(guard_text(event.headline) if isinstance(event, Recompile) else event.headline),
        Span(f"({extra})" if extra else "", "dim"),
    )


def _event_row(event: Event, number: int, count: int) -> Row:
    what, *rest = event_spans(event, count)
    return Row(EventRow(number), (Span(f"  ⤷ {what.text}", what.tone), *rest), wide=True)


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
        known = lasts if isinstance(event, GraphBreak) else firsts
        place = known.get((rank, event.compile_id or ""))
        places.append(place if place is not None else places[-1] if places else 0)
    return places
