"""A source read into rows, wherever that happens: here, in a process beside, on a machine of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from inspector.library.rows import RunRow
from inspector.library.run import Run
from inspector.model.problem import told
from inspector.readers.archive import remove_unpacked
from inspector.readers.locate import Located, is_archive, runs_at
from inspector.readers.run import Run as RunFiles
from inspector.text import clean

from .sources import Found, local_copy

Rows = dict[str, list[dict[str, Any]]]
"""By table."""
_LISTS = ("graphs", "kernels", "blocks", "findings", "breaks", "recompiles", "differences")
_NOTHING = {field.name: None for field in fields(RunRow)}


def read_source(source: Found) -> Rows:
    """All rows of a source. Whatever goes wrong is a row of `runs` that says so."""
    rows: Rows = {"sources": [], "runs": []}
    error = None
    runs: list[Located] = []
    try:
        with local_copy(source.path) as place:
            runs = runs_at(place)
            if not runs and not is_archive(place):
                error = "no run is here"
            for run in runs:
                _read_run(run, _named(run, place, source.path), rows)
    except Exception as problem:  # noqa: BLE001
        # A run of any version, cut anywhere: thousands of others are still to be read.
        error = clean(told(problem))
    finally:
        remove_unpacked()
    if error is not None:
        rows["runs"].append({**_NOTHING, "path": source.path, "error": error})
    rows["sources"].append({"stamp": source.stamp, "runs": len(runs), "error": error})
    for row in (row for table in rows.values() for row in table):
        row["source"] = source.path
    return rows


def _named(run: Located, place: Path, source: str) -> str:
    """The run as somebody would open it: a run in an archive behind the archive's path."""
    inside = str(Path(run.shown)).removeprefix(str(place))
    return source + inside


def _read_run(located: Located, path: str, rows: Rows) -> None:
    """The rows of one run, added when all of it was read."""
    try:
        run = Run(RunFiles(located.opened()))
        row = {**asdict(run.row), "path": path, "error": None}
        own = {name: [{**each, "run": path} for each in _flat(run, name)] for name in _LISTS}
    except Exception as problem:  # noqa: BLE001
        # The same: the run's row says what was wrong.
        rows["runs"].append({**_NOTHING, "path": path, "error": clean(told(problem))})
        return
    rows["runs"].append(row)
    for name, table in own.items():
        rows.setdefault(name, []).extend(table)


def _flat(run: Run, name: str) -> Iterator[dict[str, Any]]:
    records: Iterable[dict[str, Any]] = getattr(run, name).to_dicts()
    yield from records
