"""The tables of an index: the flat records of the library, each with the run that it is of.

An index is a folder of parts, a part a folder with one Parquet file for each table that has rows in it. Parts
are numbered; of a source that was read several times the rows in the latest part count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from inspector.frozen import dataclass
from inspector.library import rows


@dataclass(frozen=True, slots=True)
class Source:
    """What was read: a run's folder or an archive. `stamp` changes with its files; `runs` is how many it
    held. `error` says why it could not be read."""

    stamp: str
    runs: int
    error: str | None


@dataclass(frozen=True, slots=True)
class IndexedRun(rows.RunRow):
    """A run, or what could not be read as one: `error` says why, and all but `path` is null then."""

    error: str | None


TABLES: Mapping[str, type] = {
    "sources": Source,
    "runs": IndexedRun,
    "graphs": rows.GraphRow,
    "kernels": rows.Kernel,
    "blocks": rows.Block,
    "findings": rows.FindingRow,
    "breaks": rows.Break,
    "recompiles": rows.Recompile,
    "differences": rows.RankDifference,
}
"""By name, the type of a row."""

_TYPES = {
    "str": "string",
    "int": "int64",
    "float": "double",
    "bool": "bool",
    "Texts": "texts",
}
_OWN = (("source", "string"), ("part", "int64"))
_OF_RUN = (("run", "string"),)


def columns(table: str) -> list[tuple[str, str]]:
    """(name, type) of each column: `string`, `int64`, `double`, `bool` or `texts`, a list of strings."""
    typed = [(field.name, _TYPES[str(field.type).partition(" | ")[0]]) for field in fields(TABLES[table])]
    return [*_OWN, *(() if table in ("sources", "runs") else _OF_RUN), *typed]
