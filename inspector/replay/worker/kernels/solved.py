"""Values for one input of a launch at which what its loops compute on the way reaches a number.

An element of the input is free, all else is as it is; an intermediate result that no other free element moves
is then a function of that one number. Where it passes a target between two numbers of a ladder, bisection in
the order of the dtype's own numbers ends at two neighbours, on both sides of the target or on it. All free
elements are found at once, each for an intermediate result and a target of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from inspector.replay.worker.reference.watched import NONE, PAIRS, Site, Watch

_LADDER = (
    0.0, 1e-30, 1e-10, 1e-5, 1e-3, 0.03, 0.2, 0.6, 1.1, 1.7, 2.6, 4.5, 9.0, 30.0, 95.0,
    500.0, 1e4, 1e6, 1e10, 1e20, 1e38,
)  # fmt: skip
"""Magnitudes between which a result is looked for."""

_MOST_FREE = 4096
"""Elements that are solved for at once."""

_MOST_MEMORY = 1 << 17
"""Elements of the memories of all launches that are solved for at once."""

_STEPS = 18
"""Of each element on the ladder."""

_TRIES = 8
"""Targets of each element, of which the first is taken that can be had."""

_FIRST_MORE = 3.0
"""Of every second element's chances: half of them lie in the first eighth of the targets."""

_PINNED_TIMES = 2
"""How often results of reductions are taken anew."""

_THINNED_TIMES, _THINNER = 3, 3
"""How often fewer elements are taken where several move all that is computed, and how many fewer."""

_RARELY = 0.6
"""How likely operands are made equal where that matters little, beside what matters."""

_APART_FROM, _APART_TO = 1e-7, 1e-2
"""How far apart two operands of a comparison are to be."""


class Solver:
    """`name`: of the input, a buffer; `run` evaluates the loops with this flat memory for it, while something
    looks on; `pool`: the targets, float64; `generator` decides what is random; `reach`: of the elements at
    these places the greatest magnitude of their targets, None for any; `most`: that of the numbers, and the
    inverse of the least; `copies`: launches that are solved for at once, at most."""

    def __init__(
        self,
        name: str,
        run: Callable[[Tensor, Watch], None],
        pool: Tensor,
        generator: torch.Generator,
        reach: Callable[[Tensor], Tensor | None] = lambda _: None,
        most: float = math.inf,
        copies: int = 12,
    ) -> None:
        self.results: dict[str, tuple[Tensor, Tensor]] = {}
        """By buffer what the loops make of the solution, (copies, elements), and where they do."""
        self._copies = copies
        self._reach = reach
        self._most = most
        self._name = name
        self._run = run
        self._pool = pool
        self._generator = generator

    def solve(self, base: Tensor, free: Tensor, *, pinned: bool = False) -> Tensor | None:
        """Flat memories (copies, elements), each as `base` with values of its own at the places `free`; None
        where nothing that is computed depends on one of these alone. `pinned`: what reductions give is held,
        and taken anew, as every element of a row moves it a little."""
        watch = self._watched(base, free[:0], pinned)
        if watch.loaded is None:
            return None
        free = free[watch.loaded[free]]
        free = free[torch.randperm(len(free), generator=self._generator)[:_MOST_FREE].to(free.device)]
        watch = self._watched(base, free, pinned)
        for _ in range(_THINNED_TIMES):
            computed = any(site.operator != "load" for site in watch.sites)
            if computed or len(free) < _THINNER:
                break
            # Neighbours in a sum, say, move all that is computed together.
            free = free[torch.randperm(len(free), generator=self._generator)[::_THINNER].to(free.device)]
            watch = self._watched(base, free, pinned)
        if not watch.sites or not len(free):
            return None
        copies = max(1, min(self._copies, _MOST_FREE // len(free), _MOST_MEMORY // len(base)))
        memory = base.expand(copies, -1).clone()
        wanted = self._wanted(watch, copies, len(free), self._reach(free))
        for time in range(_PINNED_TIMES if pinned else 1):
            if time:
                watch.again(memory, held=False)
            memory[:, free] = self._bisected(memory, free, watch, wanted, held=pinned)
        watch.again(memory, held=False)
        self.results = watch.results()
        return memory

    def drawn(self, memories: Tensor) -> None:
        """Has the `results` of flat memories that are not solved for, (copies, elements)."""
        watch = self._watched(memories[0], torch.arange(memories.shape[1], device=memories.device), False)
        watch.again(memories, held=False)
        self.results = watch.results()

    def _watched(self, memory: Tensor, free: Tensor, pinned: bool) -> Watch:
        owners = torch.full((memory.numel(),), NONE, device=memory.device)
        owners[free] = torch.arange(len(free), device=memory.device)
        watch = Watch({self._name: owners}, self._name, pinned=pinned)
        self._run(memory, watch)
        return watch

    def _wanted(self, watch: Watch, copies: int, each: int, reach: Tensor | None) -> _Wanted:
        count = copies * each
        reach = reach if reach is None else reach.repeat(copies)
        best = torch.full((count,), -1.0)
        at, place = torch.full((count,), -1), torch.zeros(count, dtype=torch.int64)
        targets = torch.zeros((_TRIES, count), dtype=torch.float64)
        for number, site in enumerate(watch.sites):
            chance = torch.full((copies, each), -2.0)
            where = torch.zeros((copies, each), dtype=torch.int64)
            numbers, places = site.numbers.cpu(), site.places.cpu()
            # Of the several places that one element moves any.
            order = torch.randperm(len(numbers), generator=self._generator)
            where[:, numbers[order]] = places[order]
            chance[:, numbers] = torch.rand((copies, len(numbers)), generator=self._generator)
            if site.apart and site.operator in PAIRS:
                chance *= _RARELY
            better = chance.reshape(-1) > best
            best = torch.where(better, chance.reshape(-1), best)
            at = torch.where(better, number, at)
            place = torch.where(better, where.reshape(-1), place)
            tries = self._spread(count, reach)
            if site.apart:
                tries = torch.zeros_like(tries) if site.operator in PAIRS else self._apart(count)
            targets = torch.where(better, tries, targets)
        return _Wanted(watch.sites, at, place, targets, copies)

    def _spread(self, count: int, reach: Tensor | None) -> Tensor:
        """Targets, each of the pool as often as there is room; of few, and of every second, the first of the
        pool more often."""
        chance = torch.rand(_TRIES * count, generator=self._generator, dtype=torch.float64)
        if count >= len(self._pool):
            chance = torch.randperm(_TRIES * count, generator=self._generator) / (_TRIES * count)
        else:
            chance = chance**2
        chance = chance.reshape(_TRIES, count)
        chance[:, ::2] **= _FIRST_MORE
        if reach is None:
            return self._pool[(chance * len(self._pool)).to(torch.int64)]
        size, order = self._pool.abs().sort()
        number = torch.searchsorted(size, reach.to(torch.float64), right=True).clamp(min=1)
        return self._pool[order[(chance * number).to(torch.int64)]]

    def _apart(self, count: int) -> Tensor:
        chance = torch.rand((_TRIES, count), generator=self._generator, dtype=torch.float64)
        low, high = math.log10(_APART_FROM), math.log10(_APART_TO)
        size = 10.0 ** (low + (high - low) * chance)
        sort = torch.randint(5, (_TRIES, count), generator=self._generator)
        return torch.where(sort == 0, 0.0, torch.where(sort % 2 == 0, size, -size))

    def _bisected(self, memory: Tensor, free: Tensor, watch: Watch, wanted: _Wanted, held: bool) -> Tensor:
        """Of each free element of each copy the number; as it was where there is none."""
        device, dtype, before = memory.device, memory.dtype, memory[:, free]
        count = before.numel()
        scratch = memory.clone()

        def values(keys: Tensor) -> Tensor:
            scratch[:, free] = _number(keys, dtype).reshape(before.shape)
            watch.again(scratch, held=held)
            return wanted.values(watch)

        steps = self._steps(self._ladder(dtype), count).to(device)
        seen = torch.stack([values(keys) for keys in steps])
        target, crosses = wanted.reached(seen)
        above, solved = seen >= target, crosses.any(0)
        # Any of the crossings.
        chances = torch.rand(crosses.shape, generator=self._generator).to(device)
        chosen = torch.where(crosses, chances, -1.0).argmax(0)
        each = torch.arange(count, device=device)
        low, high, rising = steps[chosen, each], steps[chosen + 1, each], above[chosen + 1, each]
        low = torch.where(solved, low, high)
        # Half of a sum that may overflow.
        while bool(((middle := (low & high) + ((low ^ high) >> 1)) != low).any()):
            up = (values(middle) >= target) == rising
            low, high = torch.where(up, low, middle), torch.where(up, middle, high)
            low = torch.where(solved, low, high)
        at_low, at_high = ((values(keys) - target).abs() for keys in (low, high))
        chance = torch.rand(count, generator=self._generator).to(device)
        nearer = torch.where(at_low <= at_high, low, high)
        beside = nearer + torch.randint(-3, 4, (count,), generator=self._generator).to(device)
        keys = torch.where(chance < 0.55, nearer, torch.where(chance < 0.75, low + high - nearer, beside))
        return torch.where(solved, _number(keys, dtype), before.reshape(-1)).reshape(before.shape)

    def _ladder(self, dtype: torch.dtype) -> Tensor:
        """Keys of the numbers between which a result is looked for."""
        ladder = torch.tensor([*(-x for x in reversed(_LADDER[1:])), *_LADDER], dtype=torch.float64)
        if not dtype.is_floating_point:
            most, least = min(self._most, torch.iinfo(dtype).max), max(-self._most, torch.iinfo(dtype).min)
            # As far as float64 has all integers.
            return ladder.clamp(max(least, -(2.0**52)), min(most, 2.0**52)).round().to(torch.int64).unique()
        size = ladder.abs()
        inside = (size < min(self._most, torch.finfo(dtype).max)) & ((size == 0) | (size > 1 / self._most))
        return _key(ladder[inside].to(dtype))

    def _steps(self, ladder: Tensor, count: int) -> Tensor:
        """Keys of (steps, count) between which elements are looked for, as far apart as the ladder's."""
        at = torch.arange(_STEPS)[:, None] + torch.rand(count, generator=self._generator, dtype=torch.float64)
        at = at / _STEPS * (len(ladder) - 1)
        lower = at.floor().to(torch.int64).clamp(max=len(ladder) - 2)
        return ladder[lower] + ((at - lower) * (ladder[lower + 1] - ladder[lower])).to(torch.int64)


class _Wanted:
    """Of each free element of each copy the site (-1 for none), the place there, the targets that may do."""

    def __init__(
        self, sites: Sequence[Site], at: Tensor, place: Tensor, targets: Tensor, copies: int
    ) -> None:
        self._targets = targets
        self._copies = copies
        device = sites[0].places.device
        copy = torch.arange(len(at)) // (len(at) // copies)
        order = torch.sort(at, stable=True).indices
        self._back = torch.sort(order).indices.to(device)
        self._places = {
            number: (copy[at == number].to(device), place[at == number].to(device))
            for number in at.unique().tolist()
            if number >= 0
        }
        self._none = int((at < 0).sum())

    def reached(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Of each element the first of its targets that is passed between two of the values that were `seen`,
        (steps, elements), which is its only one from now on; and between which ones."""
        target = self._targets[0].to(seen.device)
        known = ~seen[1:].isnan() & ~seen[:-1].isnan()
        passed = torch.zeros_like(known)
        for tried in self._targets.to(seen.device):
            above = seen >= tried
            crosses = (above[1:] != above[:-1]) & known & ~passed.any(0)
            target = torch.where(crosses.any(0), tried, target)
            passed |= crosses
        self._targets = target[None]
        return target, passed

    def values(self, watch: Watch) -> Tensor:
        """What is computed for each free element; NaN where nothing is."""
        parts = [
            watch.value(watch.sites[number], self._copies)[place].to(torch.float64)
            for number, place in self._places.items()
        ]
        none = torch.full((self._none,), math.nan, dtype=torch.float64, device=self._back.device)
        return torch.cat([none, *parts])[self._back]


def _key(values: Tensor) -> Tensor:
    """Integers in the order of a floating dtype's numbers, neighbours next to each other."""
    bits = values.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[values.dtype.itemsize])
    wide = bits.to(torch.int64)
    return torch.where(wide < 0, -(wide & ((1 << (8 * values.dtype.itemsize - 1)) - 1)), wide)


def _number(keys: Tensor, dtype: torch.dtype) -> Tensor:
    """The numbers of these keys, which integers are themselves; the largest beyond it, no denormal ones."""
    if not dtype.is_floating_point:
        return keys.clamp(torch.iinfo(dtype).min, torch.iinfo(dtype).max).to(dtype)
    kind = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    magnitude = keys.abs().to(kind).view(dtype)
    value = torch.where(keys < 0, -magnitude, magnitude)
    value = torch.where(value.isnan(), torch.finfo(dtype).max, value)
    # A device may flush denormal numbers.
    least = torch.finfo(dtype).smallest_normal
    return torch.where((magnitude > 0) & (magnitude < least), least * value.sign(), value).to(dtype)
