"""How much memory a graph holds at once, counted in its wrapper."""

from __future__ import annotations

from inspector.analysis.traffic import ITEM_BYTES
from inspector.model.code import Alias, Allocation, Free, OutputCode
from inspector.model.source import numel


def peak_bytes(code: OutputCode) -> tuple[int, int] | None:
    """Bytes of the buffers that the wrapper allocates and has not freed yet, where they are most, and the
    line of output_code.py that makes the last of them; None where a size is symbolic.

    Inputs are the caller's, and what a library's call allocates for itself is not seen.
    """
    held: dict[str, int] = {}
    most, line = 0, 1
    for step in code.steps:
        if isinstance(step, Allocation):
            count = _bytes(step)
            if count is None:
                return None
            held[step.name] = count
            if sum(held.values()) > most:
                most, line = sum(held.values()), step.span.first
        elif isinstance(step, Alias) and step.kind == "reuse" and step.source in held:
            held[step.name] = held.pop(step.source)
        elif isinstance(step, Free):
            for name in step.names:
                held.pop(name, None)
    return most, line


def _bytes(buffer: Allocation) -> int | None:
    item = ITEM_BYTES.get(buffer.dtype)
    if item is None or numel(buffer.size) is None or numel(buffer.stride) is None:
        return None
    sizes = [int(extent) for extent in buffer.size]
    if 0 in sizes:
        return 0
    strides = map(int, buffer.stride)
    return item * (1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=False)))
