"""A list of records that knows its columns: for loops, frames, and a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from markupsafe import escape

from inspector.model.problem import InspectorError
from inspector.text import clean

if TYPE_CHECKING:
    import pandas
    import polars

_T = TypeVar("_T")
_SHOWN = 60
"""Rows that a notebook shows."""


class Records(Sequence[_T], Generic[_T]):
    """Records of one kind, in the run's order; findings worst first.

    An index is a number, a slice, or the `name` of a record where records have names. Raises KeyError for a
    name that none has.
    """

    def __init__(self, items: Sequence[_T], row: Callable[[_T], object], columns: type) -> None:
        self._items = tuple(items)
        self._row = row
        self._columns = columns

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the frame's columns."""
        return tuple(field.name for field in fields(self._columns))

    def rows(self) -> Iterator[Any]:
        """Each record as a flat dataclass of `inspector.library.rows`."""
        return map(self._row, self._items)

    def to_dicts(self) -> list[dict[str, Any]]:
        """One flat dictionary for each record, its keys the `columns`."""
        return [asdict(row) for row in self.rows()]

    def to_pandas(self) -> pandas.DataFrame:
        """A `pandas.DataFrame`; raises InspectorError where pandas is not installed."""
        return _module("pandas").DataFrame(self.to_dicts(), columns=list(self.columns))

    def to_polars(self) -> polars.DataFrame:
        """A `polars.DataFrame`; raises InspectorError where polars is not installed."""
        rows = self.to_dicts()
        schema = None if rows else list(self.columns)
        return _module("polars").DataFrame(rows, schema=schema, infer_schema_length=None)

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int | str) -> _T: ...
    @overload
    def __getitem__(self, index: slice) -> Records[_T]: ...
    def __getitem__(self, index: int | str | slice) -> _T | Records[_T]:
        if isinstance(index, slice):
            return Records(self._items[index], self._row, self._columns)
        if isinstance(index, int):
            return self._items[index]
        for item in self._items:
            if getattr(item, "name", None) == index:
                return item
        raise KeyError(index)

    def __repr__(self) -> str:
        return f"<{len(self)} of {self._columns.__name__.removesuffix('Row')}>"

    def _repr_html_(self) -> str:
        """A table for a notebook; text of the run is never markup in it."""
        cells = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        rows = [
            "".join(f"<td>{escape(_shown(value))}</td>" for value in row.values())
            for row in self[:_SHOWN].to_dicts()
        ]
        more = len(self) - len(rows)
        tail = f"<p>{more} more: to_pandas(), to_polars() or to_dicts() has all.</p>" if more > 0 else ""
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>{tail}"


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return clean(", ".join(map(str, value)) if isinstance(value, tuple) else str(value))


def _module(name: str) -> Any:  # noqa: ANN401
    try:
        return import_module(name)
    except ImportError:
        raise InspectorError(f"{name} is not installed: pip install {name}") from None
