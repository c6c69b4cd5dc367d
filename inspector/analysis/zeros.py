"""Which part of each value is other than zero, and how much of a product multiplies anything else.

The gradient of a slice, a pick or a diagonal is that part of zeros, and backward multiplies all of it. It
follows from the graph alone, as `unread` does, from where zeros are made on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress

from inspector.model.fx import FxGraph, FxNode
from inspector.model.literals import literal

from .dataflow import operator
from .parts import (
    Dimension,
    Factor,
    Part,
    Picked,
    fraction,
    narrowed,
    same_for_all,
    share_of,
    size_of,
    union,
    viewed,
    whole,
)
from .unread import (
    ADDED,
    IMPOSSIBLE,
    PRODUCTS,
    SHOWN_ANEW,
    Values,
    diagonal_of,
    dimension_of,
    factors_of,
    listed,
    order_of,
    places_of,
)

# fmt: off
_ZERO_STAYS = frozenset({
    "_to_copy", "abs", "alias", "clone", "convert_element_type", "detach", "erf", "expm1", "gelu",
    "leaky_relu", "log1p", "neg", "relu", "sign", "silu", "sin", "sinh", "sqrt", "square", "tan", "tanh",
    "trunc",
})
# fmt: on


def useful_parts(graph: FxGraph, hints: Mapping[str, int] | None = None) -> dict[str, float]:
    """Product -> the part of its multiplications, below 1, of which neither factor is a zero that the graph
    has made."""
    zeros = _Zeros(Values(graph, hints))
    for node in graph.nodes:
        zeros.follow(node)
    return zeros.useful


class _Zeros:
    """`parts`: of values that have zeros by what the graph does, the part that has none."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.parts: dict[str, Part] = {}
        self.useful: dict[str, float] = {}

    def follow(self, node: FxNode) -> None:
        name = operator(node.target)
        useful, part = 1.0, None
        with suppress(*IMPOSSIBLE):
            if name in PRODUCTS:
                useful, part = self._product(node)
            else:
                part = self._nonzero(node, name)
        if useful < 1.0:
            self.useful[node.name] = useful
        if part is not None and fraction(part) < 1.0:
            self.parts[node.name] = part

    def _nonzero(self, node: FxNode, name: str) -> Part | None:
        shape = self.values.shape(node.name)
        source = node.inputs[0] if node.inputs else ""
        if shape is None:
            return None
        if name in ("full", "full_like", "zeros_like"):
            return _all_zero(shape) if _made_of_zeros(node, name) else None
        if name == "expand" and source in self.values.nodes:
            made = self.values.nodes[source]
            if _made_of_zeros(made, operator(made.target)):
                return _all_zero(shape)
            return _spread(self.parts[source], shape) if source in self.parts else None
        if name in FILLED:
            return FILLED[name](self, node, shape)
        known = [_spread(self.parts[item], shape) for item in node.inputs if item in self.parts]
        if not known:
            return None
        if name == "mul":
            return min(known, key=fraction)
        if name in ("add", "sub"):
            # A number added is no zero.
            every = len(known) == len(node.inputs) and set(node.arguments) <= set(node.inputs)
            return union(known[0], known[-1]) if every else None
        if source not in self.parts:
            return None
        if name in _ZERO_STAYS or (name == "div" and node.arguments[:1] == (source,)):
            return known[0]
        if name in SHOWN_ANEW:
            return viewed(self.parts[source], shape)
        if name in ("permute", "transpose", "t") and (order := order_of(node, len(shape))) is not None:
            return tuple(self.parts[source][number] for number in order)
        if name == "sum":
            return _summed(self.parts[source], node, shape)
        return None

    def _product(self, node: FxNode) -> tuple[float, Part | None]:
        """The part of its multiplications that are of no zeros, and of its result that is none."""
        factors = [self.parts.get(text) or self.values.all_of(text) for text in factors_of(node)]
        left, right = (*factors, None, None)[:2]
        if left is None or right is None:
            return 1.0, None
        batch = tuple(min(both, key=share_of) for both in zip(left[:-2], right[:-2], strict=True))
        # Rows that data picks for each place of a batch are as many in each of them.
        inner = min(share_of(left[-1]), share_of(right[-2]))
        useful = fraction(batch) * share_of(left[-2]) * inner * share_of(right[-1])
        rows, columns = same_for_all(left[-2]), same_for_all(right[-1])
        added = operator(node.target) in ADDED
        return useful, None if added else (*(same_for_all(item) for item in batch), rows, columns)

    def _zeros(self, name: str) -> bool:
        return name in self.parts and fraction(self.parts[name]) == 0.0

    def _scattered(self, node: FxNode, shape: tuple[int, ...]) -> Part | None:
        """``slice_scatter(zeros, x, dim, start, end, step)``, ``select_scatter(zeros, x, dim, index)``."""
        if not self._zeros(node.inputs[0]) or len(node.arguments) < 3:
            return None
        along = dimension_of(node.arguments[2:3], len(shape), 0)
        if along is None:
            return None
        selected = operator(node.target) == "select_scatter"
        at = literal(node.arguments[3]) if selected and len(node.arguments) > 3 else None
        if isinstance(at, int):
            places: range | None = range(at % shape[along], at % shape[along] + 1)
        else:
            places = places_of(node.arguments[3:6], shape[along]) if not selected else None
        if places is None:
            return None
        source = self.parts.get(node.arguments[1])
        if source is None or selected or len(source) != len(shape):
            return _along(shape, along, narrowed(shape[along], places))
        return (*source[:along], narrowed(shape[along], places, source[along]), *source[along + 1 :])

    def _padded(self, node: FxNode, shape: tuple[int, ...]) -> Part | None:
        pads = literal(node.arguments[1]) if len(node.arguments) > 1 else None
        value = literal(node.arguments[2]) if len(node.arguments) > 2 else 0
        if not isinstance(pads, list) or not all(isinstance(item, int) for item in pads) or value != 0:
            return None
        part = list(whole(shape))
        for number in range(len(pads) // 2):
            size, before, after = shape[-1 - number], pads[2 * number], pads[2 * number + 1]
            part[-1 - number] = narrowed(size, range(max(before, 0), size - max(after, 0)))
        return tuple(part)

    def _picked(self, node: FxNode, shape: tuple[int, ...]) -> Part | None:
        """``scatter(zeros, dim, index, x)``, ``scatter_add``."""
        if not self._zeros(node.inputs[0]) or len(node.arguments) < 3:
            return None
        along = dimension_of(node.arguments[1:2], len(shape), 0)
        index = self.values.shape(node.arguments[2])
        if along is None or index is None or len(index) != len(shape) or index[along] >= shape[along]:
            return None
        return _along(shape, along, (Factor(shape[along], Picked(node.arguments[2], index[along], True)),))

    def _put(self, node: FxNode, shape: tuple[int, ...]) -> Part | None:
        """``index_put(zeros, [index, ...], x)``: of the first dimensions together."""
        if not self._zeros(node.inputs[0]) or len(node.arguments) < 3:
            return None
        names = listed(node.arguments[1])
        at = [number for number, item in enumerate(names) if item != "None"]
        indices = [self.values.shape(names[number]) for number in at]
        known = [item for item in indices if item is not None]
        if not at or len(known) != len(indices) or len({len(item) for item in known}) != 1:
            return None
        count = math.prod(max(sizes) for sizes in zip(*known, strict=True))
        for number in at[:-1]:
            count = math.ceil(count / shape[number])
        last = at[-1]
        if count >= shape[last]:
            return None
        return _along(shape, last, (Factor(shape[last], Picked(names[last], count, len(at) > 1)),))

    def _diagonal(self, node: FxNode, shape: tuple[int, ...]) -> Part | None:
        if not self._zeros(node.inputs[0]):
            return None
        both = diagonal_of(node.arguments[2:5], len(shape))
        if both is None:
            return None
        _, other = both
        return _along(shape, other, (Factor(shape[other], Picked(node.name, 1, True)),))

    def _joined(self, node: FxNode, shape: tuple[int, ...]) -> Part | None:
        """``cat([zeros, x, zeros], dim)``: from the first that is not of zeros alone to the last."""
        names = listed(node.arguments[0])
        along = dimension_of(node.arguments[1:2], len(shape), 0)
        shapes = [self.values.shape(name) for name in names]
        if along is None or any(item is None or len(item) != len(shape) for item in shapes):
            return None
        sizes = [item[along] for item in shapes if item is not None]
        filled = [number for number, name in enumerate(names) if not self._zeros(name)]
        if not filled or len(filled) == len(names):
            return None
        places = range(sum(sizes[: filled[0]]), sum(sizes[: filled[-1] + 1]))
        return _along(shape, along, narrowed(shape[along], places))


# What inductor keeps as it is (torch/_inductor/decomposition.py) of what makes a tensor of zeros and another.
FILLED: dict[str, Callable[[_Zeros, FxNode, tuple[int, ...]], Part | None]] = {
    "slice_scatter": _Zeros._scattered,
    "select_scatter": _Zeros._scattered,
    "cat": _Zeros._joined,
    "constant_pad_nd": _Zeros._padded,
    "scatter": _Zeros._picked,
    "scatter_add": _Zeros._picked,
    "index_put": _Zeros._put,
    "_unsafe_index_put": _Zeros._put,
    "diagonal_scatter": _Zeros._diagonal,
}


def _made_of_zeros(node: FxNode, name: str) -> bool:
    if name == "zeros_like":
        return True
    return name in ("full", "full_like") and len(node.arguments) > 1 and literal(node.arguments[1]) == 0


def _all_zero(shape: tuple[int, ...]) -> Part | None:
    return tuple((Factor(size, range(0)),) for size in shape) if shape else None


def _spread(part: Part, shape: tuple[int, ...]) -> Part:
    """As it is handed to what gives this shape."""
    missing = len(shape) - len(part)
    own = (*whole(shape[: max(missing, 0)]), *part)
    return tuple(
        dimension if size_of(dimension) == size else (Factor(size),)
        for dimension, size in zip(own, shape, strict=False)
    )


def _summed(part: Part, node: FxNode, shape: tuple[int, ...]) -> Part | None:
    """With the dimensions kept, or without."""
    listed = literal(node.arguments[1]) if len(node.arguments) > 1 else None
    if not isinstance(listed, list) or not all(isinstance(item, int) for item in listed):
        return None
    along = {item % len(part) for item in listed}
    if len(shape) == len(part):
        return tuple((Factor(1),) if n in along else same_for_all(d) for n, d in enumerate(part))
    return tuple(same_for_all(d) for n, d in enumerate(part) if n not in along)


def _along(shape: tuple[int, ...], number: int, dimension: Dimension) -> Part:
    return tuple(dimension if n == number else (Factor(size),) for n, size in enumerate(shape))
