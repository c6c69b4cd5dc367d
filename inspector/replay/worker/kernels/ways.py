"""Which input of a launch is solved for, from what, at which places and for which targets.

What turns on one number of an intermediate result shows only where all else lets it be seen: in rows of which
the other elements add nothing, or are random, or hold what a reduction gives nearly still.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from inspector.model.replay import ValueKind
from inspector.replay.worker.kernels import numbers
from inspector.replay.worker.kernels.draws import Draws
from inspector.replay.worker.kernels.rows import one_of_each, row_of

_FAR = (
    1e-30,
    1e-20,
    1e-10,
    1e-8,
    1e-6,
    3e-5,
    1e-3,
    30.0,
    80.0,
    150.0,
    1e3,
    1e4,
    3e5,
    1e6,
    2e8,
    1e10,
    1e20,
    1e30,
)
"""Magnitudes that intermediate results are to have, and up to half as much more."""

_SOLVED_TIMES = 16
"""How often each input is solved for in each way."""

_FIRST = (1.0, 0.0, 2.0, 0.5, 3.0, 10.0)
"""Numbers that matter most, and their opposites."""

_FILLS = (
    0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 3.0, 10.0, -200.0, 1e-5, 3e9, -3e9, math.inf, -math.inf,
)  # fmt: skip
"""What all elements are in some launches of special values."""

_REACHES = (0.02, 1e-3, 3.2, 60.0)
"""Magnitudes of what is added up together."""

_VECTOR = 16
"""Elements of a vector, at most."""

_TAIL_SHARE = 0.5
"""How likely one of the elements that are handled apart comes before all others."""

_QUIET = 12
"""Elements of a row whose others are all zero, or one."""

_MOST_REDUCED = 3e8
"""Magnitude of what is solved for and its inverse, where it is reduced."""

_MOST_DIVIDED = 300.0
"""The same where remainders are taken."""

_MOST_SOLVED = 1 << 22
"""Elements of an input that is solved for."""

Way = Literal["numbers", "special", "quiet", "pinned", "dense", "sparse"]
"""Of solving: numbers or special values are drawn and not solved for, rows are zeros or ones but for what is
solved for, what reductions give is held, all else is random, or some plain numbers."""


@dataclass(frozen=True)
class Solve:
    """One time that an input, by `name`, is solved for."""

    name: str
    way: Way
    time: int


class Ways(Draws):
    """Values for the inputs of one launch, also such as are solved for."""

    def to_solve(self, flat: Mapping[str, Tensor]) -> tuple[Solve, ...]:
        """Ways to solve for an input, one after the other. `flat`: the inputs' memory, by name."""
        inputs = [
            name
            for name, memory in flat.items()
            if self._is_number(name, memory)
            and memory.numel() <= _MOST_SOLVED
            and (memory.dtype.itemsize > 1 or not memory.dtype.is_floating_point)
            and (name in self._loaded or not self._addresses)
        ]
        if not inputs:
            return ()
        ways: tuple[Way, ...] = ("numbers", "dense", "sparse", "special")
        if self._rows:
            ways = ("numbers", "quiet", "pinned", "dense", "sparse", "special")
        return tuple(
            Solve(name, way, time)
            for time in range(_SOLVED_TIMES)
            for way in ways
            for name in inputs
            if way != "special" or flat[name].dtype.is_floating_point
        )

    def drawn(
        self, solve: Solve, flat: Mapping[str, Tensor], copies: int
    ) -> tuple[dict[str, Tensor | None], Tensor | None]:
        """Values for each input, and so many times numbers or special values for that of `solve`, (copies,
        elements)."""
        number = list(flat).index(solve.name)
        kind: ValueKind = "special" if solve.way == "special" else "numbers"
        # Every other time an input holds numbers, and the others plain ones.
        step = 2 if len(self._inputs) > 1 else 1
        turns = [step * (solve.time * copies + copy) + number % step for copy in range(copies)]
        if kind == "special":
            turns = [self.special_turn(solve.name, solve.time * copies + copy) for copy in range(copies)]
        around = {
            name: self.values(kind, memory, position, name, turns[0])
            for position, (name, memory) in enumerate(flat.items())
        }
        memory = flat[solve.name]
        each = [self.values(kind, memory, number, solve.name, turn) for turn in turns]
        known = [values for values in each if values is not None]
        if kind == "special":
            fills = [value for value in _FILLS if math.isfinite(value) or not self._welford]
            for place, values in enumerate(known[:: len(known) // len(fills) or len(known)]):
                values.fill_(fills[(place + solve.time) % len(fills)])
        return around, torch.stack(known) if known else None

    def _is_number(self, name: str, memory: Tensor) -> bool:
        """Whether an input may hold any numbers, as far as is known of it."""
        if name in self._addresses or name in self._sorted or not memory.numel():
            return False
        if memory.dtype.is_floating_point:
            return True
        if memory.dtype == torch.bool or memory.dtype.is_complex or self._only_floats:
            return False
        return name in self._loaded and name not in self._divisors

    def unsolved(self, solve: Solve, now: Tensor, number: int, name: str) -> Tensor | None:
        """What stands in an input's memory before one is solved for; None where that stays as it is."""
        if not self._is_number(name, now) or (solve.way == "dense" and not now.dtype.is_floating_point):
            return None
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + 101 * number + 31 + 7 * solve.time)
        drawn = torch.randn(now.numel(), generator=generator, dtype=torch.float64)
        if solve.way == "sparse":
            drawn = numbers.plain(now.numel(), generator)
            if name == solve.name and name in self._rows:
                few = torch.rand(now.numel(), generator=generator) < 1.5 / self._rows[name][0][1]
                others = torch.full_like(drawn, 1.0 if self._multiplies else 0.0)
                if self._ends:
                    # Far off, lest they be the greatest or the least, or add up behind exp.
                    others = (-60.0 - drawn.abs()) * (1 - 2 * (solve.time % 2))
                drawn = torch.where(few, drawn, others)
        elif solve.way == "quiet" and (name in self._rows or solve.name not in self._rows):
            drawn = torch.full_like(drawn, 1.0 if self._multiplies else float(solve.time % 2))
        positive = bool((now.to(torch.float32) >= 0).all())
        drawn = drawn.abs() if positive and not (solve.time and name in self._arguments) else drawn
        if not now.dtype.is_floating_point:
            limits = torch.iinfo(now.dtype)
            return drawn.clamp(limits.min, limits.max).to(now.dtype).to(now.device)
        return (drawn.to(torch.float32) if now.dtype.itemsize == 1 else drawn).to(now.dtype).to(now.device)

    def free(self, solve: Solve, count: int, generator: torch.Generator) -> Tensor:
        """Places of the elements to solve for: one in each row, a few, or many where all rows move."""
        order = torch.randperm(count, generator=generator)
        # Vectorised code handles the last elements apart: of few of them there are many at once.
        ahead = self._tail(solve.name, count)[order] & (torch.rand(count, generator=generator) < _TAIL_SHARE)
        order = torch.cat([order[ahead], order[~ahead]])
        rows = self._rows.get(solve.name)
        if rows is not None and solve.way == "quiet" and solve.time % 3 != 1:
            order = order[: max(1, count // max(1, min(row[1] for row in rows) // _QUIET))]
        elif rows is not None and solve.way != "pinned":
            stride, length = rows[solve.time % len(rows)]
            row = row_of(count, stride, length)
            # Of each row the one that comes first.
            order = one_of_each(row, order.flip(0))
            order = order[torch.randperm(len(order), generator=generator)]
        elif rows is not None:
            # Many show what is computed before a reduction, few what is behind it.
            order = order[: max(1, count // (2 if solve.time % 2 else 8))]
        elif solve.time % 2:
            order = order[: max(1, count // 3)]
        return order

    def _tail(self, name: str, count: int) -> Tensor:
        """Which elements are the last ones of a loop that vectors don't fill."""
        place = torch.arange(count)
        if self._on_gpu:
            return torch.zeros(count, dtype=torch.bool)
        tail = place >= count - count % _VECTOR
        width = self.widths.get(name, 0)
        return tail | (place % width >= width - width % _VECTOR) if width > _VECTOR else tail

    def targets(self, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
        """What intermediate results are to be, those first that matter most."""
        foreign = self._foreign * 3
        near = numbers.pool_of([*foreign, *_FIRST, *self._constants], generator, exact=False)
        far = torch.tensor(_FAR, dtype=torch.float64)
        dtypes = [each for each in (dtype, self._narrow or dtype) if each.is_floating_point]
        limits = torch.tensor([float(torch.finfo(each).max) for each in dtypes], dtype=torch.float64)
        steps = 1.0 + 0.5 * torch.rand(len(far), generator=generator, dtype=torch.float64)
        pool = torch.cat([near, far * steps, -far * steps, limits, -limits])
        return pool

    def most(self, dtype: torch.dtype) -> float:
        """The greatest magnitude of what is solved for: squares and fourth powers that are added up may
        overflow in one order and not in another, and quotients have digits that decide a remainder."""
        if not dtype.is_floating_point:
            return float(self._reach(dtype) - 1)
        if self._quotients:
            return _MOST_DIVIDED
        return _MOST_REDUCED if self._reduces else math.inf

    def reach(self, solve: Solve, places: Tensor) -> Tensor | None:
        """The greatest magnitude of targets for the elements at these places, lest large terms of a sum hide
        the others; None for any."""
        rows = self._rows.get(solve.name)
        if solve.way == "pinned":
            return None if solve.time % 3 == 2 else torch.full(places.shape, _REACHES[-1])
        if solve.way != "quiet" or rows is None:
            return None
        stride, length = rows[0]
        row = places // (stride * length) * stride + places % stride
        return torch.tensor(_REACHES)[(row.cpu() + solve.time) % len(_REACHES)]
