"""Where a line of evidence can be read: in a graph's views, in another file of the run, in the program."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from inspector.files import open_plain
from inspector.frozen import dataclass
from inspector.model.explain import Evidence
from inspector.model.source import SourceLocation
from inspector.model.two_sides import Block
from inspector.present.documents import Document, Language, split_lines, whole
from inspector.present.explain import place_text
from inspector.present.run import Event
from inspector.present.source import quoted_document, source_document
from inspector.readers.graph import CompiledGraph
from inspector.readers.run import Run
from inspector.views.panes import VIEW_OF_FILE

from .sources import find_source

_AROUND = 2_000
"""Lines of a log that are read before and after the one that matters: it may have millions."""
_LONGEST = 4_000
"""Characters of a line that are shown."""
_MOST_CHARACTERS = 256 << 20
"""Of a log that are read on the way to its line."""


@dataclass(frozen=True, slots=True)
class Destination:
    """`graph` with the (pane, view) that shows `file`, where evidence is in a graph's file; `document`, its
    cursor on the line, wherever there is a text; `remark` says what is uncertain, or why there is none."""

    headline: str
    line: int | None
    graph: CompiledGraph | None = None
    place: tuple[str, str] | None = None
    document: Document | None = None
    remark: str = ""


def places_of(block: Block) -> tuple[Evidence, ...]:
    """Where a block can be read, best first: at its first line, in its graph."""
    lines = tuple(Evidence(place.path, place.line, place.code or "") for place in block.lines[:1])
    return (*lines, *([Evidence(block.graph, None, "")] if block.graph else []))


def find_destination(run: Run, item: Evidence, events: Sequence[Event] = ()) -> Destination:
    """Reads the file that evidence is in. `events` know the code of lines, and are remarks behind them."""
    headline = place_text(item)
    inside = _in_graph(run, item)
    if inside is not None:
        graph, name = inside
        text = graph.text(name)
        document = _whole(headline, text, item.line, name) if text is not None else None
        return Destination(headline, item.line, graph, VIEW_OF_FILE.get(name), document)
    if not os.path.isabs(item.path):
        path = run.root / item.path
        if os.path.isfile(path):
            return Destination(headline, item.line, document=_window(headline, path, item.line))
        whole = next((graph for graph in run.graphs if item.path in (_label(run, graph), graph.ident)), None)
        if whole is not None:
            return Destination(headline, None, whole, ("fx", "fx-after"))
    if item.line is None and os.path.isdir(run.root / item.path):
        return Destination(headline, None, remark="a whole folder: there is no one line to go to")
    return _in_program(run, item, headline, events)


def _label(run: Run, graph: CompiledGraph) -> str:
    return run.label(graph.folder) if graph.folder is not None else graph.ident


def _in_graph(run: Run, item: Evidence) -> tuple[CompiledGraph, str] | None:
    for graph in run.graphs:
        folder = f"{_label(run, graph)}/"
        if item.path.startswith(folder) and item.path[len(folder) :] in graph.files:
            return graph, item.path[len(folder) :]
    return None


def _whole(title: str, text: str, line: int | None, name: str) -> Document:
    lines = tuple(text[:_LONGEST] for text in split_lines(text))
    return _document(title, lines, line, 1, name)


def _window(title: str, path: Path, line: int | None) -> Document | None:
    first = max(1, (line or 1) - _AROUND)
    try:
        with io.TextIOWrapper(open_plain(path), encoding="utf-8", errors="replace") as file:
            text = "".join(_some_lines(file, first - 1, 2 * _AROUND))
    except (OSError, ValueError):
        return None
    lines = tuple(text[:_LONGEST] for text in split_lines(text))
    return _document(title, lines, line, first, path.name)


def _some_lines(file: TextIO, before: int, count: int) -> Iterator[str]:
    """`count` lines after `before` others, none longer than is shown: one may be as long as the file."""
    number, left = 0, _MOST_CHARACTERS
    while number < before + count and left > 0 and (piece := file.readline(_LONGEST)):
        left -= len(piece)
        if number >= before:
            yield piece
        while piece and not piece.endswith("\n") and left > 0:
            piece = file.readline(1 << 20)
            left -= len(piece)
            if piece.endswith("\n") and number >= before:
                yield "\n"
        number += 1


def _document(title: str, lines: tuple[str, ...], line: int | None, first: int, name: str) -> Document:
    language: Language = "python" if name.endswith(".py") else "ir" if name.startswith("ir_") else "plain"
    return Document(
        title,
        lines,
        whole(lines, language),
        first_number=first,
        start=max(0, min((line or first) - first, len(lines) - 1)),
    )


def _in_program(run: Run, item: Evidence, headline: str, events: Sequence[Event]) -> Destination:
    """The user's line. A file whose path is not here is one beside the run, if the line itself agrees."""
    manifest = run.manifest
    cwd = str(manifest.options.get("cwd") or ".") if manifest is not None else "."
    path = item.path if os.path.isabs(item.path) else os.path.normpath(run.root / cwd / item.path)
    known = _known(item, events)
    tried = [*known, SourceLocation(path, item.line or 1, code=item.text)]
    source = next((text for place in tried if (text := find_source(place, run)) and text.certain), None)
    base = SourceLocation(path, item.line or 1)
    if source is None:
        source = find_source(known[0] if known else base, run)
    lines = _lines_of(item, run) if source is None else ()
    if source is None:
        source = next((text for place in lines if (text := find_source(place, run))), None)
    if source is None:
        quoted = quoted_document(item.path, (*_noted(events), *lines), item.line)
        remark = f"{item.path} is not on this machine"
        return Destination(headline, item.line, document=quoted, remark=remark)
    document = source_document(source.path, source.text, replace(base, path=item.path), events)
    if not os.path.isabs(label := run.label(source.path)):
        document = replace(document, title=label)
    remark = "" if source.certain else "this line is not what was run: the file has changed since"
    return Destination(headline, item.line, document=document, remark=remark)


def _noted(events: Sequence[Event]) -> Iterator[SourceLocation]:
    """Every place that the log names."""
    for event in events:
        yield from (place for place in (event.location, *getattr(event, "frames", ())) if place)


def _known(item: Evidence, events: Sequence[Event]) -> list[SourceLocation]:
    """The line as torch noted it, with its code or its function."""
    return [
        place
        for place in _noted(events)
        if (place.code or place.function) and (place.path, place.line) == (item.path, item.line)
    ]


def _lines_of(item: Evidence, run: Run) -> tuple[SourceLocation, ...]:
    """Lines of the same file, as graphs have noted them: a file that has one of these is the one."""
    places: dict[int, SourceLocation] = {}
    for graph in run.graphs:
        fx = graph.fx("transformed") or graph.fx("readable")
        for node in fx.nodes if fx is not None else ():
            place = node.source
            if place is not None and place.code and place.path == item.path:
                places.setdefault(place.line, place)
    return tuple(places.values())
