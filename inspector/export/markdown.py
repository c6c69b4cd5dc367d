"""A run as a few paragraphs of Markdown for an issue: versions, verdict, findings, how to reproduce.

Text of the run stands in code, or as words in which nothing is markup: neither HTML nor a link, an image or a
mention of somebody comes of it on a page that renders Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from inspector.present.markdown import table
from inspector.present.run import counted_table
from inspector.present.tables import Table
from inspector.readers.graph import CompiledGraph
from inspector.readers.run import Run
from inspector.text import clean, crop
from inspector.units import duration, percent, size

from .report import Card, Report

RUNNABLE = "fx_graph_runnable.py"
_INCLUDED = 12_000
"""Characters of a script that are pasted whole; a longer one is a file to attach."""
_PROOFS = 4
_LONGEST = 200
_PLAIN = re.compile(r"[\w \-.,:;()%+/='\"→·±×–]*")
_LIST = re.compile(r"^(\d*)([-+=]|(?<=\d)[.)](?=\s|$))")


def markdown(run: Run, report: Report) -> str:
    """The whole summary."""
    return "\n".join([*_head(report), *_findings(report.cards), *_call(report), *_graphs(run, report)]) + "\n"


def code(text: str) -> str:
    """`text` as code, whatever it is: fenced by more backticks than it has in a row."""
    text = crop(clean(text), _LONGEST).strip() or " "
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"


def words(text: str) -> str:
    """`text` as words where it is nothing else; what could be markup, an address or a mention is code."""
    text = clean(text)
    if not _PLAIN.fullmatch(text) or "//" in text or "www." in text.lower():
        return code(text)
    return _LIST.sub(r"\1\\\2", text.replace("_", "\\_"))


def _head(report: Report) -> Iterator[str]:
    facts, said = report.facts, report.headline
    manifest = facts.manifest
    yield f"# {words(said.said.text)}"
    yield ""
    for part in (said.times, said.how, report.compiling):
        if part:
            yield f"- {words(part)}"
    versions = [("torch", facts.torch_version)]
    if manifest is not None:
        versions += [("Triton", manifest.triton_version), ("Python", manifest.python)]
    known = [f"{name} {code(version)}" for name, version in versions if version]
    known += [code(device) for device in facts.devices]
    known += [code(manifest.platform)] if manifest is not None and manifest.platform else []
    yield f"- {', '.join(known) or 'versions are not known'}"
    yield f"- {words(report.identity.partition(' · ')[2] or report.identity)}"
    yield from (f"- {words(text)}" for text in (*report.explanation.remarks, *report.losing))


def _findings(cards: Sequence[Card]) -> Iterator[str]:
    yield from ("", "## What to change", "")
    if not cards:
        yield "No findings."
    for card in cards:
        finding = card.finding
        gain = f", {words(card.gain)}" if card.gain else ""
        yield f"{card.number}. **{words(card.title)}** ({code(finding.rule)}, {finding.severity}{gain})"
        yield f"   {words(finding.title)}"
        if finding.rule != "healthy":
            yield f"   → {words(finding.advice)}"
        if finding.change:
            yield from ("", *_fenced("diff", finding.change, "   "), "")
        yield from (f"   - {code(proof.place)} {code(proof.text)}" for proof in card.proofs[:_PROOFS])
        if len(card.proofs) > _PROOFS:
            yield f"   - {len(card.proofs) - _PROOFS} more"


def _call(report: Report) -> Iterator[str]:
    if report.ledger is None:
        return
    yield from ("", "## Where one call goes", "")
    parts = [part for _, part in report.ledger.parts]
    cells = [(words(part.name), duration(part.ms), percent(part.share), words(part.source)) for part in parts]
    yield from table(("part", "time", "share", "from"), cells)


def _graphs(run: Run, report: Report) -> Iterator[str]:
    yield from ("", "## Compiled graphs", "")
    if report.empty:
        yield from map(words, report.empty)
        return
    counted: Table = report.graphs
    used = [number for number in report.used_columns if number < len(counted_table(()).columns)]
    rows = [
        [code(row.cells[n].text) if row.cells[n].text else "" for n in used]
        for row in counted.rows
        if not row.wide
    ]
    yield from table([counted.columns[number].title or " " for number in used], rows)
    yield from ("", "## Reproduce", "")
    graph = _first(run, report)
    text = graph.text(RUNNABLE) if graph is not None else None
    if graph is None or not text:
        yield f"There is no {code(RUNNABLE)} here; a capture has one."
    elif len(text) > _INCLUDED:
        file = f"{code(graph.label(RUNNABLE))} ({size(len(text))})"
        yield f"Attach {file}: it compiles and runs that graph with torch alone."
    else:
        yield f"{code(RUNNABLE)} of {code(graph.ident)}, which compiles and runs that graph with torch alone:"
        yield from ("", "<details>", "", *_fenced("python", text.split("\n"), ""), "", "</details>")
    yield ""
    yield f"One kernel as a program of its own: {code('inspector repro RUN --kernel K -o repro.py')}"


def _first(run: Run, report: Report) -> CompiledGraph | None:
    """The graph of the first finding that has one, else that in which most time goes, else the first."""
    names = [card.finding.graph for card in report.cards] + [
        place.graph for place in report.explanation.places
    ]
    graphs = {graph.ident: graph for graph in run.graphs if RUNNABLE in graph.files}
    wanted = (graphs[name] for name in names if name in graphs)
    return next(wanted, next(iter(graphs.values()), None))


def _fenced(language: str, lines: Iterable[str], indent: str) -> Iterator[str]:
    """A block of code that nothing in it can end."""
    texts = [clean(line) for line in lines]
    longest = max((len(run) for text in texts for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from (f"{indent}{fence}{language}", *(f"{indent}{text}" for text in texts), f"{indent}{fence}")
