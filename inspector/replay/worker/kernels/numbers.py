"""Draws of single numbers, each at a place of its own: what a kernel makes of one number alone may be wrong.

Whole and half numbers, powers of two and of ten, a kernel's constants, and numbers close to them on both
sides. Where rows are reduced a row holds a few of them among zeros, lest the others hide them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch import Tensor

_WHOLE = (*range(-8, 9), *range(9, 17), *range(-16, -8))
_HALVES = tuple(whole + 0.5 for whole in range(-8, 8))
_POWERS = (20.0, 30.0, 32.0, 50.0, 64.0, 100.0, 127.0, 128.0, 255.0, 256.0, 0.75, 0.25, 0.1, 0.01, 0.001)

# 0.5, 1e-05, 3.4028234e38f, 65504.f, but neither tmp1.5 nor a part of a longer number
_LITERAL = re.compile(r"(?<![\w.])(\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)")

_STEPS = (4e-3, 3e-4, 5e-6)
"""How far off numbers are that lie close to another, and up to twice as far."""

_PLAIN = (1.0, 1.0, 1.0, 2.0, -1.0, -0.5, 0.0, 20.0, -20.0)
"""What stands beside numbers of another input, so that neither a sum nor a product hides those."""

BANDS = ((0.0, 1e-4), (1e-4, 0.02), (0.02, 0.8), (0.8, 4.0), (4.0, 14.0), (14.0, float("inf")))
"""Magnitudes that hide none of each other in a sum, of squares too."""

_SHORT = 8
"""Elements of a row all of which are numbers."""

_LIMITS = (-128, -127, 32, 64, 100, 126, 127, 128, 255, 256)
"""Integers beside small ones."""


def literals(code: str) -> list[float]:
    """The floating numbers that a kernel's source is written with, each once, in their order."""
    body = code.partition('extern "C"')[2] or code.partition("\ndef ")[2] or code
    return list(dict.fromkeys(float(number) for number in _LITERAL.findall(body)))


def pool_of(constants: Sequence[float], generator: torch.Generator, *, exact: bool) -> Tensor:
    """Float64, those first that matter most. `exact`: only such as quotients have a certain answer for."""
    own = [*constants, *(-each for each in constants)]
    pool = torch.tensor([*own, *_HALVES, *_WHOLE], dtype=torch.float64)
    if exact:
        return pool
    powers = torch.tensor([*_POWERS, *(-each for each in _POWERS)], dtype=torch.float64)
    base = torch.tensor([0.0, 1.0, -1.0, *constants[:8]], dtype=torch.float64)[:, None]
    steps = torch.tensor([*_STEPS, *(-each for each in _STEPS)], dtype=torch.float64)
    spread = 1.0 + 0.9 * torch.rand(len(base), len(steps), generator=generator, dtype=torch.float64)
    return torch.cat([pool, powers, (base + base.abs().clamp(min=1.0) * steps * spread).flatten()])


def plain(count: int, generator: torch.Generator) -> Tensor:
    return scattered(torch.tensor(_PLAIN, dtype=torch.float64), count, 0, generator)


def scattered(pool: Tensor, count: int, turn: int, generator: torch.Generator) -> Tensor:
    """All of the pool, as often as there is room; a `turn` begins behind the one before."""
    places = torch.randperm(count, generator=generator)
    return pool[(places + turn * count) % len(pool)]


def among(
    pool: Tensor,
    row: Tensor,
    turn: int,
    generator: torch.Generator,
    *,
    turns: int,
    beside: float,
    ends: bool,
) -> Tensor:
    """Rows that hold a few numbers of the pool each, of about one size, at places of their own, `beside`
    others that are all the same: zeros, or ones, which a product keeps and a norm shows. So many `turns` hold
    all of the pool, of few rows one for each of `BANDS`. Short rows hold nothing else.
    `ends`: each row holds one number, which is its greatest or its least. `row` as `rows.row_of` has it."""
    rows, count = int(row.max()) + 1, row.numel()
    length = -(-count // rows)
    if turns == len(BANDS) and not ends and length > _SHORT:
        drawn = torch.full((count,), beside, dtype=torch.float64)
        for number in range(rows):
            low, high = BANDS[(number + turn) % turns]
            own = pool[(pool.abs() >= low) & (pool.abs() < high)]
            places = (row == number).nonzero().reshape(-1)
            places = places[torch.randperm(len(places), generator=generator)[: length // 2]]
            own = own[torch.randperm(len(own), generator=generator)[: len(places)]]
            drawn[places[: len(own)]] = own
        return drawn
    few = -(-len(pool) // (turns * rows))
    each = 1 if ends else length if length <= _SHORT else min(few, length // 2)
    order = torch.randperm(count, generator=generator)
    # By rows, within one in any order: the first few of each.
    order = order[torch.sort(row[order], stable=True).indices]
    sorted_rows = row[order]
    rank = torch.arange(count) - torch.searchsorted(sorted_rows, torch.arange(rows))[sorted_rows]
    chosen = rank < each
    taken = order[chosen]
    number = sorted_rows[chosen] * each + rank[chosen] + turn * rows * each
    values = (pool if ends else pool[pool.abs().sort().indices])[number % len(pool)]
    if not ends:
        return torch.full((count,), beside, dtype=torch.float64).scatter_(0, taken, values)
    end = torch.zeros(rows, dtype=torch.float64).scatter_(0, sorted_rows[chosen], values)[row]
    away = torch.rand(count, generator=generator, dtype=torch.float64) + 0.25
    side = torch.where((row + turn) % 2 == 0, -1.0, 1.0)
    drawn = end + away * side
    # Another one nearly as great, or as little.
    second = order[rank == each]
    step = torch.tensor(_STEPS, dtype=torch.float64)[(row[second] // 2 + turn) % len(_STEPS)]
    drawn[second] = end[second] + side[second] * step * end[second].abs().clamp(min=1.0)
    return drawn.scatter_(0, taken, values)


def integers(
    dtype: torch.dtype, count: int, turn: int, generator: torch.Generator, *, divides: bool
) -> Tensor:
    """All integers of 8 bits where there is room for them; else small ones and limits. `divides`: as a
    divisor, which neither is zero nor makes the least of all overflow."""
    limits = torch.iinfo(dtype)
    if divides:
        pool = [whole for whole in _WHOLE if whole > 0 or (whole < -1 and limits.min < 0)]
    elif dtype.itemsize == 1 and count >= 256:
        pool = list(range(limits.min, limits.max + 1))
    else:
        pool = [each for each in (*_WHOLE, *_LIMITS) if limits.min <= each <= limits.max]
    return scattered(torch.tensor(pool), count, turn, generator).to(dtype)
