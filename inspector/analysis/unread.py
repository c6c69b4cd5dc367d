"""Which part of each value is read.

A slice, a pick or a diagonal behind a product does not reach into it: Inductor leaves the library to compute
all of the result. It follows from the graph alone, dimension by dimension; wherever an operator, a view or a
size says too little, all is meant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from inspector.model.fx import FxGraph, FxNode
from inspector.model.literals import literal

from .dataflow import operator
from .index_ranges import IndexReader
from .parts import (
    Dimension,
    Factor,
    Part,
    Picked,
    fraction,
    narrowed,
    same_for_all,
    size_of,
    union,
    viewed,
    whole,
)

# fmt: off
_POINTWISE = frozenset({
    "_to_copy", "abs", "acos", "add", "alias", "asin", "atan", "atan2", "bitwise_and", "bitwise_not",
    "bitwise_or", "bitwise_xor", "ceil", "clamp", "clamp_max", "clamp_min", "clone", "convert_element_type",
    "cos", "cosh", "detach", "div", "elu", "eq", "erf", "erfc", "exp", "exp2", "expm1", "floor", "fmod", "ge",
    "gelu", "gt", "hardswish", "hardtanh", "isinf", "isnan", "le", "leaky_relu", "lerp", "log", "log10",
    "log1p", "log2", "logical_and", "logical_not", "logical_or", "lt", "masked_fill", "maximum", "minimum",
    "mish", "mul", "ne", "neg", "pow", "reciprocal", "relu", "remainder", "round", "rsqrt", "rsub", "sigmoid",
    "sign", "silu", "sin", "sinh", "softplus", "sqrt", "square", "sub", "tan", "tanh", "threshold", "trunc",
    "where", "xlogy",
})
REDUCTIONS = frozenset({
    "sum", "mean", "amax", "amin", "prod", "any", "all", "argmax", "argmin", "var", "std", "logsumexp",
})
# fmt: on
ADDED = frozenset({"addmm", "baddbmm"})
PRODUCTS = frozenset({"mm", "bmm"}) | ADDED
"""Of matrices, and of these the ones that add to a first argument."""
_ALONG = frozenset({"cumsum", "cumprod", "_softmax", "_log_softmax"})
SHOWN_ANEW = frozenset({"view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "_reshape_alias"})
_SPLITS = frozenset({"split", "split_with_sizes", "unbind", "chunk"})
_ATTENTIONS = "_scaled_dot_product_"


IMPOSSIBLE = (IndexError, KeyError, ValueError, ZeroDivisionError)
"""What following a graph comes to whose shapes can't be, as one of a damaged file: nothing is known then."""


class Values:
    """The nodes of a graph and their shapes, where these are numbers: symbols as `hints` have them."""

    def __init__(self, graph: FxGraph, hints: Mapping[str, int] | None = None) -> None:
        self.nodes = {node.name: node for node in graph.nodes}
        self._sizes = IndexReader(hints)

    def shape(self, name: str) -> tuple[int, ...] | None:
        node = self.nodes.get(name)
        shape = node.meta.shape if node is not None and node.meta is not None else None
        sizes = [self._sizes.size(size) for size in shape] if shape is not None else [None]
        known = [size for size in sizes if size is not None]
        return tuple(known) if len(known) == len(sizes) else None

    def all_of(self, name: str) -> Part | None:
        shape = self.shape(name)
        return None if shape is None else whole(shape)


class _Asked(NamedTuple):
    """A part of what a node gives, which shows one of what its first input, of `shape`, holds."""

    values: Values
    node: FxNode
    shape: tuple[int, ...]
    part: Part


def read_parts(graph: FxGraph, hints: Mapping[str, int] | None = None) -> dict[str, float]:
    """Node -> the part of its elements, below 1, that anything reads. A value that a graph gives is read in
    whole: what its caller, or backward, does with it is not seen."""
    values = Values(graph, hints)
    reads: dict[str, Part] = {}
    got: dict[str, float] = {}
    outputs = {name for name in graph.outputs if name is not None}
    for node in reversed(graph.nodes):
        part = reads.get(node.name)
        changes = operator(node.target).endswith("_")
        if node.name in outputs or changes or not node.users or part is None:
            part = values.all_of(node.name)
        elif (read := fraction(part)) < 1.0:
            got[node.name] = read
        several = values.nodes.get(node.inputs[0]) if node.kind == "getitem" and node.inputs else None
        inputs = node.inputs if several is None else several.inputs
        try:
            given = _given(values, node, several, part) if part is not None else {}
        except IMPOSSIBLE:
            given = {}
        if several is not None:
            if node.name in got and _ATTENTIONS in several.target:
                got[several.name] = got[node.name]
        elif values.shape(node.name) is None and all(
            user in values.nodes and values.nodes[user].kind == "getitem" for user in node.users
        ):
            # What it gives is read by what takes a result out, which asks for its inputs.
            continue
        for name in inputs:
            new = given.get(name) or values.all_of(name)
            if new is None:
                continue
            old = reads.get(name)
            reads[name] = union(old, new) if old is not None else new
    return got


def _given(values: Values, node: FxNode, several: FxNode | None, part: Part) -> dict[str, Part]:
    return _needs(values, node, part) if several is None else _of_several(values, several, node, part)


def _needs(values: Values, node: FxNode, part: Part) -> dict[str, Part]:
    """What a node reads of its inputs to give this part; an input that is not named is read in whole."""
    name = operator(node.target)
    shapes = {item: shape for item in node.inputs if (shape := values.shape(item)) is not None}
    source = node.inputs[0] if node.inputs else ""
    shape = shapes.get(source)
    if shape is None:
        return {}
    if name in _POINTWISE:
        return {item: _broadcast(part, own) for item, own in shapes.items() if len(own) <= len(part)}
    if name in SHOWN_ANEW:
        return {source: viewed(part, shape)}
    if name in _PICKS and node.arguments[:1] == (source,):
        return _PICKS[name](_Asked(values, node, shape, part))
    if name in PRODUCTS:
        return _product(node, part, shapes)
    if name == "convolution" and len(part) == len(shape):
        return {source: (same_for_all(part[0]), *whole(shape[1:]))}
    if name in REDUCTIONS:
        return {source: kept} if (kept := _reduced(node, shape, part)) is not None else {}
    if name in _ALONG and len(part) == len(shape):
        along = dimension_of(node.arguments[1:2], len(shape), -1)
        return {
            source: tuple(
                (Factor(size_of(d)),) if n == along else same_for_all(d) for n, d in enumerate(part)
            )
        }
    return {}


def _of_several(values: Values, several: FxNode, taken: FxNode, part: Part | None) -> dict[str, Part]:
    """What an operator with several results reads to give this part of one of them."""
    source = several.inputs[0] if several.inputs else ""
    shape, name = values.shape(source), operator(several.target)
    number = literal(taken.text.rsplit("[", 1)[-1].split("]")[0])
    if shape is None or part is None or not isinstance(number, int):
        return {}
    if _ATTENTIONS in several.target:
        rest = {item: own for item in several.inputs[1:3] if (own := values.shape(item)) is not None}
        if number or len(part) != len(shape) or len(rest) != 2 or source in rest:
            return {}
        first = tuple(same_for_all(dimension) for dimension in part[:-2])
        # Grouped heads of keys and values are read in whole.
        given = {
            item: (*first, *whole(own[-2:])) if own[:-2] == shape[:-2] else whole(own)
            for item, own in rest.items()
        }
        return {source: (*first, same_for_all(part[-2]), (Factor(shape[-1]),)), **given}
    if name == "var_mean" and (kept := _reduced(several, shape, part)) is not None:
        return {source: kept}
    if name == "native_layer_norm" and number == 0 and len(part) == len(shape):
        sizes = literal(several.arguments[1]) if len(several.arguments) > 1 else None
        left = len(shape) - (len(sizes) if isinstance(sizes, list) else len(shape))
        return {source: (*(same_for_all(d) for d in part[:left]), *whole(shape[left:]))}
    if name in _SPLITS:
        return _split(several, number, shape, part)
    return {}


def _split(several: FxNode, number: int, shape: Sequence[int], part: Part) -> dict[str, Part]:
    source = several.inputs[0]
    along = dimension_of(several.arguments[2:3], len(shape), 0)
    if operator(several.target) == "unbind":
        along = dimension_of(several.arguments[1:2], len(shape), 0)
        if along is None:
            return {}
        return {source: (*part[:along], narrowed(shape[along], range(number, number + 1)), *part[along:])}
    sizes = literal(several.arguments[1]) if len(several.arguments) > 1 else None
    if along is None or along >= len(part):
        return {}
    if isinstance(sizes, int):
        sizes = [sizes] * math.ceil(shape[along] / sizes)
    if (
        not isinstance(sizes, list)
        or not all(isinstance(size, int) for size in sizes)
        or number >= len(sizes)
    ):
        return {}
    start = sum(sizes[:number])
    places = range(start, min(start + sizes[number], shape[along]))
    return {source: (*part[:along], narrowed(shape[along], places, part[along]), *part[along + 1 :])}


def _broadcast(part: Part, shape: Sequence[int]) -> Part:
    """Of an operand of this shape; where it is spread, each place serves picks of many."""
    own = part[len(part) - len(shape) :]
    sizes = list(map(size_of, own))
    spread = len(shape) < len(part) or sizes != list(shape)
    return tuple(
        (Factor(size),) if size != wide else same_for_all(dimension) if spread else dimension
        for dimension, size, wide in zip(own, shape, sizes, strict=True)
    )


def factors_of(node: FxNode) -> tuple[str, ...]:
    """The names of both factors of one of PRODUCTS."""
    first = int(operator(node.target) in ADDED)
    return node.arguments[first : first + 2]


def _product(node: FxNode, part: Part, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Part]:
    left, right = factors_of(node)
    if left not in shapes or right not in shapes or left == right:
        return {}
    batch = tuple(same_for_all(dimension) for dimension in part[:-2])
    rows, columns = same_for_all(part[-2]), same_for_all(part[-1])
    inner = (Factor(shapes[left][-1]),)
    return {left: (*batch, rows, inner), right: (*batch, inner, columns)}


def _reduced(node: FxNode, shape: Sequence[int], part: Part) -> Part | None:
    """Of what is reduced: all along the dimensions that are, which the result has left out or made 1."""
    listed = literal(node.arguments[1]) if len(node.arguments) > 1 else None
    given = [listed] if isinstance(listed, int) else listed
    if not isinstance(given, list) or not all(isinstance(item, int) for item in given):
        return None
    along = {item % len(shape) for item in given if isinstance(item, int)}
    rest = iter(part if len(part) != len(shape) else [d for n, d in enumerate(part) if n not in along])
    return tuple(
        (Factor(size),) if n in along else same_for_all(next(rest, (Factor(size),)))
        for n, size in enumerate(shape)
    )


def _permuted(asked: _Asked) -> dict[str, Part]:
    order = order_of(asked.node, len(asked.shape))
    if order is None:
        return {}
    dimensions: list[Dimension] = [()] * len(asked.shape)
    for dimension, number in zip(asked.part, order, strict=True):
        dimensions[number] = dimension
    return {asked.node.inputs[0]: tuple(dimensions)}


def order_of(node: FxNode, rank: int) -> list[int] | None:
    """For each dimension of the result the one of the input that it is."""
    order = list(range(rank))
    name = operator(node.target)
    if name == "permute":
        listed = literal(node.arguments[1]) if len(node.arguments) > 1 else None
        fits = isinstance(listed, list) and len(listed) == rank and all(isinstance(i, int) for i in listed)
        return [item % rank for item in listed] if fits and isinstance(listed, list) else None
    if name == "t":
        return order[::-1]
    both = [literal(text) for text in node.arguments[1:3]]
    if len(both) != 2 or not all(isinstance(item, int) for item in both):
        return None
    a, b = (int(item) % rank for item in both if isinstance(item, int))
    order[a], order[b] = order[b], order[a]
    return order


def _expanded(asked: _Asked) -> dict[str, Part]:
    return {asked.node.inputs[0]: _broadcast(asked.part, asked.shape)}


def places_of(texts: Sequence[str], size: int) -> range | None:
    """Of so many places those of a slice: its start, stop and step as far as they are written."""
    bounds = [literal(text) for text in texts]
    given = [item if isinstance(item, int) else None for item in (*bounds, None, None, None)[:3]]
    known = all(item is None or isinstance(item, int) for item in bounds)
    return range(size)[given[0] : given[1] : given[2]] if known else None


def _sliced(asked: _Asked) -> dict[str, Part]:
    along = dimension_of(asked.node.arguments[1:2], len(asked.shape), 0)
    places = places_of(asked.node.arguments[2:5], asked.shape[along]) if along is not None else None
    if along is None or places is None:
        return {}
    new = narrowed(asked.shape[along], places, asked.part[along])
    return {asked.node.inputs[0]: (*asked.part[:along], new, *asked.part[along + 1 :])}


def _selected(asked: _Asked) -> dict[str, Part]:
    along = dimension_of(asked.node.arguments[1:2], len(asked.shape), 0)
    at = literal(asked.node.arguments[2]) if len(asked.node.arguments) > 2 else None
    if along is None or not isinstance(at, int):
        return {}
    place = at % asked.shape[along]
    return {
        asked.node.inputs[0]: (
            *asked.part[:along],
            narrowed(asked.shape[along], range(place, place + 1)),
            *asked.part[along:],
        )
    }


def _gathered(asked: _Asked) -> dict[str, Part]:
    along = dimension_of(asked.node.arguments[1:2], len(asked.shape), 0)
    index = asked.values.shape(asked.node.arguments[2]) if len(asked.node.arguments) > 2 else None
    if along is None or index is None or len(index) != len(asked.shape):
        return {}
    picked = _picks(asked.node.arguments[2], asked.shape[along], index[along], each=len(asked.shape) > 1)
    if any(size != of and n != along for n, (size, of) in enumerate(zip(index, asked.shape, strict=True))):
        return {}
    return {asked.node.inputs[0]: (*asked.part[:along], picked, *asked.part[along + 1 :])}


def _indexed(asked: _Asked) -> dict[str, Part]:
    """``x[:, index]``, ``x[rows, columns]``: picks of one dimension, or of neighbours together."""
    names = listed(asked.node.arguments[1]) if len(asked.node.arguments) > 1 else []
    at = [n for n, item in enumerate(names) if item != "None"]
    indices = [asked.values.shape(names[n]) for n in at]
    if not at or at != list(range(at[0], at[0] + len(at))) or any(item is None for item in indices):
        return {}
    known = [item for item in indices if item is not None]
    count = (
        math.prod(max(sizes, default=1) for sizes in zip(*known, strict=True))
        if (len({len(item) for item in known}) == 1)
        else 0
    )
    places = math.prod(asked.shape[n] for n in at)
    if not 0 < count < places:
        return {}
    first, rank = at[0], max(len(item) for item in known)
    dimensions: list[Dimension] = [*asked.part[:first]]
    left = count
    for n in at:
        # Rows are taken as they come; the last dimension has what that leaves for each of them.
        if n != at[-1]:
            dimensions.append((Factor(asked.shape[n]),))
            left = math.ceil(left / asked.shape[n])
        else:
            dimensions.append(_picks(names[n], asked.shape[n], left, each=len(at) > 1))
    dimensions += asked.part[first + rank :]
    return {asked.node.inputs[0]: tuple(dimensions)} if len(dimensions) == len(asked.shape) else {}


def _picked(asked: _Asked) -> dict[str, Part]:
    """``torch.index_select(x, dimension, index)``."""
    along = dimension_of(asked.node.arguments[1:2], len(asked.shape), 0)
    index = asked.values.shape(asked.node.arguments[2]) if len(asked.node.arguments) > 2 else None
    if along is None or index is None:
        return {}
    new = _picks(asked.node.arguments[2], asked.shape[along], math.prod(index), each=False)
    return {asked.node.inputs[0]: (*asked.part[:along], new, *asked.part[along + 1 :])}


def _embedded(asked: _Asked) -> dict[str, Part]:
    index = asked.values.shape(asked.node.arguments[1]) if len(asked.node.arguments) > 1 else None
    if index is None or len(asked.shape) != 2:
        return {}
    return {
        asked.node.inputs[0]: (
            _picks(asked.node.arguments[1], asked.shape[0], math.prod(index), each=False),
            same_for_all(asked.part[-1]),
        )
    }


def _picks(by: str, size: int, count: int, *, each: bool) -> Dimension:
    return (Factor(size, Picked(by, count, each) if count < size else None),)


def diagonal_of(texts: Sequence[str], rank: int) -> tuple[int, int] | None:
    """The two dimensions of a main diagonal, by its offset and their numbers as far as they are written."""
    given = [item for item in map(literal, texts) if isinstance(item, int)]
    if len(given) != len(texts) or (given[:1] or [0])[0] != 0:
        return None
    one, other = given[1:] if len(given) == 3 else (0, 1)
    return one % rank, other % rank


def _diagonal(asked: _Asked) -> dict[str, Part]:
    both = diagonal_of(asked.node.arguments[1:4], len(asked.shape))
    if both is None or asked.shape[both[0]] != asked.shape[both[1]]:
        return {}
    one, other = both
    dimensions: list[Dimension] = [*asked.part[:-1]]
    for number in sorted((one, other)):
        dimensions.insert(number, (Factor(asked.shape[number]),))
    dimensions[other] = _picks(asked.node.name, asked.shape[other], 1, each=True)
    return {asked.node.inputs[0]: tuple(dimensions)}


_PICKS: dict[str, Callable[[_Asked], dict[str, Part]]] = {
    "permute": _permuted,
    "transpose": _permuted,
    "t": _permuted,
    "expand": _expanded,
    "slice": _sliced,
    "select": _selected,
    "gather": _gathered,
    "index": _indexed,
    "_unsafe_index": _indexed,
    "index_select": _picked,
    "embedding": _embedded,
    "diagonal": _diagonal,
}

TAKES = frozenset(_PICKS) - {"permute", "transpose", "t", "expand"} | _SPLITS
"""Of these the operators that take a part."""


def dimension_of(texts: Sequence[str], rank: int, default: int) -> int | None:
    number = literal(texts[0]) if texts else default
    return number % rank if isinstance(number, int) and rank else None


def listed(text: str) -> list[str]:
    """`[None, index]`: what is in it."""
    return [item.strip() for item in text.strip("[]").split(",")]
