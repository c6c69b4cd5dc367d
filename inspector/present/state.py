"""How torch was set for the program's calls, in words: what the program changed, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from inspector.model.calls import ProcessCalls
from inspector.model.state import Value

from .spans import Line, wrapped

_PREFIX = re.compile(r"^(backends\.|get_|is_|are_)")


def state_lines(processes: Sequence[ProcessCalls], width: int) -> Iterator[Line]:
    """For the first process that called compiled code; none where it left torch as it began."""
    for calls in processes:
        called = [position for item in calls.callables for position in item.states]
        if calls.state is None or not called:
            continue
        changes = calls.state.changes(called)
        if changes:
            parts = (f"{_PREFIX.sub('', name)}={_values(values)}" for name, values in changes.items())
            yield from wrapped(f"set by the program: {', '.join(parts)}", width, "dim", "", "  ")
        return


def _values(values: Sequence[Value]) -> str:
    return " and ".join("off" if value is None else str(value) for value in values)
