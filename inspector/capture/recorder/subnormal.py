"""How many of a graph's arguments' elements are subnormal: too small for the usual form of a float, which a
CPU takes many cycles for where it takes one for others.

State that decays goes there and stays: of numbers that are multiplied by 0.8 the smallest round to
themselves. A sample is looked at, of tensors in the CPU's memory, at runs that are further and further apart.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

FIRST_RUN = 4
"""State has had no time before; from then on at each power of two."""
SAMPLE = 4096
"""Elements of a tensor, evenly spread: some 30 us."""
LEAST_ELEMENTS = 1024
"""Of a tensor that is looked at: fewer take no time worth a look."""


class Subnormals:
    """Of one graph: `shares` has for positions of arguments the part of their elements that was subnormal
    when they were last looked at."""

    def __init__(self) -> None:
        self.shares: dict[int, float] = {}
        self._called = 0

    def look(self, inputs: Sequence[Any]) -> None:
        """Before a run."""
        self._called += 1
        if self._called < FIRST_RUN or self._called & (self._called - 1):
            return
        torch: Any = sys.modules["torch"]
        # A dispatch mode of the program's own would see that we look.
        if torch._C._len_torch_dispatch_stack():
            return
        with torch._C.DisableTorchFunction(), torch.no_grad():
            for position, value in enumerate(inputs):
                if _worth(value, torch):
                    self.shares[position] = _share(value, torch)

    def as_json(self) -> dict[str, float]:
        return {str(position): round(share, 6) for position, share in self.shares.items() if share}


def _worth(value: Any, torch: Any) -> bool:
    return (
        type(value) in (torch.Tensor, torch.nn.Parameter)
        and value.device.type == "cpu"
        and value.dtype in (torch.float32, torch.float64)
        and value.layout is torch.strided
        and value.numel() >= LEAST_ELEMENTS
        and value.is_contiguous()
    )


def _share(value: Any, torch: Any) -> float:
    step = max(value.numel() // SAMPLE, 1)
    some = value.detach().view(-1)[::step].abs()
    small = (some > 0) & (some < torch.finfo(value.dtype).tiny)
    count = int(some.numel())
    return int(small.sum()) / count
