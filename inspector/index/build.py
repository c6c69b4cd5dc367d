"""Reads runs into an index: what is new or has changed, in parallel, kept part by part as it is read.

A part is written beside its place and renamed into it: what is in the index is whole, and a build that was
killed goes on where it was. One build at a time writes an index.
"""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from inspector.frozen import dataclass
from inspector.model.problem import InspectorError

from .reading import Rows, read_source
from .sources import Found, sources_below
from .tables import TABLES, columns

_PART_SOURCES = 250
_PART_S = 20.0
_MOST_PARTS = 24
"""More are made one: a query reads a file of each."""
_AHEAD = 4
"""Sources that are handed out for each process: a crash of one loses no more."""


@dataclass(frozen=True, slots=True)
class Built:
    """How a build went: sources that were there as they are, that were read, and of these the bad ones."""

    known: int
    read: int
    bad: int
    seconds: float


def build(
    folders: Sequence[str],
    index: Path,
    jobs: int,
    dask: str | None = None,
    tell: Callable[[str], object] = lambda _text: None,
) -> Built:
    """Bring `index` up to date with the runs below `folders`; rows of what is no longer there stay.

    `jobs` processes read, 1 is this one; `dask` is the address of a scheduler whose workers do. Raises
    InspectorError where a folder isn't there, the index cannot be written, or a package is missing.
    """
    started = time.monotonic()
    arrow()
    with _locked(index):
        _remove_rests(index)
        known = _stamps(index)
        every = {source.path: source for folder in folders for source in sources_below(folder)}
        wanted = [source for source in every.values() if known.get(source.path) != source.stamp]
        read = bad = 0
        waiting: list[Rows] = []
        since = time.monotonic()
        for rows in _results(wanted, jobs, dask):
            read, bad = read + 1, bad + any(row["error"] for row in rows["runs"])
            waiting.append(rows)
            tell(f"{read:,} of {len(wanted):,} read")
            if len(waiting) >= _PART_SOURCES or time.monotonic() - since > _PART_S:
                _write_part(index, waiting)
                waiting, since = [], time.monotonic()
        _write_part(index, waiting)
        if len(parts_of(index)) > _MOST_PARTS:
            tell("making one part of many")
            _compact(index)
    return Built(len(every) - len(wanted), read, bad, time.monotonic() - started)


def arrow() -> Any:  # noqa: ANN401
    """pyarrow with its Parquet; InspectorError where it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InspectorError("an index needs pyarrow: pip install 'inductor-inspector[index]'") from None
    return pyarrow


def parts_of(index: Path) -> list[Path]:
    """The parts that are whole, oldest first."""
    return sorted(index.glob("part-*"))


# -- reading


def _results(sources: Sequence[Found], jobs: int, dask: str | None) -> Iterator[Rows]:
    """The rows of each source, in the order in which they are read."""
    if dask is not None:
        yield from _from_cluster(sources, dask)
    elif jobs <= 1 or len(sources) < 2:
        yield from map(read_source, sources)
    else:
        yield from _from_processes(sources, jobs)


def _from_processes(sources: Sequence[Found], jobs: int) -> Iterator[Rows]:
    """A process that dies takes those down that were handed out: these are read again one by one, and the one
    with which it dies once more is a bad row."""
    left = iter(sources)
    suspects: list[Found] = []
    while True:
        running: dict[Future[Rows], Found] = {}
        try:
            with _pool(jobs) as pool:
                while True:
                    for source in left:
                        running[pool.submit(read_source, source)] = source
                        if len(running) >= jobs * _AHEAD:
                            break
                    if not running:
                        break
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        rows = future.result()
                        del running[future]
                        yield rows
        except BrokenExecutor:
            suspects += running.values()
            continue
        break
    for source in suspects:
        try:
            with _pool(1) as pool:
                yield pool.submit(read_source, source).result()
        except BrokenExecutor:
            yield _died(source)


def _pool(jobs: int) -> ProcessPoolExecutor:
    # Forking a process with threads of pyarrow's would not end well.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, context, initializer=_end_with, initargs=(os.getpid(),))


def _end_with(parent: int) -> None:
    """A worker whose parent was killed would wait for work for ever."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _died(source: Found) -> Rows:
    error = "the process that read it died, perhaps for lack of memory"
    named = {"source": source.path, "error": error}
    nothing = dict.fromkeys((name for name, _ in columns("runs")), None)
    return {
        "sources": [{**named, "stamp": source.stamp, "runs": 0}],
        "runs": [{**nothing, **named, "path": source.path}],
    }


def _from_cluster(sources: Sequence[Found], address: str) -> Iterator[Rows]:
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise InspectorError("--dask needs distributed: pip install 'inductor-inspector[cluster]'") from None
    try:
        client = Client(address, timeout=30)
    except OSError as error:
        raise InspectorError(f"{address}: no scheduler answers: {error}") from None
    with client:
        futures = dict(zip(client.map(read_source, sources, pure=False, retries=1), sources, strict=True))
        for future in as_completed(futures):
            yield future.result() if future.status == "finished" else _died(futures[future])
            future.release()


# -- parts


@contextmanager
def _locked(index: Path) -> Iterator[None]:
    """For one build at a time, also against one that was killed: the lock goes with its process. One that
    wrote nothing leaves nothing."""
    new = not index.exists()
    try:
        index.mkdir(parents=True, exist_ok=True)
        if any(index.iterdir()) and not (index / "lock").exists():
            raise InspectorError(f"{index}: is no index and not empty: choose another folder with -o")
        handle = (index / "lock").open("w")
    except OSError as error:
        raise InspectorError(f"{index}: cannot be written: {error.strerror}") from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InspectorError(f"{index}: another build writes it; wait until it has ended") from None
        try:
            yield
        except BaseException:
            if new and {path.name for path in index.iterdir()} == {"lock"}:
                shutil.rmtree(index, ignore_errors=True)
            raise


def _remove_rests(index: Path) -> None:
    """What a build left that was killed while it wrote."""
    for rest in index.glob("new-*"):
        shutil.rmtree(rest, ignore_errors=True)


def _stamps(index: Path) -> dict[str, str]:
    """By source its stamp in the latest part that has it."""
    parquet = arrow().parquet
    stamps: dict[str, str] = {}
    for part in parts_of(index):
        table = parquet.read_table(part / "sources.parquet", columns=["source", "stamp"])
        stamps.update(zip(*(table[name].to_pylist() for name in ("source", "stamp")), strict=True))
    return stamps


def _next_part(index: Path) -> int:
    return max((int(part.name.partition("-")[2]) for part in parts_of(index)), default=0) + 1


def _write_part(index: Path, results: Iterable[Rows]) -> None:
    """One part of the rows, whole or not at all; none where there is nothing."""
    pyarrow, number = arrow(), _next_part(index)
    merged: Rows = {name: [] for name in TABLES}
    for rows in results:
        for name, table in rows.items():
            merged[name] += [{**row, "part": number} for row in table]
    tables = {
        name: pyarrow.Table.from_pylist(table, _schema(name)) for name, table in merged.items() if table
    }
    if tables:
        _put(index, number, tables)


def _put(index: Path, number: int, tables: dict[str, Any]) -> None:
    beside = index / f"new-{number:08}"
    try:
        beside.mkdir()
        for name, table in tables.items():
            arrow().parquet.write_table(table, beside / f"{name}.parquet", compression="zstd")
        beside.rename(index / f"part-{number:08}")
    except OSError as error:
        shutil.rmtree(beside, ignore_errors=True)
        raise InspectorError(f"{index}: cannot be written: {error.strerror or error}") from None


def _schema(table: str) -> Any:  # noqa: ANN401
    pyarrow = arrow()
    kinds = {
        "string": pyarrow.string(),
        "int64": pyarrow.int64(),
        "double": pyarrow.float64(),
        "bool": pyarrow.bool_(),
        "texts": pyarrow.list_(pyarrow.string()),
    }
    return pyarrow.schema([(name, kinds[kind]) for name, kind in columns(table)])


def _compact(index: Path) -> None:
    """All parts as one, with what counts of each. Where this is killed before the older ones are gone, the
    newer one's rows count."""
    pyarrow, parts, number = arrow(), parts_of(index), _next_part(index)
    latest: dict[str, int] = {}
    for part in parts:
        latest.update(_pairs(pyarrow.parquet.read_table(part / "sources.parquet")))
    tables = {}
    for name in TABLES:
        kept = []
        for part in parts:
            if (file := part / f"{name}.parquet").exists():
                table = pyarrow.parquet.read_table(file)
                kept.append(table.filter(pyarrow.array([latest[key] == own for key, own in _pairs(table)])))
        if kept:
            whole = pyarrow.concat_tables(kept)
            column = pyarrow.array([number] * len(whole), pyarrow.int64())
            tables[name] = whole.set_column(whole.schema.names.index("part"), "part", column)
    _put(index, number, tables)
    for part in parts:
        with suppress(OSError):
            shutil.rmtree(part)


def _pairs(table: Any) -> Iterator[tuple[str, int]]:  # noqa: ANN401
    """(source, part) of each row."""
    return zip(*(table[name].to_pylist() for name in ("source", "part")), strict=True)
