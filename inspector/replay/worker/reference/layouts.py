"""Sizes, strides and index expressions of the IR as numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Union

import torch
from torch import Tensor

from inspector.model.schedule import Layout
from inspector.model.source import Size

Value = Union[Tensor, float]
"""What a loop body computes with: a tensor that broadcasts against the loop nest, or a number."""


def _modular(value: Value, divisor: Value, modulus: Value) -> Value:
    return value // divisor % modulus


def _least(*values: Value) -> Value:
    return _fold(torch.minimum, values)


def _greatest(*values: Value) -> Value:
    return _fold(torch.maximum, values)


def _fold(function: Callable[[Value, Value], Value], values: Sequence[Value]) -> Value:
    result = torch.as_tensor(values[0])
    for value in values[1:]:
        other = torch.as_tensor(value)
        device = result.device if result.dim() else other.device
        result = function(result.to(device), other.to(device))
    return result


INDEX_FUNCTIONS: dict[str, object] = {
    "ModularIndexing": _modular,
    "FloorDiv": lambda left, right: left // right,
    "CleanDiv": lambda left, right: left // right,
    "CeilDiv": lambda left, right: -(-left // right),
    "Mod": lambda left, right: left % right,
    "PythonMod": lambda left, right: left % right,
    "Identity": lambda value: value,
    "Min": _least,
    "Max": _greatest,
    "Where": lambda condition, yes, no: torch.where(torch.as_tensor(condition), yes, no),
    "ToFloat": lambda value: value * 1.0,
    "IntTrueDiv": lambda left, right: left / right,
    "FloatTrueDiv": lambda left, right: left / right,
    "TruncToInt": lambda value: torch.as_tensor(value).trunc().to(torch.int64),
    "Abs": lambda value: torch.as_tensor(value).abs(),
    "ceiling": lambda value: torch.as_tensor(value).ceil(),
    "Eq": lambda left, right: left == right,
    "Ne": lambda left, right: left != right,
    "floor": lambda value: torch.as_tensor(value).floor(),
    "True": True,
    "False": False,
}
"""What sympy prints into index expressions (torch/utils/_sympy/functions.py)."""


@dataclass
class Layouts:
    """Sizes and strides of buffers as numbers, and whose memory they are.

    `symbols` are the values of symbolic sizes. `targets`: buffers that are another one's memory, changed in
    place. `views`: buffers that are a part of another, with its name and the offset in elements; the inputs
    of a concatenation are written into it.
    """

    texts: Mapping[str, Layout]
    symbols: dict[str, object]
    targets: Mapping[str, str]
    views: Mapping[str, tuple[str, int]]

    def root(self, name: str) -> str:
        """The buffer that `name` changes in place; itself where it is none of those."""
        while name in self.targets:
            name = self.targets[name]
        return name

    def owner(self, name: str) -> str:
        """The whole whose part a buffer is; its root where it is none."""
        name = self.root(name)
        while name in self.views:
            name = self.root(self.views[name][0])
        return name

    def of(self, name: str) -> tuple[tuple[int, ...], tuple[int, ...], torch.dtype | None] | None:
        """(size, stride, dtype) of a buffer, and of the whole where it is a part that is changed in place, of
        which torch prints the size beside the whole's strides; None where it is not known."""
        entry = self.texts.get(self.root(name), self.texts.get(name))
        if entry is None or entry.size is None or entry.stride is None:
            return None
        try:
            size = tuple(self._number(extent) for extent in entry.size)
            stride = tuple(self._number(step) for step in entry.stride)
        except (NameError, SyntaxError, TypeError):
            return None
        return size, stride, getattr(torch, entry.dtype or "", None)

    def device(self, *names: str) -> str:
        """The device of the first of these buffers that has one."""
        layouts = (self.texts[name] for name in names if name in self.texts)
        return next((layout.device for layout in layouts if layout.device), "cpu")

    def _number(self, extent: Size) -> int:
        if isinstance(extent, int):
            return extent
        return int(eval(extent, {**INDEX_FUNCTIONS, **self.symbols}))
