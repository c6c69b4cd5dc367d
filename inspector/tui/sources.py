"""Where a line of the user's program can be read: on this machine, or in what came along with the run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from inspector.frozen import dataclass
from inspector.model.source import SourceLocation
from inspector.present.run import Event
from inspector.present.source import place_of, source_document
from inspector.readers.run import Run
from inspector.readers.text import read_text

from .navigation import SourceTarget

_LARGEST = 4_000_000
"""Bytes of a source file that are read."""
_DEEPEST = 64
"""Folders of a path that are looked for."""
_LOOK_BELOW = 5
"""Lines below a function's first one, which may be a decorator, in which its name is looked for."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """A file's text. `certain`: it is the file that was run, as far as the line itself can tell."""

    path: Path
    text: str
    certain: bool


def find_source(location: SourceLocation, run: Run) -> SourceText | None:
    """The file of a place. The recorded path comes first; then files beside the run whose path ends alike,
    which count only where the line itself agrees. None where there is no such file."""
    exact = Path(location.path)
    if exact.is_absolute():
        text = _read(exact)
        if text is not None:
            return SourceText(exact, text, _agrees(text, location) is not False)
    for path in _beside(location.path, run):
        text = _read(path)
        if text is not None and _agrees(text, location):
            return SourceText(path, text, True)
    return None


def event_source(event: Event, run: Run, events: Sequence[Event]) -> SourceTarget | str:
    """The user's line of a graph break or recompile; why there is none, in half a sentence."""
    place = place_of(event)
    source = find_source(place, run) if place is not None else None
    if place is None or source is None:
        return f"{place.path} is not on this machine" if place is not None else "torch names no place"
    document = source_document(source.path, source.text, place, events)
    remark = "" if source.certain else "this line is not what torch saw: the file has changed since"
    return SourceTarget(document, f"{place.short} · {event.headline}", remark)


def _beside(path: str, run: Run) -> Iterator[Path]:
    """Longest common ending first: `sample/model.py` before `model.py`, in the run and then above it."""
    parts = [part for part in PurePosixPath(path.replace("\\", "/")).parts if part not in ("/", "..", ".")]
    shown = Path(run.shown)
    # An archive's inside is called by the archive's own path and the one in it.
    around = [folder for folder in shown.parents if not folder.is_file()][:1]
    folders = dict.fromkeys((run.root, run.root.parent, *around, Path.cwd()))
    parts = parts[-_DEEPEST:]
    for folder in folders:
        for start in range(len(parts)):
            yield folder.joinpath(*parts[start:])


def _read(path: Path) -> str | None:
    try:
        if not os.path.isfile(path) or path.stat().st_size > _LARGEST:
            return None
        return read_text(path)[0]
    except (OSError, ValueError):
        return None


def _agrees(text: str, location: SourceLocation) -> bool | None:
    """Whether the line is what torch saw, or begins the function named; None where nothing is known."""
    lines = text.split("\n")
    if not 1 <= location.line <= len(lines):
        return False
    if location.code:
        return lines[location.line - 1].strip() == location.code.strip()
    if location.function and location.function.isidentifier():
        below = lines[location.line - 1 : location.line + _LOOK_BELOW]
        if any(f"def {location.function}" in line for line in below):
            return True
    return None
