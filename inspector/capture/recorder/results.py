"""What the first call of each compiled callable got and gave, in numbers: two runs can then be compared."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from .sink import Sink

MOST_NUMBERS = 4096
"""Of each tensor, evenly spread over it."""
MOST_TENSORS = 64


def numbers(value: Any) -> list[list[float]]:
    """Samples of the floating-point tensors in tuples, lists and dictionaries; nested and sparse ones are
    left out."""
    torch: Any = sys.modules["torch"]
    samples: list[list[float]] = []
    rest = [value]
    while rest and len(samples) < MOST_TENSORS:
        item = rest.pop(0)
        if isinstance(item, dict):
            rest[:0] = list(item.values())
        elif isinstance(item, (list, tuple)):
            rest[:0] = list(item)
        elif isinstance(item, torch.Tensor) and item.is_floating_point() and item.layout is torch.strided:
            with torch.no_grad():
                flat = item.detach().reshape(-1)
                step = max(1, -(-flat.numel() // MOST_NUMBERS))
                samples.append(flat[::step].double().cpu().tolist())
    return samples


def keeper(sink: Sink) -> Callable[[str, Any, Any], None]:
    """Writes the line of one call: its callable's name, numbers of what it got and of what it gave."""

    def keep(name: str, given: Any, made: Any) -> None:
        sink.write({"kind": "result", "name": name, "given": given, "made": made})

    return keep
