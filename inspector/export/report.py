"""What the page says of a run, gathered once: answer, findings, pictures, graphs. Executes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote

from inspector.analysis.replay_history import device_name, latest, peaks_used
from inspector.analysis.two_sides import work_of_graphs
from inspector.explain import explain
from inspector.frozen import dataclass
from inspector.hardware.host import this_host
from inspector.model.explain import Evidence, Explanation, Finding
from inspector.model.replay import GraphReplay, ReplayResult
from inspector.model.run import RunFacts
from inspector.present.about import About, about_run
from inspector.present.account import account_lines
from inspector.present.answer import TONES, Headline, compile_line, gain_text, headline, losing
from inspector.present.detail import event_detail, graph_detail, run_detail, why_empty
from inspector.present.explain import place_text
from inspector.present.identity import identity, run_name
from inspector.present.run import GraphEntry, events_of, run_table
from inspector.present.spans import Line
from inspector.present.tables import Table
from inspector.present.words import title, why
from inspector.readers.graph import CompiledGraph
from inspector.readers.run import Run
from inspector.replay.store import load_results
from inspector.text import clean, sentence
from inspector.views.loading import count_graph, load_story, rank_labels
from inspector.views.panes import VIEW_OF_FILE

from . import pictures

_ONE_PART = 2
"""Lines of an account with its head and one part, which the ledger has as well."""
MOST_ROWS = 1_000
_EVENTS = 100
"""Graph breaks and recompiles told in full; a damaged log may have thousands, and the table names more."""
_LINES = 100
"""Cells of lines that are written for the page; narrow screens scroll them."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A line of evidence; `link` leads to it in the page, empty where it is not there."""

    place: str
    text: str
    link: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """A finding as it is shown."""

    number: int
    finding: Finding
    title: str
    why: str
    gain: str
    tone: str
    proofs: tuple[Proof, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """All but the graphs' own texts."""

    name: str
    identity: str
    facts: RunFacts
    explanation: Explanation
    headline: Headline
    losing: Sequence[str]
    compiling: str
    cards: tuple[Card, ...]
    ledger: pictures.Ledger | None
    account: tuple[Line, ...]
    roofline: pictures.Roofline | None
    graphs: Table
    more_rows: int
    """Of the table, left out beyond a page's length; not above 0 for none."""
    empty: tuple[str, ...]
    """Why there is no graph, in sentences; empty where there is one."""
    labels: Mapping[str, str]
    """Of each graph: its name, with its rank where there are several."""
    details: tuple[tuple[Line, ...], ...]
    """Of each graph, as far as a page goes."""
    events: tuple[tuple[Line, ...], ...]
    more_events: int
    about: tuple[About, ...]
    problems: tuple[Line, ...]
    replays: Mapping[str, GraphReplay]
    results: Sequence[ReplayResult]

    @property
    def used_columns(self) -> list[int]:
        """Of the table of graphs, those columns in which something stands."""
        rows = [row.cells for row in self.graphs.rows if not row.wide]
        return [
            number
            for number, _ in enumerate(self.graphs.columns)
            if any(row[number].text.strip("·") for row in rows)
        ]


def link(graph: str, what: str = "", line: int | None = None) -> str:
    """`#graph/kernel/12`: where the page shows a line; `what` is a kernel, or one of a graph's views."""
    end = f"/{line}" if line is not None else ""
    return f"#{quote(clean(graph), safe='')}/{quote(clean(what), safe='')}{end}"


def gather_report(run: Run, say: Callable[[str], object], tell: Callable[[str], object]) -> Report:
    """Reads the whole run. `say` hears of replays that cannot be read, `tell` what is being done."""
    tell("working out where the time goes, and why")
    results = load_results(run.root, say) if run.root.is_dir() else ()
    explanation = explain(run, results, this_host())
    tell("reading logs and traces")
    facts, story = run.facts(), load_story(run)
    replays = latest(results)
    ranks = rank_labels(run)
    counts = {graph.ident: count_graph(graph, with_code=True, keep=True) for graph in run.graphs}
    work = work_of_graphs(explanation.sides.joined) if explanation.sides is not None else {}
    entries = [
        GraphEntry(graph.ident, graph.phase, graph.compile_id, not graph.files, ranks.get(graph.ident, ""))
        for graph in run.graphs
    ]
    events = events_of(facts)
    devices = [
        f"{device_name(result.machine, kind)} ({peaks.source} peaks)"
        for kind in dict.fromkeys(replay.device for replay in replays.values())
        if (peaks := peaks_used(results, kind)) is not None
        for result in results[-1:]
    ]
    table = run_table(entries, counts, replays, facts, work=work)
    account = list(account_lines(explanation.account, _LINES))
    return Report(
        name=run_name(run.shown),
        identity=identity(run_name(run.shown), len(run.graphs), facts),
        facts=facts,
        explanation=explanation,
        headline=headline(explanation),
        losing=losing(explanation),
        compiling=compile_line(explanation),
        cards=_cards(run, explanation),
        ledger=pictures.ledger(explanation),
        account=tuple(account) if len(account) > _ONE_PART else (),
        roofline=pictures.roofline(replays, devices),
        graphs=replace(table, rows=table.rows[:MOST_ROWS]),
        more_rows=len(table.rows) - MOST_ROWS,
        empty=() if run.graphs else tuple(why_empty(facts).split("\n")),
        labels={entry.ident: entry.title for entry in entries},
        details=tuple(
            tuple(
                graph_detail(
                    graph.ident,
                    run.kind,
                    graph.files,
                    graph.missing,
                    dict.fromkeys(counts[graph.ident].problems),
                    replays.get(graph.ident),
                    work.get(graph.ident),
                )
            )
            for graph in run.graphs[:MOST_ROWS]
        ),
        events=tuple(tuple(event_detail(event)) for event in events[:_EVENTS]),
        more_events=len(events) - _EVENTS,
        about=about_run(story, facts),
        problems=tuple(run_detail(facts)),
        replays=replays,
        results=results,
    )


def _cards(run: Run, explanation: Explanation) -> tuple[Card, ...]:
    places = {
        graph.label(file): (graph, view) for graph in run.graphs for file, (_, view) in VIEW_OF_FILE.items()
    }
    return tuple(
        Card(
            number,
            finding,
            title(finding),
            sentence(why(finding)),
            gain_text(finding),
            TONES[finding.severity],
            tuple(_proof(item, places) for item in finding.evidence),
        )
        for number, finding in enumerate(explanation.findings, 1)
    )


def _proof(item: Evidence, places: Mapping[str, tuple[CompiledGraph, str]]) -> Proof:
    if item.path not in places:
        return Proof(place_text(item), item.text)
    graph, view = places[item.path]
    return Proof(place_text(item), item.text, link(graph.ident, view, item.line or 1))
