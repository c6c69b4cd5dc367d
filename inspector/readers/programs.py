"""The user's own source files, where they can be read: they are text here, and never run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from inspector.model.source import is_library

from .text import read_text

if TYPE_CHECKING:
    from .run import Run

_MOST_SOURCES = 20
_LARGEST_SOURCE = 1 << 20


def program_sources(run: Run) -> Iterator[tuple[str, str]]:
    """(path as the run names it, text): the script of the command first, then files that graphs name."""
    files: dict[str, Path] = {}
    for shown, path in _source_paths(run):
        if len(files) < _MOST_SOURCES:
            files.setdefault(shown, path)
    whole = {path for shown, path in files.items() if os.path.isabs(shown)}
    for shown, path in files.items():
        # The command's script has the name that graphs have for it, where they name it.
        if path in whole and not os.path.isabs(shown):
            continue
        try:
            if path.stat().st_size > _LARGEST_SOURCE:
                continue
        except (OSError, ValueError):
            continue
        text, _ = read_text(path)
        if text:
            yield shown, text


def _source_paths(run: Run) -> Iterator[tuple[str, Path]]:
    manifest = run.manifest
    if manifest is not None:
        cwd = run.root / str(manifest.options.get("cwd") or ".")
        for word in manifest.command:
            if word.endswith(".py"):
                yield word, _existing(run, Path(os.path.normpath(cwd / word)))
                break
        for position, word in enumerate(manifest.command[:-1]):
            if word == "-m":
                name = manifest.command[position + 1].replace(".", "/")
                yield f"{name}.py", _existing(run, Path(os.path.normpath(cwd / f"{name}.py")))
                break
    for graph in run.graphs:
        fx = graph.fx("transformed") or graph.fx("readable")
        places = (node.source for node in fx.nodes) if fx is not None else ()
        for path in dict.fromkeys(place.path for place in places if place is not None):
            if _users(path):
                yield path, _existing(run, Path(path))


def _users(path: str) -> bool:
    """Whether a file is the user's own Python, and not a library's."""
    return path.endswith(".py") and not is_library(path)


def _existing(run: Run, path: Path) -> Path:
    """`path`, or the file of its name inside the run where a copy was kept."""
    beside = run.root / path.name
    # os.path's never raises: a name of a run may be longer than any file's.
    return path if os.path.isfile(path) or not os.path.isfile(beside) else beside
