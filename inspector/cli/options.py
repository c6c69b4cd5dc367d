"""Options of the command line whose values need more than click's own types."""

from __future__ import annotations

import click

from inspector.model.problem import InspectorError


def pairs(values: tuple[str, ...], option: str) -> tuple[tuple[str, str], ...]:
    """`NAME=VALUE` texts as pairs. Raises InspectorError for one that is none."""
    from inspector.present.capture import pair

    return tuple(pair(value, option) for value in values)


def byte_count(_context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """A click callback: `64M` as bytes. Raises InspectorError for what is no size."""
    from inspector.units import parse_size

    size = None if value is None else parse_size(str(value))
    if value is not None and size is None:
        raise InspectorError(
            f"{parameter.opts[0]} {value}: not a size: write {parameter.opts[0]}=256M, "
            "or -- before the command to take the default"
        )
    return size


save_inputs = click.option(
    "--save-inputs",
    is_flag=False,
    flag_value="256M",
    metavar="[SIZE]",
    callback=byte_count,
    help="Keep the arguments of each graph's first call for replay; up to SIZE for each graph [256M].",
)
