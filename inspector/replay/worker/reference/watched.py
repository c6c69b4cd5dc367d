"""What a loop body computes on the way: each operator's result, and which elements of a memory it is made of.

An element's number is carried from where it is loaded through all that is computed of it, so that for each
place of each intermediate result it is known which one element moves it: none, one, or several. What depends
on none of them is kept; the rest can be computed again from other values, without the loop body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import torch
from torch import Tensor

from inspector.replay.worker.reference.layouts import Value
from inspector.replay.worker.reference.loops import Evaluation, Ops

NONE, SEVERAL = -1, -2
"""In place of an element's number."""

_APART = frozenset({"lt", "gt", "le", "ge", "eq", "ne", "maximum", "minimum"})
"""Operators that turn on how far apart their operands are."""

PAIRS = frozenset({"add", "mul", "truediv"})
"""Operators that may be wrong where their operands are equal."""

_NO_SITES = frozenset({"identity", "where"})
"""Operators whose result is an operand."""

_RUNNING = frozenset({"sort", "scan"})
"""Operators whose results depend on others of their row, each on some."""

Function = Callable[..., object]


@dataclass(frozen=True)
class _Slot:
    """In place of an argument: a result that is computed anew."""

    number: int


@dataclass(frozen=True)
class _Step:
    """How results are had: ``function(*args)``. `reduces`: of a row."""

    function: Function
    args: tuple[object, ...]
    outs: tuple[int, ...]
    reduces: bool = False


@dataclass(frozen=True)
class Site:
    """Where a value is computed. `places` of the flattened result are moved each by the element of that place
    of `numbers`. `apart`: the value is the difference of two that are compared."""

    operator: str
    apart: bool
    slot: int
    numbers: Tensor
    places: Tensor
    count: int
    """Elements of the result."""


@dataclass
class Watch:
    """Looks on while the loop bodies of one launch run. `owners`: by buffer, each element's number; `source`:
    of which of them `again` takes other values. `pinned`: what reductions give does not count as moved."""

    owners: dict[str, Tensor]
    source: str
    pinned: bool = False
    sites: list[Site] = field(default_factory=list)
    loaded: Tensor | None = None
    """Whether each of the source's elements is loaded."""
    _tape: list[_Step] = field(default_factory=list)
    _slots: list[object] = field(default_factory=list)
    _known: dict[int, tuple[object, int, Tensor]] = field(default_factory=dict)
    """By a result's id: itself, so that the id stays its own, its slot and its numbers."""
    _runs: dict[int, Evaluation] = field(default_factory=dict)
    _origin: int = 0
    """The id of the source's memory."""
    _held: dict[int, Tensor] = field(default_factory=dict)
    """Memories by the id of those that were watched, (copies, elements)."""
    _written: dict[str, tuple[Tensor, Tensor] | None] = field(default_factory=dict)
    """By buffer its memory and where what depends on the source was stored; None where that is not known."""

    def __call__(self, operators: Ops) -> object:
        return _Watched(operators, self)

    def again(self, memory: Tensor, *, held: bool) -> None:
        """Computes anew what depends on the source, for several copies of its memory at once, (copies,
        elements). `held`: results of reductions stay as they are, or as they last were."""
        self._held = {self._origin: memory}
        grids = [(run, run.grid, run.reduced) for run in self._runs.values()]
        try:
            for run, grid, reduced in grids:
                run.grid, run.reduced = [len(memory), *grid], [axis + 1 for axis in reduced]
            for step in self._tape:
                if held and step.reduces:
                    continue
                args = (self._slots[arg.number] if isinstance(arg, _Slot) else arg for arg in step.args)
                result = step.function(*args)
                parts = result if isinstance(result, (tuple, list)) else (result,)
                for out, part in zip(step.outs, parts, strict=True):
                    self._slots[out] = part
        finally:
            for run, grid, reduced in grids:
                run.grid, run.reduced = grid, reduced

    def value(self, site: Site, copies: int) -> Tensor:
        """What is computed there, (copies, elements)."""
        value = self._slots[site.slot]
        assert isinstance(value, Tensor)
        return value.reshape(-1, site.count).expand(copies, site.count)

    def numbers(self, value: object) -> Tensor | None:
        known = self._known.get(id(value))
        return known[2] if known is not None else None

    def note(
        self,
        function: Function,
        args: Sequence[object],
        result: object,
        numbers: Tensor,
        reduces: bool = False,
    ) -> None:
        """Takes note of what depends on the source: how its result is had, and of which elements it is."""
        spec = tuple(_Slot(self._known[id(arg)][1]) if id(arg) in self._known else arg for arg in args)
        parts = result if isinstance(result, (tuple, list)) else [result]
        outs = tuple(range(len(self._slots), len(self._slots) + len(parts)))
        for part, out in zip(parts, outs, strict=True):
            self._slots.append(part)
            self._known[id(part)] = part, out, numbers
        self._tape.append(_Step(function, spec, outs, reduces))

    def site(self, operator: str, value: object, *, apart: bool = False) -> None:
        known = self._known.get(id(value))
        if known is None or not isinstance(value, Tensor) or not _numeric(value):
            return
        flat = known[2].expand(value.shape).reshape(-1)
        places = (flat >= 0).nonzero().reshape(-1)
        if len(places):
            self.sites.append(Site(operator, apart, known[1], flat[places], places, value.numel()))

    def results(self) -> dict[str, tuple[Tensor, Tensor]]:
        """By buffer what the copies last computed for its memory, (copies, elements), and where; without
        those that are added to in place."""
        return {
            name: (self._held[id(known[0])], known[1])
            for name, known in self._written.items()
            if known is not None and id(known[0]) in self._held
        }

    def stored(self, name: str, memory: Tensor, at: Tensor | None) -> None:
        """Takes note of where what depends on the source is stored; None for what is added to."""
        known = self._written.get(name)
        if at is None or (name in self._written and (known is None or known[0] is not memory)):
            self._written[name] = None
            return
        where = torch.zeros_like(memory, dtype=torch.bool) if known is None else known[1]
        where[at.reshape(-1)] = True
        self._written[name] = memory, where

    def take(self, name: str, memory: Tensor, run: Evaluation) -> Tensor | None:
        """The numbers of a buffer's elements, where it is one that depends on the source."""
        owners = self.owners.get(name)
        if owners is not None:
            self._runs[id(run)] = run
            if name == self.source and self.loaded is None:
                self.loaded = torch.zeros_like(owners, dtype=torch.bool)
                self._origin = id(memory)
        return owners

    def read(self, memory: Tensor, at: Tensor, dimensions: int) -> Tensor:
        """Of each copy the elements `at` these places, in as many dimensions as the loop nest has."""
        held = self._held.get(id(memory))
        if held is None:
            return memory[at]
        return held[:, at.reshape(-1)].reshape(len(held), *[1] * (dimensions - at.dim()), *at.shape)

    def write(self, memory: Tensor, at: Tensor, value: Tensor) -> None:
        """Puts the value of each copy at these places."""
        copies = len(self._held[self._origin])
        if id(memory) not in self._held:
            self._held[id(memory)] = memory.expand(copies, -1).clone()
        if value.dim() > at.dim():
            # What is held has no copies, and no dimension for them.
            value = value.reshape(len(value), *value.shape[value.dim() - at.dim() :])
        values = value.expand(copies, *at.shape).reshape(copies, -1)
        self._held[id(memory)][:, at.reshape(-1)] = values.to(memory.dtype)


class _Watched:
    """The operators of a loop body, looked at."""

    def __init__(self, operators: Ops, watch: Watch) -> None:
        self._operators = operators
        self._run = operators.run
        self._watch = watch

    def __getattr__(self, name: str) -> Callable[..., object]:
        operator = getattr(self._operators, name)
        return lambda *args, **kwargs: self._called(name, operator, args, kwargs)

    def load(self, name: str, index: Value) -> object:
        value = self._operators.load(name, index)
        memory, watch = self._run.memory(name, False), self._watch
        owners = watch.take(name, memory, self._run)
        if owners is not None:
            at = torch.as_tensor(index, device=memory.device).clamp(0, max(memory.numel() - 1, 0))
            if name == watch.source and watch.loaded is not None:
                watch.loaded[at.reshape(-1)] = True
            watch.note(watch.read, (memory, at, len(self._run.grid)), value, owners[at])
            watch.site("load", value)
        return value

    def store(self, name: str, index: Value, value: Value, mode: str | None = None) -> None:
        self._operators.store(name, index, value, mode)
        watch, numbers = self._watch, self._watch.numbers(value)
        if numbers is None:
            return
        memory = self._run.memory(name, True)
        owners = watch.owners.get(name)
        if owners is None or owners.numel() != memory.numel():
            owners = torch.full((memory.numel(),), NONE, device=memory.device)
        # What an input held before it is changed in place keeps its numbers.
        owners = watch.owners[name] = owners.clone()
        at, numbers = torch.broadcast_tensors(torch.as_tensor(index, device=memory.device), numbers)
        owners[at.reshape(-1)] = SEVERAL if mode else numbers.reshape(-1)
        watch.stored(name, memory, None if mode else at)
        if not mode:
            watch.note(watch.write, (memory, at, value), None, numbers)

    def store_reduction(self, name: str, index: Value, value: Value) -> None:
        self.store(name, index, value)

    def _called(
        self, name: str, operator: Function, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> object:
        result = operator(*args, **kwargs)
        watch = self._watch
        operands = [part for arg in args for part in (arg if isinstance(arg, (tuple, list)) else [arg])]
        known = [own for each in operands if (own := watch.numbers(each)) is not None]
        if not known:
            return result
        numbers = _merged(known)
        if name == "reduction":
            numbers = _collapsed(numbers.expand(self._run.grid), self._run.reduced)
            numbers = torch.full_like(numbers, NONE) if watch.pinned else numbers
        elif name in _RUNNING:
            numbers = torch.full_like(numbers, SEVERAL)
        if name in _APART | PAIRS and any(map(_numeric, args[:2])):
            apart = _difference(*args[:2])
            watch.note(_difference, args[:2], apart, numbers)
            watch.site(name, apart, apart=True)
        self._note(name, operator, args, kwargs, operands, result, numbers)
        if name in _NO_SITES or (name == "to_dtype" and _dtype(args[0]) == _dtype(result)):
            return result
        for part in result if isinstance(result, (tuple, list)) else [result]:
            watch.site(name, part)
        return result

    def _note(
        self,
        name: str,
        operator: Function,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        operands: Sequence[object],
        result: object,
        numbers: Tensor,
    ) -> None:
        """How the operator's result is had again: by torch's own function where it is one: it costs less."""
        watch = self._watch
        function = None if hasattr(type(self._operators), name) else self._operators.function(name)
        if function is not None:
            watch.note(function, self._operators.tensors(args), result, numbers)
            return
        sizes = [len(arg) if isinstance(arg, (tuple, list)) else None for arg in args]

        def compute(*parts: object) -> object:
            rest = iter(parts)
            packed = [next(rest) if size is None else tuple(islice(rest, size)) for size in sizes]
            return operator(*packed, **kwargs)

        watch.note(compute, operands, result, numbers, reduces=name == "reduction")


def _difference(left: object, right: object) -> Tensor:
    sides = [torch.as_tensor(side).to(torch.float64) for side in (left, right)]
    device = max(sides, key=lambda side: side.dim()).device
    return sides[0].to(device) - sides[1].to(device)


def _dtype(value: object) -> object:
    return getattr(value, "dtype", None)


def _numeric(value: object) -> bool:
    """Whether a value is a number, and not true or false."""
    if isinstance(value, Tensor):
        return value.dtype != torch.bool and not value.dtype.is_complex
    return isinstance(value, float)


def _merged(numbers: Sequence[Tensor]) -> Tensor:
    """Of a result of several operands."""
    merged = numbers[0]
    for other in numbers[1:]:
        alike = (other == NONE) | (merged == other)
        merged = torch.where(merged == NONE, other, torch.where(alike, merged, SEVERAL))
    return merged


def _collapsed(numbers: Tensor, axes: Sequence[int]) -> Tensor:
    """Of a reduction's result: that of the one element that has a number."""
    most = numbers.amax(axes, keepdim=True)
    other = (numbers != NONE) & (numbers != most)
    for axis in axes:
        other = other.any(dim=axis, keepdim=True)
    return torch.where(other, SEVERAL, most)
