"""The user's program with what happened at its lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from inspector.model.fx import FxGraph
from inspector.model.links import Ref, Related
from inspector.model.logs import GraphBreak
from inspector.model.source import SourceLocation
from inspector.text import clean, file_name
from inspector.units import plural

from .content import RefIndex, Rows
from .documents import Document, Region, split_lines, whole
from .run import Event, event_spans
from .spans import Tone


def place_of(event: Event) -> SourceLocation | None:
    """Where an event happened, with the line's code where torch noted it for one of the frames."""
    place = event.location
    if place is None or not isinstance(event, GraphBreak):
        return place
    return next(
        (frame for frame in event.frames if (frame.path, frame.line) == (place.path, place.line)), place
    )


def source_document(path: Path, text: str, place: SourceLocation, events: Sequence[Event]) -> Document:
    """The file with the cursor on `place`; every event of the same file is a remark behind its line."""
    lines = split_lines(text)
    notes: dict[int, dict[str, None]] = {}
    for event in events:
        where = event.location
        if where is not None and where.path == place.path and where.line <= len(lines):
            what = event_spans(event)[0].text
            notes.setdefault(where.line - 1, {})[f"← {what}: {event.headline}"] = None
    here = Path.cwd()
    return Document(
        str(path.relative_to(here) if path.is_relative_to(here) else path),
        lines,
        whole(lines, "python"),
        notes={row: "  ".join(texts) for row, texts in notes.items()},
        start=max(0, min(place.line, len(lines)) - 1),
    )


def quoted_document(path: str, places: Iterable[SourceLocation], line: int | None) -> Document | None:
    """Of a file that is not here the lines that torch quotes, with the cursor on `line`; None where it is
    none of them."""
    codes = {place.line: place.code for place in places if place.path == path and place.code}
    if line not in codes:
        return None
    numbers = sorted(codes)
    wide = len(str(numbers[-1])) + 2
    return Document(
        f"{file_name(path)} is not on this machine: lines that torch quotes",
        tuple(clean(f"{number:>{wide}}  {codes[number]}") for number in numbers),
        (Region(0, len(numbers) - 1, "python"),),
        first_number=None,
        start=numbers.index(line),
        tones=dict.fromkeys(range(len(numbers)), ((0, wide, "dim"),)),
    )


def known_lines(graphs: Iterable[FxGraph]) -> Document | None:
    """The lines of the program that became nodes, as the graphs themselves quote them, file by file: no file
    is read for it, which would be this machine's and not the run's. None where no node has a place."""
    files: dict[str, dict[int, str]] = {}
    for graph in graphs:
        for node in graph.nodes:
            if node.source is not None:
                lines = files.setdefault(node.source.path, {})
                lines[node.source.line] = lines.get(node.source.line) or node.source.code or ""
    texts: list[str] = []
    refs: list[tuple[int, int, Ref]] = []
    regions: list[Region] = []
    tones: dict[int, tuple[tuple[int, int, Tone], ...]] = {}
    for path, lines in files.items():
        tones[len(texts)] = ((0, len(path), "accent"),)
        texts.append(path)
        wide = len(str(max(lines))) + 2
        for number, code in sorted(lines.items()):
            tones[len(texts)] = ((0, wide, "dim"),)
            refs.append((len(texts), len(texts), Ref("source", f"{path}:{number}")))
            texts.append(f"{number:>{wide}}  {code.strip()}")
        regions.append(Region(len(texts) - len(lines), len(texts) - 1, "python"))
    if not texts:
        return None
    index = RefIndex(refs)

    def find(related: Related) -> tuple[Rows, ...]:
        return index.rows_of(Ref("source", place) for place in related.sources)

    title = f"Your lines · {plural(len(refs), 'line')} that became nodes"
    lines_of_text = tuple(map(clean, texts))
    return Document(
        title, lines_of_text, tuple(regions), index, find, first_number=None, tones=tones, start=1
    )
