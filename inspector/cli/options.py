"""Options of the command line whose values need more than click's own types."""

from __future__ import annotations

import re
from typing import Any

import click

from inspector.model.problem import InspectorError

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def pairs(values: tuple[str, ...], option: str) -> tuple[tuple[str, str], ...]:
    """`NAME=VALUE` texts as pairs. Raises InspectorError for one that is none."""
    found = []
    for value in values:
        name, equals, rest = value.partition("=")
        if not equals or not name:
            raise InspectorError(f"{option} {value}: needs the form NAME=VALUE")
        found.append((name, rest))
    return tuple(found)


def byte_count(context: click.Context, parameter: click.Parameter, value: Any) -> int | None:
    """A click callback: `64M` as bytes; 1 K are 1,024 bytes. Raises InspectorError for what is no size."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", str(value).strip(), re.IGNORECASE)
    if found is None:
        raise InspectorError(
            f"{parameter.opts[0]} {value}: not a size: write {parameter.opts[0]}=256M, "
            "or -- before the command to take the default"
        )
    return int(float(found[1]) * _UNITS[found[2].upper()])


save_inputs = click.option(
    "--save-inputs",
    is_flag=False,
    flag_value="256M",
    metavar="[SIZE]",
    callback=byte_count,
    help="Keep the arguments of each graph's first call for replay; up to SIZE for each graph [256M].",
)
