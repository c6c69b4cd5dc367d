"""What a program asks for, counted while it runs in eager: by a dispatch mode, on tensors without data."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Counting(TorchDispatchMode):
    """`elements`: operator -> elements of its results, in the order of its calls. `written`, `read`: number
    of an argument -> bytes of its parts that operators write, and of its views that they read."""

    def __init__(self, args: tuple[torch.Tensor, ...]) -> None:
        super().__init__()
        self.elements: dict[str, list[int]] = {}
        self.written: Counter[int] = Counter()
        self.read: Counter[int] = Counter()
        self._memory = {arg.untyped_storage()._cdata: number for number, arg in enumerate(args)}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__.rstrip("_")
        returns = [each.alias_info for each in func._schema.returns]
        if any(alias is not None and not alias.is_write for alias in returns):
            return result  # a view
        made = [leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        self.elements.setdefault(name, []).extend(made[:1])
        for given, value in zip(func._schema.arguments, args, strict=False):
            for leaf in tree_leaves(value):
                number = self._number(leaf)
                if number is None:
                    continue
                written = given.alias_info is not None and given.alias_info.is_write
                if written and name.startswith("index_put"):
                    # None stands for all of a dimension.
                    places = tuple(slice(None) if each is None else each for each in args[1])
                    self.written[number] += _bytes(leaf[places])
                    continue
                if written:
                    self.written[number] += _bytes(leaf)
                if not written or name != "copy":
                    self.read[number] += _bytes(leaf)
        return result

    def _number(self, leaf: object) -> int | None:
        if not isinstance(leaf, torch.Tensor):
            return None
        return self._memory.get(leaf.untyped_storage()._cdata)


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
