"""Rows that are sorted, picked from or attended to by one query and windows whose means are taken, which
libraries go through one by one on a CPU, or in many launches on a GPU.

What another way to write them wins was timed: benchmarks/results/awkward-calls.txt.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from inspector.frozen import dataclass
from inspector.model.account import Interval
from inspector.model.fx import FxNode

# 2, -1, dim=1
_DIM = re.compile(r"(?:dim ?= ?)?(-?\d+)$")
Shape = tuple[int | None, ...]
"""None for what is symbolic; empty for what is no tensor."""
MANY = 100
"""Of fewer matrices or rows a call takes as long as its launch."""
FEW = 2
"""Of a row's smallest or largest elements: of so many each is a minimum or maximum of what is left."""
SHORT_ROW = 64
"""Elements of a row whose smallest two were found 1.5 to 3.4 times as fast so on a CPU; of 512 1.4 times."""
_SMALLEST: Interval = (0.3, 0.7)
NETWORK_ROW = 31
"""Elements of a row that pairs of minimum and maximum put in order."""
_SORTED: Interval = (0.45, 0.93)
"""Saved so of what sorting them or their median takes on a CPU: of rows a half to two thirds, of windows that
lie side by side, whose columns fill vectors, nine tenths."""
SORTED_ALONE = 1024
"""Elements of a row that numpy sorts in less time: it keeps no indices, and has vectors for it."""
_MIDDLING = 256
"""Elements of a row: of longer ones numpy wins less."""
_BESIDE_ATEN: dict[str, tuple[Interval, Interval]] = {
    "float32": ((0.06, 0.18), (0.06, 0.3)),
    "float64": ((0.12, 0.22), (0.12, 0.6)),
    "int32": ((0.08, 0.18), (0.08, 0.4)),
    "int64": ((0.15, 0.26), (0.15, 0.85)),
}
"""numpy's time in one thread over ATen's in two, of rows of 32 to `_MIDDLING`, and of up to `SORTED_ALONE`
elements (numpy 2.4, AVX-512; benchmarks/results/awkward-calls.txt)."""
LARGE_WINDOW = 26
"""Elements of a window that Inductor has no code for (torch/_inductor/lowering.py: avg_poolnd)."""
_MEANS: Interval = (0.75, 0.97)
"""Saved of what `avg_pool2d` over such windows takes on a CPU, one after the other, by running sums."""
_RUNNING_SUMS = (
    "take differences of running sums, for each long side of the window: s = F.pad(x.cumsum(-1), (1, 0)), "
    "then s[..., i + r + 1] - s[..., i - r], with these places clamped to the edges, over how many they are "
    "(in double precision where means are small beside the values)"
)

MANY_WEIGHTS = 1 << 13
"""Of all rows of which `multinomial` picks one each on a CPU: of fewer a call takes as long as its launch."""
_PICKS: tuple[Interval, Interval] = ((0.75, 0.94), (0.35, 0.9))
"""Saved of what that takes on a CPU, with a random number for each weight, and on a GPU, in ten launches and
more: running sums, with one for each row, were 4 to 18 times as fast, and 1.6 to 10 times."""
_BY_SUMS = (
    "pick where a running sum passes a random number, of which a row takes one and not one for each weight "
    "(other numbers for the same seed): s = p.cumsum(-1), then (s <= torch.rand_like(s[..., :1]) * "
    "s[..., -1:]).sum(-1, keepdim=True).clamp(max=s.shape[-1] - 1)"
)

_ATTENDED: Interval = (0.1, 0.55)
"""Saved of attention of one query on a CPU by products and their sums, with which what is around them fuses:
1.14 to 2.3 times as fast; of two to four queries 1.1 to 1.2 times."""
_BY_PRODUCTS = (
    "write it out, where a query is one: w = ((q * k).sum(-1) * q.shape[-1] ** -0.5).softmax(-1) (a mask is "
    "added before), then (w[..., None] * v).sum(-2, keepdim=True)"
)


@dataclass(frozen=True, slots=True)
class Awkward:
    """What a library does badly (a kind's name), on what, how to do without, and what part of the time that
    saves. `opaque` is advice that Inductor can't look into, `inference` one that helps where nothing is
    trained; `terms` counts those of a sum that it advises to write out."""

    kind: str
    given: str
    advice: str
    saved: Interval
    why: str = "which libraries do badly"
    opaque: bool = False
    inference: bool = False
    terms: int = 0


def rows(name: str, node: FxNode, nodes: Mapping[str, FxNode], shape: Shape, threads: int) -> Awkward | None:
    """Of the last dimension: what is strided a library copies first."""
    numbers = [int(match[1]) for text in node.arguments[1:] if (match := _DIM.match(text)) is not None]
    few, dims = (numbers[0] if numbers else 0, numbers[1:]) if name == "topk" else (0, numbers)
    length = shape[-1] if shape else None
    many = product(shape[:-1])
    if length is None or length < 2 or (dims[:1] or [-1])[0] not in (-1, len(shape) - 1):
        return None
    if many is not None and many < MANY:
        return None
    given = f"{'many' if many is None else f'{many:,}'} rows of {length}"
    if name == "topk":
        advice = (
            "take a minimum or maximum, hide it where torch.arange is its place, and take the next one: "
            "Inductor has code for both"
        )
        return Awkward(name, given, advice, _SMALLEST) if 0 < few <= FEW and length <= SHORT_ROW else None
    if read_of(node, nodes) != {"0"}:
        return None
    if length > NETWORK_ROW:
        return _sorted_alone(name, node, nodes, length, given, threads) if length <= SORTED_ALONE else None
    advice = (
        "put their columns in order with torch.minimum and torch.maximum of neighbours, in as many turns as "
        "there are columns: one kernel of vectors"
    )
    return Awkward(name, given, advice, _SORTED)


def _sorted_alone(
    name: str, node: FxNode, nodes: Mapping[str, FxNode], length: int, given: str, threads: int
) -> Awkward | None:
    """Values without their places, as numpy sorts them in one thread."""
    dtype = _dtype_given(node, nodes)
    if name != "sort" or not threads or dtype not in _BESIDE_ATEN:
        return None
    ratios = _BESIDE_ATEN[dtype][length > _MIDDLING]
    most, least = (max(1 - ratio * threads / 2, 0.0) for ratio in ratios)
    advice = (
        "nobody reads where the elements lay: sort the values alone in a torch.library.custom_op (with "
        "register_fake), torch.from_numpy(numpy.sort(x.numpy())), which keeps no indices and sorts by vectors"
    )
    return Awkward(name, given, advice, (least, most), opaque=True) if most else None


def means(node: FxNode, shape: Shape) -> Awkward | None:
    """Of windows that overlap at every step; of others each element is read once anyway."""
    numbers = [[int(number) for number in re.findall(r"\d+", text)] for text in node.arguments[1:3]]
    window, step = (*numbers, [], [])[:2]
    window = window * 2 if len(window) == 1 else window
    if math.prod(window) < LARGE_WINDOW or not step or set(step) != {1}:
        return None
    given = f"windows of {in_words(window)} in tensors of {in_words(shape)}"
    return Awkward("means", given, _RUNNING_SUMS, _MEANS)


def picks(node: FxNode, shape: Shape, gpu: bool) -> Awkward | None:
    """One of each row, by its weights."""
    many = product(shape)
    if not shape or node.arguments[1:2] != ("1",):
        return None
    if not gpu and (many is None or many < MANY_WEIGHTS):
        return None
    given = f"one of each row in tensors of {in_words(shape)}"
    return Awkward("picks", given, _BY_SUMS, _PICKS[gpu])


def attended(node: FxNode, nodes: Mapping[str, FxNode], shape: Shape) -> Awkward | None:
    """Keys and values that one query reads, as in a decoder that keeps them."""
    if len(shape) != 4 or shape[-2] != 1 or _dtype_given(node, nodes) != "float32":
        return None
    given = f"one query in tensors of {in_words(shape)}"
    return Awkward("attention", given, _BY_PRODUCTS, _ATTENDED, inference=True)


def _dtype_given(node: FxNode, nodes: Mapping[str, FxNode]) -> str:
    """Of its first argument; empty where that is no tensor, or nothing is known of it."""
    of = nodes.get(node.arguments[0])
    return of.meta.dtype if of is not None and of.meta is not None else ""


def in_words(sizes: Iterable[int | None]) -> str:
    """`1x4x360xn`, with an n for what is symbolic."""
    return "x".join("n" if size is None else str(size) for size in sizes)


def product(sizes: Shape) -> int | None:
    """None where one of them is symbolic."""
    known = [size for size in sizes if size is not None]
    return math.prod(known) if len(known) == len(sizes) else None


def read_of(node: FxNode, nodes: Mapping[str, FxNode]) -> set[str] | None:
    """Which of its results anybody reads; None where more than those are told of."""
    users = [nodes[user] for user in node.users if user in nodes and nodes[user].kind == "getitem"]
    return {user.arguments[1] for user in users} if len(users) == len(node.users) else None
