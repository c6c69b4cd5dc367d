"""The user's program with what happened at its lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from inspector.model.logs import GraphBreak
from inspector.model.source import SourceLocation

from .documents import Document, split_lines, whole
from .run import Event


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
            what = "graph break" if isinstance(event, GraphBreak) else "recompile"
            notes.setdefault(where.line - 1, {})[f"← {what}: {event.headline}"] = None
    here = Path.cwd()
    return Document(
        str(path.relative_to(here) if path.is_relative_to(here) else path),
        lines,
        whole(lines, "python"),
        notes={row: "  ".join(texts) for row, texts in notes.items()},
        start=max(0, min(place.line, len(lines)) - 1),
    )
