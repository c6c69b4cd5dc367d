"""Rows: which elements of a memory a loop body reduces together, and values that go by rows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from inspector.replay.worker.reference.body import RANGE
from inspector.replay.worker.reference.layouts import INDEX_FUNCTIONS

_RANGES = re.compile(r"var_ranges = \{(.*)\}")
_INDEX = re.compile(r"^ *(index\d+) = (.*)$", re.MULTILINE)
_GOT = re.compile(r"(\w+) = self\.get_index\('(index\d+)'\)")
_LOAD = re.compile(r"ops\.load\('(\w+)', (\w+)\)")
_REDUCED = re.compile(r"ops\.store_reduction\('\w+', (\w+),")

_MOST_STEPS = 1 << 16
"""Elements that are looked at for a row's stride."""

SORTS = 10
"""Of rows, in `by_row`."""


def rows_of(body: str, symbols: Mapping[str, object] | None = None) -> Iterator[tuple[str, tuple[int, int]]]:
    """Of each buffer that a loop body reduces, what one row is: the stride and the number of its elements.
    Loop variables that the reduction's result is not stored by are reduced. `symbols`: symbolic sizes."""
    ranges = _RANGES.search(body)
    if ranges is None or "store_reduction" not in body:
        return
    known = {**INDEX_FUNCTIONS, **(symbols or {})}
    try:
        extents = {pair["name"]: int(eval(pair["extent"], dict(known))) for pair in RANGE.finditer(ranges[1])}
    except (NameError, TypeError):
        return
    indices = dict(_INDEX.findall(body))
    got = {local: indices.get(name, "") for local, name in _GOT.findall(body)}
    kept = " ".join(got.get(local, "") for local in _REDUCED.findall(body))
    for name, local in _LOAD.findall(body):
        steps = {
            variable: step
            for variable in extents
            if not re.search(rf"\b{variable}\b", kept)
            and (step := _step(got.get(local, ""), variable, extents, known))
        }
        if steps:
            yield name, (min(steps.values()), math.prod(extents[variable] for variable in steps))


def _step(index: str, variable: str, extents: Mapping[str, int], known: Mapping[str, object]) -> int:
    """How far apart the elements are that a variable runs over, forwards, backwards or from the middle on; 0
    where they are not as far apart as each other."""
    if not re.search(rf"\b{variable}\b", index):
        return 0
    every = torch.arange(min(extents[variable], _MOST_STEPS))
    names = {**known, **dict.fromkeys(extents, 0), variable: every}
    try:
        places = torch.as_tensor(eval(index, names)).reshape(-1).sort().values
    except (NameError, TypeError):
        return 0
    steps = places.diff().unique()
    return int(steps[0]) if len(steps) == 1 else 0


def row_of(count: int, stride: int, length: int) -> Tensor:
    """The row that each element of a flat memory is in."""
    place = torch.arange(count)
    return place // (stride * length) * stride + place % stride


def one_of_each(row: Tensor, order: Tensor) -> Tensor:
    """A place in each row, the one that comes last in an `order` of all places."""
    return row.new_zeros(int(row.max()) + 1).scatter_(0, row[order], order)


def rows_on(rows: int) -> int:
    """By how many sorts one time is ahead of the time before."""
    return max(1, min(rows, 4))


def by_row(
    row: Tensor, number: int, generator: torch.Generator, time: int, constants: Sequence[float]
) -> Tensor:
    """Rows from the last one on: negative, a few values, one value, zero, -inf, inf, tiny, large, positive,
    far from zero; beside those of another input, by its `number`, in every ten rows others. The second `time`
    has others first, as vectorised code handles the last ones apart, and so have further ones of few rows."""
    base = torch.randn(row.numel(), generator=generator, dtype=torch.float64)
    count = int(row.max()) + 1
    back = count - 1 - row
    group, turn = back // SORTS, time % 2
    ahead = max(1, time - 1) * rows_on(count) if time else 0
    sort = (back + ahead + number * (1 + 2 * group)) % SORTS
    pool = torch.tensor([1.0, -1.0, 2.0, -2.5, -0.5, *constants], dtype=torch.float64)
    alike = pool[(group + 3 - time) % pool.numel()]
    few = torch.where(base < 0, pool[(group + time) % pool.numel()], 0.0)
    shuffled = torch.randperm(row.numel(), generator=generator) % (pool.numel() + 1)
    few = torch.where((group + time) % 2 == 0, few, torch.cat([pool, pool.new_zeros(1)])[shuffled])
    tiny = torch.where((group + time) % 2 + time // 2 == 0, 1e-4, 1e-8)
    drawn = base
    positive = base.abs() + 0.1
    for number, values in enumerate(
        (-positive, few, alike, 0.0, -math.inf, math.inf, base * tiny, 1e3 * base, positive, base + 1e3)
    ):
        drawn = torch.where(sort == number, values, drawn)
    if time > 1:
        return drawn
    # In every other group of ten rows one element of each (of every other row, the second time) is NaN or
    # infinite, often the last.
    places = torch.arange(row.numel())
    order = torch.randperm(row.numel(), generator=generator)
    one = one_of_each(row, order)
    last = one.clone().scatter_reduce_(0, row, places, "amax")
    alone = torch.where(row % 2 == 0, last[row], one[row]) == places
    odd = alone & (group % 2 != turn) & ((back % 2 == 0) | (turn == 0)) & (sort != 1) & (sort != 2)
    return torch.where(odd, torch.where(back // 2 % 2 != turn, math.nan, math.inf), drawn)


def capped(values: Tensor, row: Tensor, pool: Tensor) -> Tensor:
    """Rows whose greatest element (of every other row the least) is each value of the pool in turn."""
    end = pool[(row // 2) % pool.numel()]
    return torch.where(row % 2 == 0, torch.minimum(values, end), torch.maximum(values, end))


def paired(values: Tensor, row: Tensor, pool: Tensor, number: int, generator: torch.Generator) -> Tensor:
    """Every fourth row of one element beside zeros, and every fourth of others from the pool, which inputs of
    one size have alike where their `generator` is: every other time every other input with the other sign."""
    shared = pool[torch.randint(pool.numel(), (row.numel(),), generator=generator)]
    order = torch.randperm(row.numel(), generator=generator)
    one = one_of_each(row, order)
    alone = one[row] == torch.arange(row.numel())
    sign = 1.0 - 2.0 * ((number % 2) * (row // 4 % 2))
    single = torch.where(alone, torch.where(shared == 0, 1.0, shared), 0.0)
    return torch.where(row % 4 == 2, sign * single, torch.where(row % 4 == 3, sign * shared, values))
