"""Dataclasses as JSON data and back, by their fields."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")

_PLAIN = (bool, int, float, str)
_EXACT = (bool, int, str)
"""Those of which every value is one that JSON has."""


class Malformed(ValueError):
    """The data are not what the dataclass holds; the message names the place and says what is wrong there."""


def to_data(value: DataclassInstance) -> dict[str, object]:
    """By field name what JSON has: lists for tuples, text for paths. Raises TypeError for what it has not."""
    return {field.name: _data(getattr(value, field.name)) for field in fields(value)}


def _data(value: object) -> object:
    if isinstance(value, float) and math.isinf(value):
        # A difference of two large numbers; JSON has no infinity.
        return math.copysign(sys.float_info.max, value)
    if value is None or isinstance(value, _PLAIN):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return to_data(value)
    if isinstance(value, Mapping):
        return {str(key): _data(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_data(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Real):
        # Another library's number, such as NumPy's.
        return int(value) if isinstance(value, Integral) else float(value)
    raise TypeError(f"{type(value).__name__} has no place in JSON")


def from_data(kind: type[T], data: object, *, ignore_unknown: bool = False) -> T:
    """The inverse of `to_data`. A field with a default may be missing; a key without a field is refused
    unless `ignore_unknown`, as for files of other versions. Raises Malformed."""
    result = _value(kind, data, kind.__name__, ignore_unknown)
    assert isinstance(result, kind)
    return result


@cache
def _hints(kind: type) -> dict[str, object]:
    return get_type_hints(kind)


@cache
def _fields(kind: type) -> tuple[tuple[str, object, bool], ...]:
    """Of each field of a dataclass its name, type hint, and whether it has to be there."""
    hints = _hints(kind)
    return tuple(
        (each.name, hints[each.name], each.default is MISSING and each.default_factory is MISSING)
        for each in fields(cast(Any, kind))
    )


@cache
def _parts(hint: object) -> tuple[object, tuple[Any, ...]]:
    """A type hint's origin and arguments, which typing works out anew each time."""
    return get_origin(hint), get_args(hint)


def _dataclass(kind: type, data: object, where: str, ignore_unknown: bool) -> object:
    if not isinstance(data, dict):
        raise Malformed(f"{where}: {_shown(data)} is no object")
    unknown = data.keys() - _hints(kind).keys()
    if unknown and not ignore_unknown:
        raise Malformed(f"{where}: unknown key {min(map(str, unknown))}")
    values = {}
    for name, hint, needed in _fields(kind):
        if name in data:
            values[name] = _value(hint, data[name], f"{where}.{name}", ignore_unknown)
        elif needed:
            raise Malformed(f"{where}: {name} is missing")
    return kind(**values)


def _value(hint: object, data: object, where: str, ignore_unknown: bool) -> object:
    if type(data) is hint and hint in _EXACT:
        return data
    if isinstance(hint, type) and is_dataclass(hint):
        return _dataclass(hint, data, where, ignore_unknown)
    origin, args = _parts(hint)
    if origin in (Union, UnionType):
        return _one_of(args, data, where, ignore_unknown)
    if isinstance(hint, type) and hasattr(hint, "_fields") and isinstance(data, list):
        return _named_tuple(hint, data, where, ignore_unknown)
    if origin is tuple and isinstance(data, list):
        return tuple(_value(args[0], item, f"{where}[{n}]", ignore_unknown) for n, item in enumerate(data))
    if origin is Mapping and isinstance(data, dict):
        key_of = int if args[0] is int else str
        try:
            return {
                key_of(key): _value(args[1], item, f"{where}.{key}", ignore_unknown)
                for key, item in data.items()
            }
        except ValueError as error:
            raise error if isinstance(error, Malformed) else Malformed(f"{where}: {error}") from None
    if isinstance(data, float) and not math.isfinite(data):
        raise Malformed(f"{where}: {data} is no number that JSON has")
    if hint is object or (origin is Literal and data in args) or (hint in _PLAIN and type(data) is hint):
        return data
    if hint is float and type(data) is int:
        with suppress(OverflowError):
            return float(data)
    if hint is Path and isinstance(data, str):
        return Path(data)
    raise Malformed(f"{where}: {_shown(data)} is no {getattr(hint, '__name__', hint)}")


def _named_tuple(kind: type, data: list[object], where: str, ignore_unknown: bool) -> object:
    """From a list of its fields in order."""
    hints = _hints(kind)
    if len(data) != len(hints):
        raise Malformed(f"{where}: {_shown(data)} is no {kind.__name__}")
    items = zip(hints.items(), data, strict=True)
    return kind(*(_value(hint, item, f"{where}.{name}", ignore_unknown) for (name, hint), item in items))


def _one_of(kinds: tuple[object, ...], data: object, where: str, ignore_unknown: bool) -> object:
    if data is None and NoneType in kinds:
        return None
    if len(kinds) == 2 and NoneType in kinds:
        return _value(kinds[kinds[0] is NoneType], data, where, ignore_unknown)
    for kind in kinds:
        with suppress(Malformed):
            return _value(kind, data, where, ignore_unknown)
    raise Malformed(f"{where}: {_shown(data)} has no place here")


def _shown(data: object) -> str:
    text = repr(data)
    return text if len(text) <= 60 else f"{text[:57]}..."
