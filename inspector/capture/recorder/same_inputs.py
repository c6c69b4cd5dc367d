"""Which arguments of a compiled graph are the very same in each of its runs: what follows from these alone
need not be computed again.

A tensor is the same while it is the same object and nothing has written to it, by autograd's version counter
(torch/csrc/autograd/variable.h: VariableVersion). What writes past that, as NumPy does into memory that it
shares, is not seen.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from typing import Any

EACH_RUN = 12
"""Runs that are all looked at; later ones at each power of two, as looking takes as long as a guard."""


class SameInputs:
    """Of one graph: `left` are the positions of arguments that no run has shown to change, in `seen` runs."""

    def __init__(self) -> None:
        self.seen = 0
        self.left: list[int] = []
        self._first: list[tuple[Any, Any]] = []
        self._called = 0

    def look(self, inputs: Sequence[Any]) -> None:
        """Before a run, which may write to its arguments and let go of them."""
        self._called += 1
        if self._called > EACH_RUN and self._called & (self._called - 1):
            return
        torch: Any = sys.modules["torch"]
        # No function mode or subclass of the program's own is to see that we look.
        with torch._C.DisableTorchFunction():
            if not self.seen:
                self._first = [_known(value, torch.Tensor) for value in inputs]
                self.left = [number for number, (one, _) in enumerate(self._first) if one is not None]
            else:
                self.left = [
                    number
                    for number in self.left
                    if number < len(inputs) and _same(self._first[number], inputs[number], torch.Tensor)
                ]
        self.seen += 1

    def as_json(self) -> dict[str, Any]:
        return {"seen": self.seen, "given": len(self._first), "arguments": list(self.left)}


def _known(value: Any, tensor: Any) -> tuple[Any, Any]:
    """(reference, version) of a tensor, (itself, None) of a number; None in place of the first for the rest,
    as a tensor of inference mode, which counts no versions."""
    if isinstance(value, tensor):
        return (None, None) if value.is_inference() else (weakref.ref(value), value._version)
    return (value, None) if isinstance(value, (bool, int, float)) else (None, None)


def _same(first: tuple[Any, Any], value: Any, tensor: Any) -> bool:
    one, version = first
    if isinstance(value, tensor):
        known = isinstance(one, weakref.ref) and one() is value
        return known and not value.is_inference() and value._version == version
    return type(one) is type(value) and one == value
