"""One compiled graph as data for the page: its views, and which rows of all views belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Union

from inspector.analysis.replay_history import kernel_history, peaks_used
from inspector.model.links import Ref, Related
from inspector.model.replay import GraphReplay, ReplayResult
from inspector.present.content import Content
from inspector.present.documents import Document
from inspector.present.fusion_why import miss_page, why_page
from inspector.present.highlight import highlight
from inspector.present.kernel_result import Launch, nodes_of, result_document
from inspector.present.kernels import replayed_table
from inspector.present.rows import CallRow, MissRow, NodeRow
from inspector.present.source import known_lines
from inspector.present.spans import MESSAGE_WIDTH, Line, Span
from inspector.present.tables import Table
from inspector.present.waste import call_texts
from inspector.readers.graph import CompiledGraph
from inspector.replay.protocol import TF32_NOTE
from inspector.text import clean
from inspector.views.attempt import attempt
from inspector.views.pane import Reading
from inspector.views.panes import load_parts

TITLES = {
    "source": "Your lines",
    "fx-before": "FX before post-grad passes",
    "fx-after": "FX after post-grad passes",
    "ir-before": "IR before fusion",
    "ir-after": "IR after fusion",
    "sides": "Before | after fusion",
    "lanes": "Fusion",
    "missed": "Missed fusions",
    "kernels": "Kernels",
    "code": "output_code.py",
}
"""The views of a graph on the page, in the order of the way from a program to its kernels."""

CLASSES = (
    *("", "dim", "good", "bad", "warn", "accent"),
    *("keyword", "name", "function", "string", "number", "comment", "operator"),
)
"""Tones and roles, by their numbers in the data."""
_CLASS = {name: number for number, name in enumerate(CLASSES)}

_COLOURED = 2_000
"""Characters of a line up to which it is coloured."""
_MOST_ROWS = 15_000
"""Rows of a text that are coloured and belong to what else is selected; the others are there, and plain."""
_MOST_TOLD = 400
"""Rows of a view of which all is told; a graph of thousands of nodes would fill the page with it."""

Data = dict[str, Any]
Cell = Union[str, tuple[str, int]]
"""A text, or one with its class."""


def graph_data(graph: CompiledGraph, replay: GraphReplay | None, results: Sequence[ReplayResult]) -> Data:
    """All views of a graph. Reads whatever of it was not read yet; what fails is said in its place."""
    reading = Reading(graph)
    contents = _contents(reading, replay)
    links = attempt(lambda: reading.links)
    selections = None if isinstance(links, Exception) else _Selections(reading, contents)
    told = _Told()
    views = [
        _view(name, contents[name], selections, _teller(name, reading, replay, results, told))
        for name in TITLES
        if name in contents
    ]
    code = graph.code()
    kernels = code.kernels if code is not None else ()
    return {
        "views": views,
        "selections": selections.data if selections is not None else [],
        "told": told.data,
        "kernels": {
            clean(kernel.name): [kernel.span.first, kernel.span.last]
            for kernel in kernels
            if kernel.span is not None
        },
    }


def _contents(reading: Reading, replay: GraphReplay | None) -> dict[str, Content]:
    contents = {part.view: part.content for late in (False, True) for part in load_parts(reading, late=late)}
    own: dict[str, Callable[[], Content | None]] = {
        "lanes": lambda: reading.fusion.table,
        "kernels": partial(_kernels, reading, replay),
        "source": lambda: known_lines(
            [fx for fx in map(reading.graph.fx, ("transformed", "readable")) if fx]
        ),
    }
    for name, build in own.items():
        content = attempt(build)
        if content is not None and not isinstance(content, Exception):
            contents[name] = content
    return contents


def _kernels(reading: Reading, replay: GraphReplay | None) -> Content | None:
    code, links = reading.graph.code(), reading.links
    if replay is None or code is None:
        return links.kernels
    waste = call_texts(reading.fusion.report)
    return replayed_table(code, replay, "time", links.linkage, links.places, waste)


# -- what belongs together


class _Selections:
    """Each distinct selection once, with the rows that show it in every view."""

    def __init__(self, reading: Reading, contents: dict[str, Content]) -> None:
        self.data: list[Data] = []
        self._cross, self._chains = reading.links.cross, reading.links.chains
        self._contents = {name: contents[name] for name in TITLES if name in contents}
        self._of: dict[Ref, int] = {}
        self._numbers: dict[Related, int] = {}

    def of(self, ref: Ref | None) -> int:
        """The selection's number; -1 for what touches nothing but itself."""
        if ref is None:
            return -1
        if ref not in self._of:
            self._of[ref] = self._number(self._cross.related(ref))
        return self._of[ref]

    def _number(self, related: Related) -> int:
        if not (related.sources or related.fx_before or related.fx_after or related.leaves or related.calls):
            return -1
        if related not in self._numbers:
            chain = self._chains.write(related)
            rows = {name: content.rows_of(related) for name, content in self._contents.items()}
            self._numbers[related] = len(self.data)
            self.data.append(
                {
                    "chain": chain.parts,
                    "evidence": chain.evidence,
                    "rows": {
                        name: [end for span in spans for end in span] for name, spans in rows.items() if spans
                    },
                }
            )
        return self._numbers[related]


class _Told:
    """What is told of single rows, each text once."""

    def __init__(self) -> None:
        self.data: list[list[list[Cell]]] = []
        self._numbers: dict[object, int] = {}

    def number(self, key: object, write: Callable[[], Iterable[Line]]) -> int:
        if key not in self._numbers:
            lines = attempt(lambda: list(write()))
            if isinstance(lines, Exception):
                return -1
            self._numbers[key] = len(self.data)
            self.data.append([[_cell(span) for span in line.spans] for line in lines])
        return self._numbers[key]


Teller = Callable[[object], int]


def _teller(
    name: str, reading: Reading, replay: GraphReplay | None, results: Sequence[ReplayResult], told: _Told
) -> Teller:
    """What there is to tell of a row by its key, as a number in `told`; -1 for nothing."""

    def fusion(key: object) -> int:
        partners = reading.fusion.partners
        if isinstance(key, MissRow):
            return told.number(key, lambda: miss_page(partners, key.number, MESSAGE_WIDTH).lines)
        if isinstance(key, NodeRow):
            return told.number(key, lambda: why_page(partners, key.name, MESSAGE_WIDTH).lines)
        return -1

    def launch(key: object) -> int:
        if not isinstance(key, CallRow) or replay is None:
            return -1
        return told.number(key, lambda: _result(reading, replay, results, key.number))

    if name in ("lanes", "missed"):
        return fusion
    return launch if name == "kernels" else lambda _key: -1


def _result(
    reading: Reading, replay: GraphReplay, results: Sequence[ReplayResult], call: int
) -> Iterable[Line]:
    """All about one launch as it was replayed."""
    code, links, ident = reading.graph.code(), reading.links, reading.graph.ident
    assert code is not None
    fx = next((link.fx for link in links.linkage.calls if link.call == call), ())
    waste = call_texts(reading.fusion.report).get(call, ())
    times = [item.own_ms for item in replay.kernels if item.own_ms is not None]
    document = result_document(
        Launch(code.calls[call], len(code.calls), nodes_of(fx, links.nodes), waste=tuple(waste)),
        next((item for item in replay.kernels if item.call == call), None),
        peaks_used(results, replay.device),
        kernel_history(results, ident, call),
        sum(times) or None,
        tf32=TF32_NOTE in replay.notes,
        operators=replay.operators,
    )
    return (Line(tuple(_toned(document, row))) for row in range(document.count))


def _toned(document: Document, row: int) -> Iterable[Span]:
    """A row of a document in its tones."""
    text, place = document.text(row), 0
    for start, end, tone in document.tones.get(row, ()):
        yield from [Span(text[place:start])] if start > place else []
        yield Span(text[start:end], tone)
        place = end
    yield Span(text[place:])


# -- one view


def _view(name: str, content: Content, selections: _Selections | None, tell: Teller) -> Data:
    data: Data = {"id": name, "name": TITLES[name], "title": clean(content.title), "start": content.start}
    if selections is not None:
        rows = range(min(content.count, _MOST_ROWS))
        data["refs"] = [selections.of(content.ref_at(row)) for row in rows]
    if isinstance(content, Table):
        data |= _table(content, tell)
    elif isinstance(content, Document):
        data |= _text(content)
    return data


def _table(table: Table, tell: Teller) -> Data:
    told = [tell(row.key) if number < _MOST_TOLD else -1 for number, row in enumerate(table.rows)]
    return {
        "columns": [[column.title, int(column.right)] for column in table.columns],
        "rows": [[_cell(cell) for cell in row.cells] for row in table.rows],
        "wide": [number for number, row in enumerate(table.rows) if row.wide],
        "told": told if any(number >= 0 for number in told) else [],
    }


def _cell(span: Span) -> Cell:
    return (span.text, _CLASS[span.tone]) if span.tone else span.text


def _text(document: Document) -> Data:
    return {
        "lines": list(document.lines),
        "first": document.first_number,
        "marks": _marks(document),
        "notes": {row: clean(text) for row, text in document.notes.items()},
    }


def _marks(document: Document) -> list[list[int]]:
    """Of each of the first lines its coloured stretches: start, end and class of one after the other."""
    marks: list[list[int]] = [[]] * min(len(document.lines), _MOST_ROWS)
    for region in document.regions:
        drawn = document.lines[region.first : min(region.last + 1, _MOST_ROWS)]
        lines = [line if len(line) <= _COLOURED else "" for line in drawn]
        spans = attempt(partial(highlight, lines, region.language))
        for row, own in enumerate(spans if isinstance(spans, list) else (), region.first):
            if row not in document.tones:
                marks[row] = [part for start, end, role in own for part in (start, end, _CLASS[role])]
    for row, tones in document.tones.items():
        if row >= len(marks):
            continue
        marks[row] = [part for start, end, tone in tones for part in (start, end, _CLASS[tone])]
    return marks
