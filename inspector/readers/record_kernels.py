"""The lines of a record that tell what compiling and tuning kernels gave, and what was saved of inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, get_args

from inspector.model.record import ChosenBy, RecordedChoice, RecordedChoices, RecordedInputs, RecordedKernel

from .text import number

_CHOSEN_BY = frozenset(get_args(ChosenBy))


def parse_kernel(data: dict[str, Any]) -> RecordedKernel:
    """A `kernel` line. Raises KeyError, TypeError, ValueError or AttributeError for what is none."""
    chosen_by = data.get("chosen_by")
    tried = [(_config(item["config"]), finite(item["ms"])) for item in data.get("tried", ())]
    return RecordedKernel(
        name=str(data["name"]),
        config=_config(data["config"]),
        registers=_count(data.get("registers")),
        spills=_count(data.get("spills")),
        shared_bytes=_count(data.get("shared_bytes")),
        tried=tuple(sorted(tried, key=lambda item: item[1])),
        compile_id=text(data.get("compile_id")),
        graph=text(data.get("graph")),
        process=text(data.get("process")),
        heuristic=text(data.get("heuristic")),
        chosen_by=cast(ChosenBy, chosen_by) if chosen_by in _CHOSEN_BY else None,
        refused=_count(data.get("refused")) or 0,
    )


def parse_choices(data: dict[str, Any]) -> RecordedChoices:
    """A `choices` line. Raises as `parse_kernel` does."""
    tried = [
        RecordedChoice(
            str(item["name"]), _config(item["config"]), None if item["ms"] is None else finite(item["ms"])
        )
        for item in data["tried"]
    ]
    return RecordedChoices(
        operation=str(data["operation"]),
        inputs=tuple(str(name) for name in data["inputs"]),
        buffer=text(data.get("buffer")),
        tried=tuple(
            sorted(tried, key=lambda item: float("inf") if item.milliseconds is None else item.milliseconds)
        ),
        graph=text(data.get("graph")),
        process=text(data.get("process")),
        compile_id=text(data.get("compile_id")),
    )


def parse_inputs(data: dict[str, Any]) -> RecordedInputs:
    """An `inputs` line. Raises as `parse_kernel` does."""
    return RecordedInputs(
        graph=text(data.get("graph")),
        process=text(data.get("process")),
        file=text(data["file"]),
        arguments=_count(data.get("arguments")) or 0,
        bytes=_count(data.get("bytes")) or 0,
        limit=_count(data.get("limit")),
        left_out=tuple(int(position) for position in data.get("left_out", ())),
        left_out_bytes=_count(data.get("left_out_bytes")) or 0,
        unknown=tuple(int(position) for position in data.get("unknown", ())),
        problem=text(data.get("problem")),
    )


def text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def finite(value: object) -> float:
    """A time or count; raises ValueError for what is none."""
    known = number(value)
    if known is None:
        raise ValueError(f"no number: {str(value)[:60]!r}")
    return known


def _config(data: Mapping[str, object]) -> Mapping[str, str]:
    return {str(name): str(value) for name, value in data.items()}


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
