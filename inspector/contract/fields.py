"""How the contracts' objects are made of the model's, and what several of them have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from inspector.model.compile_time import CompileTime
from inspector.model.problem import Problem
from inspector.model.ranks import Divergence
from inspector.model.source import SourceLocation

Shapes = Mapping[type, str | Callable[[Any], Any]]
"""For each type of the model its keys in order, `key=attribute` where the contract calls it otherwise; or a
function that makes the whole."""


def shaped(value: object, shapes: Shapes) -> object:
    """`value` as JSON has it, objects by their shapes at every depth; tuples become lists."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    shape = shapes.get(type(value))
    if isinstance(shape, str):
        return pick(value, shape, shapes)
    if shape is not None:
        return shape(value)
    if isinstance(value, Mapping):
        return {key: shaped(item, shapes) for key, item in value.items()}
    return [shaped(item, shapes) for item in value]  # type: ignore[attr-defined]


def pick(item: object, keys: str, shapes: Shapes | None = None) -> dict[str, Any]:
    """Those keys of an object in that order, as in `Shapes`."""
    data = {}
    for name in keys.split():
        key, _, attribute = name.partition("=")
        data[key] = shaped(getattr(item, attribute or key), shapes or {})
    return data


def filled(item: object, keys: str) -> dict[str, Any]:
    """The keys that say something; they are left out otherwise."""
    return {name: value for name, value in pick(item, keys).items() if value}


def place_text(location: SourceLocation | None) -> str | None:
    """`/path/model.py:9`."""
    return None if location is None else str(location)


def time_json(time: CompileTime) -> dict[str, Any]:
    """`parts` adds up to `seconds`."""
    return {
        "seconds": in_seconds(time.total_ns),
        "parts": {part: in_seconds(value) for part, value in time.parts.items()},
        "phases": {phase: in_seconds(value) for phase, value in time.phases.items()},
        "first_run_seconds": in_seconds(time.first_run_ns),
        "parallel_seconds": in_seconds(time.parallel_ns),
        **pick(time, "source complete"),
    }


def _divergence(item: Divergence) -> dict[str, Any]:
    groups = [{"ranks": list(labels), "value": value} for labels, value in item.groups]
    return {**pick(item, "kind subject text"), "groups": groups}


COMMON: Shapes = {CompileTime: time_json, Divergence: _divergence, Problem: "path line message"}


def in_seconds(nanoseconds: int) -> float:
    return nanoseconds / 1e9
