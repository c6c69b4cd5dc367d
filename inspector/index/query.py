"""Asks an index through DuckDB: SQL that reads its tables and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from glob import escape
from pathlib import Path
from typing import Any

from inspector.frozen import dataclass
from inspector.model.problem import InspectorError

from .build import parts_of
from .questions import QUESTIONS
from .tables import TABLES, columns

_DUCK_TYPES = {
    "string": "varchar",
    "int64": "bigint",
    "double": "double",
    "bool": "boolean",
    "texts": "varchar[]",
}


@dataclass(frozen=True, slots=True)
class Result:
    """What a question was answered with."""

    sql: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def ask(index: Path, question: str) -> Result:
    """Answer SQL, or a ready question by its name.

    The tables are copied into memory first; after that DuckDB opens no file and no connection, whatever the
    SQL says. Raises InspectorError for a folder that is no index, and for SQL that is none or does more
    than read.
    """
    try:
        import duckdb
    except ImportError:
        raise InspectorError("a query needs duckdb: pip install 'inductor-inspector[index]'") from None
    sql = QUESTIONS[question].sql if question in QUESTIONS else question
    if not (index / "lock").exists():
        raise InspectorError(f"{index}: no index; make one: inspector index FOLDER -o {index}")
    if " " not in sql.strip():
        offered = ", ".join(QUESTIONS)
        raise InspectorError(f"{question}: neither SQL nor a ready question; there are: {offered}")
    with duckdb.connect(config={"autoinstall_known_extensions": False}) as connection:
        _load(connection, index, sql)
        connection.execute("set enable_external_access = false")
        connection.execute("set lock_configuration = true")
        try:
            statements = connection.extract_statements(sql)
            if len(statements) != 1 or statements[0].type not in _reading(duckdb):
                raise InspectorError("one SELECT can be asked, and nothing that changes anything")
            cursor = connection.execute(statements[0])
            names = tuple(str(item[0]) for item in cursor.description or ())
            return Result(sql, names, tuple(cursor.fetchall()))
        except duckdb.Error as error:
            raise InspectorError(" ".join(str(error).split())) from None


def _reading(duckdb: Any) -> tuple[Any, ...]:  # noqa: ANN401
    kinds = duckdb.StatementType
    return (kinds.SELECT, kinds.EXPLAIN)


def _load(connection: Any, index: Path, sql: str) -> None:  # noqa: ANN401
    """The tables that the question names, of each source the latest rows."""
    parts = parts_of(index)
    named = set(re.findall(r"\w+", sql.lower()))
    for table in TABLES:
        if table not in named:
            continue
        typed = ", ".join(f'"{name}" {_DUCK_TYPES[kind]}' for name, kind in columns(table))
        connection.execute(f"create table {table} ({typed})")
        files = [str(file) for part in parts if (file := part / f"{table}.parquet").exists()]
        if files:
            all_sources = [str(part / "sources.parquet") for part in parts]
            # Folders named like a pattern or `key=value` are neither to DuckDB.
            read = "read_parquet(${}, hive_partitioning = false)".format
            connection.execute(
                f"insert into {table} by name select * from {read('files')} semi join "
                f"(select source, max(part) as part from {read('sources')} group by source) "
                "using (source, part)",
                {"files": [*map(escape, files)], "sources": [*map(escape, all_sources)]},
            )


def shown_tables() -> Mapping[str, list[tuple[str, str]]]:
    """Each table's columns with their types, as a question may name them."""
    return {table: [(name, _DUCK_TYPES[kind]) for name, kind in columns(table)] for table in TABLES}
