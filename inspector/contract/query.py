"""`inspector.query/1`: what an index answered."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

SCHEMA = "inspector.query/1"


def to_json(sql: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> dict[str, Any]:
    """An object for each row, its keys the question's columns."""
    return {
        "schema": SCHEMA,
        "sql": " ".join(sql.split()),
        "columns": list(columns),
        "rows": [dict(zip(columns, map(_plain, row), strict=True)) for row in rows],
    }


def _plain(value: object) -> object:
    """As JSON can have it: numbers, texts, lists of these; of DuckDB's other types the text."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
