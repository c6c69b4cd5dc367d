"""What the contracts' objects have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from inspector.model.compile_time import CompileTime
from inspector.model.problem import Problem
from inspector.model.ranks import Divergence
from inspector.model.source import SourceLocation


def pick(item: object, *names: str) -> dict[str, Any]:
    """The named attributes in that order, `key=attribute` where the contract calls it otherwise.

    Tuples become lists.
    """
    data = {}
    for name in names:
        key, _, attribute = name.partition("=")
        value = getattr(item, attribute or key)
        data[key] = list(value) if isinstance(value, tuple) else value
    return data


def problems_json(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    return [pick(problem, "path", "line", "message") for problem in problems]


def place_text(location: SourceLocation | None) -> str | None:
    """`/path/model.py:9`."""
    return None if location is None else str(location)


def place_json(location: SourceLocation | None) -> dict[str, Any] | None:
    if location is None:
        return None
    return {**pick(location, "path", "line", "function"), **filled(location, "code")}


def filled(item: object, *names: str) -> dict[str, Any]:
    """The named attributes that say something: keys that are left out otherwise."""
    return {name: value for name, value in pick(item, *names).items() if value}


def time_json(time: CompileTime) -> dict[str, Any]:
    """`parts` adds up to `seconds`."""
    return {
        "seconds": in_seconds(time.total_ns),
        "parts": {part: in_seconds(value) for part, value in time.parts.items()},
        "phases": {phase: in_seconds(value) for phase, value in time.phases.items()},
        "first_run_seconds": in_seconds(time.first_run_ns),
        "parallel_seconds": in_seconds(time.parallel_ns),
        **pick(time, "source", "complete"),
    }


def divergence_json(differences: Sequence[Divergence]) -> list[dict[str, Any]]:
    return [
        {
            **pick(item, "kind", "subject", "text"),
            "groups": [{"ranks": list(labels), "value": value} for labels, value in item.groups],
        }
        for item in differences
    ]


def in_seconds(nanoseconds: int) -> float:
    return nanoseconds / 1e9
