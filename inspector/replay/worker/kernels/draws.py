"""Kinds of values for a launch beside those that it really gets, chosen from what its loop bodies do.

Random numbers never tie, are never zero, large or infinite: a `>` in place of a `>=`, a lost sign of a
clamp or a NaN that is swallowed show only for values that matter to the comparison.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from inspector.model.replay import ValueKind
from inspector.replay.worker.kernels import numbers
from inspector.replay.worker.kernels.rows import (
    SORTS,
    by_row,
    capped,
    one_of_each,
    paired,
    row_of,
    rows_of,
    rows_on,
)
from inspector.replay.worker.kernels.sources import LOADED, quotients, sources

_CONSTANT = re.compile(r"ops\.constant\((-?[\d.]+(?:e[-+]?\d+)?), torch\.(\w+)\)")
_OPERATOR = re.compile(r"ops\.(\w+)\(")
# reduction = ops.reduction(torch.float32, torch.float32, 'welford_combine', (load, load_1, load_2))
_COMBINED = re.compile(r"'welford_combine', \(\w+, (\w+), (\w+)\)")
_LOADED_AS = re.compile(r"(\w+) = ops\.load\('(\w+)'")
_ADDRESS = re.compile(r"(?:set_indirect\d+|device_assert\w*|check_bounds)\((\w+)")
_DECIDES = re.compile(r"ops\.(?:lt|gt|le|ge|eq|ne|isnan|isinf)\(|'arg(?:max|min)'")
"""What gives one of several indices for any values: each outcome is one that the graph may have."""
_DIVISOR = re.compile(
    r"ops\.(?:floordiv|truncdiv|mod|remainder|fmod|int_truediv|lshift|rshift|pow)\(\w+, (\w+)"
)
_SORTED = re.compile(r"ops\.bucketize\(\w+, \('(\w+)'")

_OVERFLOWS = frozenset({"add", "sub", "mul", "neg", "abs", "square", "reduction", "fma", "atomic_add"})
_SMOOTH = frozenset(
    {"exp", "exp2", "expm1", "erf", "tanh", "sigmoid", "log", "rsqrt", "truediv", "pow", "sqrt"}
)

_STEEP = frozenset({"exp", "exp2", "expm1", "pow", "erf"})
"""Operators of which huge values have nothing to show: they overflow at once."""

_LOOSE = frozenset({"sort", "bucketize"})
"""Operators whose result for NaN and infinities differs between eager and Inductor, or is not defined."""


_ENDS = re.compile(r"ops\.reduction\([^()]*'(?:arg)?(?:max|min)'")

_NUMBERS_AGAIN = 4
"""How often single numbers are tried without rows, where a launch takes next to nothing."""

_STEPS, _STEPS_OF_FEW = 2, len(numbers.BANDS)
"""In how many turns rows hold all numbers, so that those of one row are of about one size."""

_NARROWER = (2.0, 0.9)
"""Powers of ten that sizes reach where wider values have no certain answer: casts to integers overflow."""

_TAIL = 32
"""Last elements of a memory, which vectorised code handles apart: most of them are special, and of ties each
in turn is among the last three."""

_LAST = 4
"""Last elements of a row, of which one is special."""

_ALONE = (-math.inf, math.inf, math.nan)
"""What no other special value stands beside, one launch each."""

_BLOCK = 32
"""Elements of one size, where sizes go by blocks."""

_POOL = (-2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0)
_MOST_CONSTANTS = 12


class Draws:
    """Values for the inputs of one launch. `bodies`: its leaves' printed loop bodies. `arguments`: names
    of those that are the graph's. `only_floats`: integers stay, as nothing says what they are for. `code`: of
    the kernel. `symbols`: symbolic sizes."""

    def __init__(
        self,
        bodies: Sequence[str],
        device: str,
        seed: int,
        *,
        arguments: Collection[str] = (),
        only_floats: bool = False,
        code: str = "",
        symbols: Mapping[str, object] | None = None,
    ) -> None:
        self._arguments = arguments
        self._only_floats = only_floats
        text = self._text = "\n".join(bodies)
        self._operators = set(_OPERATOR.findall(text))
        # Indices, and what the program asserts something of.
        self._addresses = sources(bodies, _ADDRESS, past=_DECIDES)
        self._divisors = sources(bodies, _DIVISOR)
        self._quotients = quotients(bodies)
        self._sorted = set(_SORTED.findall(text))
        self._loaded = set(LOADED.findall(text))
        # What adds up in any order: extremes would cancel or not.
        self._reduces = bool(self._operators & {"reduction", "sort"}) or "self.scan" in text
        self._reduces |= "atomic_add" in text
        self._multiplies = "'prod'" in text
        self._ends = bool(_ENDS.search(text))
        self._narrow = next((each for each in (torch.float16, torch.bfloat16) if str(each) in text), None)
        constants = [float(value) for value, kind in _CONSTANT.findall(text) if kind != "bool"]
        # What the code is written with and the loops know nothing of comes first: there they differ.
        known = [abs(value) for value in constants]
        self._foreign = [
            each
            for each in numbers.literals(code)
            if each not in (0.0, 1.0) and not any(math.isclose(each, value, rel_tol=1e-6) for value in known)
        ][:_MOST_CONSTANTS]
        own = sorted({value for value in constants if abs(value) < 1e4})[:_MOST_CONSTANTS]
        self._constants = list(dict.fromkeys([*(each for each in self._foreign if each < 1e4), *own]))
        parts = {name for pair in _COMBINED.findall(text) for name in pair}
        self.kept = frozenset(buffer for name, buffer in _LOADED_AS.findall(text) if name in parts)
        """Buffers of sums of squares and of counts, which are no independent numbers."""
        self._welford = "'welford_" in text
        self._inputs: Sequence[str] = ()
        self.widths: Mapping[str, int] = {}
        """By input how many elements are next to each other in its innermost dimension."""
        self._number_steps = _STEPS
        self._rows: dict[str, list[tuple[int, int]]] = {}
        for name, row in sorted(
            {item for body in bodies for item in rows_of(body, symbols)}, key=lambda item: item[1][1]
        ):
            self._rows.setdefault(name, []).append(row)
        self._seed = seed
        self._on_gpu = device != "cpu"

    def kinds(self) -> tuple[ValueKind, ...]:
        """In the order in which they are tried."""
        return ("ties", "special", *self._by_rows(), "wide", *self._by_number())

    def again(self, counts: Mapping[str, int]) -> tuple[ValueKind, ...]:
        """What is tried a second time, in another way, where a launch takes next to nothing; few rows more
        often, until there was one of each sort. `counts`: the inputs' elements, by name."""
        self._inputs = [name for name in counts if name not in self._addresses]
        rows = [(name, length) for name in self._rows.keys() & counts for _, length in self._rows[name]]
        least = min((counts[name] // length for name, length in rows), default=SORTS)
        more = math.ceil(SORTS / rows_on(least)) - 1 if least < SORTS else 0
        ties: tuple[ValueKind, ...] = () if self._rows else ("ties", "ties")
        if self._rows:
            self._number_steps = _STEPS_OF_FEW if least < SORTS else _STEPS
        several = len(self._inputs) > 1
        times = self._number_steps * (6 if several else 2) if self._rows else _NUMBERS_AGAIN
        singles = self._by_number() * (times - 1)
        special: tuple[ValueKind, ...] = ("special",)
        special *= len(_ALONE) * min(2, len(self._inputs)) if self._reduces else 2
        again = (*self._by_rows() * more, "ties", "special", *self._by_rows(), "wide")
        return (*again, *ties, *special, *singles)

    def _by_rows(self) -> tuple[ValueKind, ...]:
        """Up to three times where one input is reduced along several dimensions."""
        rows: tuple[ValueKind, ...] = ("rows",)
        return rows * min(3, max(map(len, self._rows.values()), default=0))

    def _by_number(self) -> tuple[ValueKind, ...]:
        number: tuple[ValueKind, ...] = ("numbers",)
        return number * max(1, len(self._by_rows()))

    def undecided(self, kind: ValueKind, bodies: Sequence[str], dtype: torch.dtype, turn: int = 0) -> bool:
        """Whether torch itself has no one answer for what these loop bodies make of such values."""
        text = "\n".join(bodies)
        operators = set(_OPERATOR.findall(text))
        if kind in ("ties", "numbers"):
            return False
        if kind == "wide" and turn and "'prod'" in text:
            return True
        if quotients(bodies) and dtype.is_floating_point:
            # A GPU's remainder is exact; vectorised C++ subtracts a multiple.
            return not (self._on_gpu and kind == "wide" and turn == 1)
        return bool(operators & _LOOSE) and kind != "wide"

    def narrower(self, kind: ValueKind, done: Sequence[ValueKind]) -> tuple[ValueKind, ...]:
        """What to try as well where nothing could be said of a kind, after those of `done`."""
        return (kind,) if kind == "wide" and done.count(kind) < 2 + len(_NARROWER) else ()

    def values(
        self, kind: ValueKind, now: Tensor, number: int, name: str = "", turn: int = 0
    ) -> Tensor | None:
        """Values to take the place of those in the flat memory `now`; None where those stay. `number`: of
        the input among the launch's; `name`: of its buffer; `turn`: how often the kind came before."""
        place = ("ties", "wide", "special", "rows", "numbers").index(kind)
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + 101 * number + place + 7 * turn)
        dtype, count = now.dtype, now.numel()
        rows = self._rows.get(name, [(1, count)])
        time = turn // max(1, len(self._by_rows()))
        stride, length = rows[min(turn % max(1, len(self._by_rows())), len(rows) - 1)]
        if dtype == torch.bool:
            drawn = torch.rand(count, generator=generator) < 0.5
            if kind == "rows" and name in self._rows:
                sort = row_of(count, stride, length) % 3
                drawn = torch.where(sort == 2, drawn, sort == 0)
            return drawn.to(now.device)
        if dtype.is_complex or not count:
            return None
        if name in self._sorted:
            between = kind in ("ties", "wide", "numbers") and dtype.is_floating_point and dtype.itemsize > 1
            values = self._floats(kind, dtype, count, generator, length, turn) if between else None
            return None if values is None else values.sort().values.to(dtype).to(now.device)
        if self._only_floats and not dtype.is_floating_point:
            return None
        # A name that no loop body has may be that of a whole, parts of which are loaded.
        known = name in self._loaded
        address = name in self._addresses if known else bool(self._addresses)
        if dtype.is_floating_point and not address:
            # An 8-bit float has no arithmetic of its own: it holds what float16 holds, as far as it reaches.
            narrow = dtype.itemsize == 1
            positive = bool((now.to(torch.float32) >= 0).all()) and kind != "special"
            # What was made up for a logarithm or a root may be negative all the same.
            positive = positive and not (turn and (name in self._arguments or not self._operators & _SMOOTH))
            if kind == "rows" and name not in self._rows:
                # A weight, say: were it infinite, nothing of the rows would be seen.
                drawn = torch.randn(count, generator=generator, dtype=torch.float64)
            elif kind == "rows":
                drawn = by_row(row_of(count, stride, length), number, generator, time, self._constants)
                drawn = self._mean_known(drawn)
            elif kind == "numbers":
                exact = bool(self._quotients)
                pool = numbers.pool_of(self._constants, generator, exact=exact)
                pool = pool.to(torch.float16 if narrow else dtype).to(torch.float64)
                drawn = self._numbers(pool, count, generator, name, number, turn)
            else:
                own = torch.float16 if narrow else dtype
                weight = bool(self._rows) and name not in self._rows
                drawn = self._floats(kind, own, count, generator, length, turn, weight)
                if kind == "ties" and turn:
                    pool = self._pool(own).to(torch.float64)
                    if name in self._rows:
                        row = row_of(count, stride, length)
                        drawn = capped(drawn, row, pool)
                        # What another input of that size draws as well.
                        alike = torch.Generator().manual_seed(self._seed * 1_009 + turn)
                        drawn = paired(drawn, row, pool, number, alike) if len(self._inputs) > 1 else drawn
                    elif turn > 1 and number % 2 == turn % 2 and not self._quotients:
                        # Beside ties of the other inputs: a quotient of them may be anything.
                        drawn = self._floats("wide", own, count, generator, length, 2)
                    last = torch.arange(min(count, _TAIL)) + (3 + number) * (turn - 1)
                    drawn[count - len(last) :] = pool[last % len(pool)].flip(0)
                if kind == "special" and self._reduces and turn > 1:
                    drawn = self._alone(name, count, turn - 2, generator)
                elif kind == "special" and not self._reduces:
                    drawn = _with_tail(drawn, number, turn, float(torch.finfo(own).max))
                    drawn = drawn.abs() if "pow" in self._operators else drawn
            drawn = drawn.abs() if positive else drawn
            if narrow:
                most = float(torch.finfo(dtype).max)
                drawn = drawn.clamp(-most, most).to(torch.float32)
            return drawn.to(dtype).to(now.device)
        if address:
            return self._again(kind, now, generator)
        divides = name in self._divisors if known else bool(self._divisors)
        if kind == "numbers" and not (divides and self._operators & {"lshift", "rshift", "pow"}):
            return numbers.integers(dtype, count, turn, generator, divides=divides).to(now.device)
        return self._integers(kind, dtype, count, generator, divides).to(now.device)

    def _numbers(
        self, pool: Tensor, count: int, generator: torch.Generator, name: str, number: int, turn: int
    ) -> Tensor:
        """Every other input holds numbers alone, by turns, the others plain ones."""
        ways = max(1, len(self._by_rows()))
        time = turn // ways
        several = len(self._inputs) > 1
        step = time // 2 if several else time
        # Among zeros, among ones, and among zeros beside zeros, which add nothing to a sum.
        phase = step // self._number_steps % 3
        if several and (number + time) % 2:
            quiet = phase == 2 and name in self._rows
            return torch.zeros(count, dtype=torch.float64) if quiet else numbers.plain(count, generator)
        if name not in self._rows:
            return numbers.scattered(pool, count, step, generator)
        stride, length = self._rows[name][min(turn % ways, len(self._rows[name]) - 1)]
        row = row_of(count, stride, length)
        turns = self._number_steps
        beside = 1.0 if phase == 1 or self._multiplies else 0.0
        return numbers.among(pool, row, step % turns, generator, turns=turns, beside=beside, ends=self._ends)

    def _again(self, kind: ValueKind, now: Tensor, generator: torch.Generator) -> Tensor:
        """Values that are there already, which as indices are in range: the outermost two, or any."""
        if kind == "ties" and not now.dtype.is_floating_point:
            ends = torch.stack([now.min(), now.max()])
            return ends[torch.randint(2, (now.numel(),), generator=generator).to(now.device)]
        if kind == "numbers" and not now.dtype.is_floating_point:
            between = torch.arange(int(now.min()), min(int(now.max()), int(now.min()) + now.numel()) + 1)
            return numbers.scattered(between, now.numel(), 0, generator).to(now.dtype).to(now.device)
        if kind == "numbers" and now.dtype.is_floating_point and not self._on_gpu:
            # What lies between makes indices between; a GPU's assertion would end the process all the same.
            pool = numbers.pool_of(self._constants, generator, exact=False)
            pool = pool[(pool >= float(now.min())) & (pool <= float(now.max()))]
            if len(pool):
                return numbers.scattered(pool, now.numel(), 0, generator).to(now.dtype)
        return now[torch.randint(now.numel(), (now.numel(),), generator=generator).to(now.device)]

    def _floats(
        self,
        kind: ValueKind,
        dtype: torch.dtype,
        count: int,
        generator: torch.Generator,
        row: int,
        turn: int,
        weight: bool = False,
    ) -> Tensor:
        if kind in ("ties", "numbers"):
            pool = self._pool(dtype)
            pools = [pool, *(_next(pool, step) for step in (1, -1) if not turn)]
            if self._narrow is not None and dtype.itemsize > 2:
                # What a conversion to a half rounds to.
                pools += [_next(pool.to(self._narrow), step).to(dtype) for step in (1, -1)]
            return _picked(torch.cat(pools).to(torch.float64), count, generator)
        if kind == "wide":
            return self._wide(dtype, count, generator, turn)
        info = torch.finfo(dtype)
        base = 3 * torch.randn(count, generator=generator, dtype=torch.float64)
        if turn and self._reduces:
            # Rows of one sign, in which one that is special decides.
            base = base.abs() * (1 - 2 * (row_of(count, 1, row) // 2 % 2))
            # Zeros beside what is infinite in another input.
            base *= torch.rand(count, generator=generator) < 0.8
        pool = [math.nan, math.inf, -math.inf]
        if self._welford and not (turn and weight):
            chosen = torch.rand(count, generator=generator) < 0.5 / row
            return torch.where(chosen, math.nan, base)
        if "pow" in self._operators:
            # A root by another name, which differs from a power below zero.
            base, pool = base.abs(), pool[:2]
        elif not self._reduces:
            pool += [0.0, -0.0, float(info.max), float(info.min), float(info.smallest_normal)]
            if not self._on_gpu and not self._operators & _SMOOTH:
                pool += [float(info.smallest_normal) / 2, -float(info.smallest_normal) / 4]
        # One of them in every other row, lest rows without any be none.
        share = max(1 / 256, 0.5 / row) if self._reduces else (0.05 if turn else 0.3)
        # A weight beside rows: each of its elements meets rows that are finite.
        share = 0.1 if turn and weight else share
        chosen = torch.rand(count, generator=generator) < share
        if self._reduces and not self._rows:
            # A scan, say: two of them at least, and then one in every other row or so.
            few = max(2, count // 16 if turn else 0)
            chosen[torch.randperm(count, generator=generator)[:few]] = True
        if not self._reduces:
            chosen[-_TAIL:] |= torch.rand(min(count, _TAIL), generator=generator) < 0.5
        values = torch.where(chosen, _picked(torch.tensor(pool, dtype=torch.float64), count, generator), base)
        if turn and count >= 4 * len(pool):
            # Each of them once, where few are drawn, and once where other inputs of that size have the same.
            same = torch.Generator().manual_seed(self._seed + 7 * turn)
            for order in (generator, same):
                if not self._reduces or (order is same and not self._welford):
                    places = torch.randperm(count, generator=order)[: len(pool)]
                    values[places] = torch.tensor(pool, dtype=torch.float64)
        return values

    def special_turn(self, name: str, number: int) -> int:
        """At which turn an input holds special values alone, for the so many-th time."""
        if not self._reduces:
            return 2 + number
        sorts, mine = len(_ALONE), self._inputs.index(name)
        return 2 + sorts * (len(self._inputs) * (number // sorts) + mine) + number % sorts

    def _alone(self, name: str, count: int, number: int, generator: torch.Generator) -> Tensor:
        """Plain numbers, and in one input one element that is special, or every other time one of each row,
        which all that is reduced may hide where there is another: often one of the last."""
        drawn = 3 * torch.randn(count, generator=generator, dtype=torch.float64)
        drawn = drawn.abs() if "pow" in self._operators else drawn
        special = math.nan if self._welford else _ALONE[number % len(_ALONE)]
        special = abs(special) if "pow" in self._operators else special
        time, mine = divmod(number // len(_ALONE), len(self._inputs))
        if name != self._inputs[mine]:
            return drawn
        if time % 2 and name in self._rows:
            stride, length = self._rows[name][0]
            order = torch.randperm(count, generator=generator)
            drawn[one_of_each(row_of(count, stride, length), order)] = special
        else:
            among = min(count, _LAST) if number % 2 else count
            drawn[count - 1 - int(torch.randint(among, (), generator=generator))] = special
        return drawn

    def _pool(self, dtype: torch.dtype) -> Tensor:
        """What ties are made of."""
        return torch.tensor([*_POOL, *self._constants, *(-each for each in self._constants)]).to(dtype)

    def _mean_known(self, values: Tensor) -> Tensor:
        """Without infinities for a variance: their mean has a square that is infinite or NaN, as it comes."""
        return values.nan_to_num(math.nan, 100.0, -100.0) if self._welford else values

    def _wide(self, dtype: torch.dtype, count: int, generator: torch.Generator, turn: int) -> Tensor:
        """Sizes of all powers of ten alike, of both signs; the second time sums are of one sign, and small
        ones go to functions that overflow."""
        half, steep = dtype.itemsize == 2, bool(self._operators & _STEEP)
        reach = 2.5 if dtype == torch.float16 else 4.0
        if not half and not steep:
            reach = 6.0 if self._reduces else 12.0
        if self._multiplies and not turn:
            # Products that pass through denormal numbers depend on their order.
            reach = 1.5
        low, high = -reach, reach
        if turn == 1 and self._quotients:
            # As large as each other: small quotients of large numbers.
            low, high = 2.2, 2.9
        elif turn == 1:
            low, high = (-4.0 if half else -8.0, 1.5) if steep else (-2.0, 3.0 if half else 5.0)
        elif turn:
            high = _NARROWER[min(turn - 2, len(_NARROWER) - 1)]
            low = -high
        size = 10.0 ** (low + (high - low) * torch.rand(count, generator=generator, dtype=torch.float64))
        if turn == 1 and self._reduces:
            # Of one sign, and blocks of another size each, lest all sums be large.
            blocks = torch.rand(count // _BLOCK + 1, generator=generator, dtype=torch.float64)
            return size * 10.0 ** (-(5.0 if half else 10.0) * blocks.repeat_interleave(_BLOCK)[:count])
        ends = self._operators & {"maximum", "minimum"}
        if turn == 1 and ends:
            # Of one sign for blocks, lest the greatest of many always be positive.
            below = torch.rand(count // _BLOCK + 1, generator=generator).repeat_interleave(_BLOCK)[:count]
            return size * torch.where(below < (0.8 if ends == {"maximum"} else 0.4), -1.0, 1.0)
        return size * torch.where(torch.rand(count, generator=generator) < 0.5, -1.0, 1.0)

    def _integers(
        self, kind: ValueKind, dtype: torch.dtype, count: int, generator: torch.Generator, divides: bool
    ) -> Tensor:
        limits = torch.iinfo(dtype)
        signed = limits.min < 0
        if divides:
            # Neither a division by zero, nor one of the least by -1, nor a shift by more than there are bits.
            negative = [-5, -3, -2] if signed and not self._operators & {"lshift", "rshift", "pow"} else []
            return _picked(torch.tensor([1, 2, 3, 4, 5, 6, *negative]), count, generator).to(dtype)
        small = [-2, -1, 0, 1, 2, 3] if signed else [0, 1, 2, 3, 4]
        if kind == "ties":
            near = [int(value) + step for value in self._constants for step in (-1, 0, 1)]
            small += [value for value in near if limits.min <= value <= limits.max]
            return _picked(torch.tensor(small), count, generator).to(dtype)
        reach = self._reach(dtype)
        low, high = max(limits.min, -reach), min(limits.max, 2 * reach if not signed else reach - 1)
        if kind == "wide":
            return torch.randint(low, high + 1, (count,), generator=generator).to(dtype)
        return _picked(torch.tensor([low, low + 1, *small[:4], high - 1, high]), count, generator).to(dtype)

    def _reach(self, dtype: torch.dtype) -> int:
        """Of integers: overflow of a signed sum is not defined in C++, and narrow ones are computed in wide
        ones."""
        bits = 8 * dtype.itemsize
        defined = bits <= 16 or self._on_gpu or not self._operators & _OVERFLOWS
        return int(1 << (bits - 1 - (bits == 64) if defined else bits // 2 - 1))


def _with_tail(values: Tensor, number: int, turn: int, most: float) -> Tensor:
    """The last elements, which vectorised code handles apart: one input's is special, those of others not, in
    the last four of four turns each input's NaN, the largest number and each infinity."""
    place = torch.arange(values.numel() - 1, -1, -1)
    special = torch.tensor([[math.inf, math.nan], [-math.inf, most]], dtype=torch.float64)
    special = special[(turn + turn // 2) % 2]
    mine, last = place % 2 == (number + turn) % 2, place < 2 * special.numel()
    ordinary = torch.where(values.isfinite() & (values.abs() < 100), values, 1.5)
    return torch.where(last, torch.where(mine, special[place // 2 % 2], ordinary), values)


def _picked(pool: Tensor, count: int, generator: torch.Generator) -> Tensor:
    return pool[torch.randint(pool.numel(), (count,), generator=generator)]


def _next(values: Tensor, step: int) -> Tensor:
    """The numbers of the dtype that lie next to `values`, away from zero where `step` is 1."""
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[values.dtype.itemsize]
    return torch.where(values == 0, values, (values.view(bits) + step).view(values.dtype))
