"""Inputs for a graph: sizes, strides and shared memory as captured, values made up.

torch's own stub (torch/_dynamo/testing.py: rand_strided) fills floating dtypes with N(0, 1) and all
others with zeros, so that every gather reads row 0 and every mask is false. `Inputs.fill` takes
values from `roles` in their place.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from inspector.model.source import contiguous
from inspector.replay.worker.code.generated import storage_key


@dataclass(frozen=True)
class TensorSpec:
    """A tensor argument. `storage` numbers the memory that arguments share; `offset` in elements."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: str
    storage: int
    offset: int = 0

    @property
    def extent(self) -> int:
        """Elements from the start of the storage to the tensor's last one."""
        if 0 in self.size:
            return self.offset
        return self.offset + 1 + sum((n - 1) * s for n, s in zip(self.size, self.stride, strict=True))


def is_whole(dtype: torch.dtype) -> bool:
    """Whether its values are whole numbers, or True and False."""
    return not (dtype.is_floating_point or dtype.is_complex)


class RecordedReader:
    """Stands in for torch's InputReader (torch/_dynamo/debug_utils.py) and keeps what ``load_args`` tells it.

    `entries` has a TensorSpec for each tensor, the integer for each symbolic one, None for others.
    """

    def __init__(self) -> None:
        self.entries: list[TensorSpec | int | None] = []
        self._devices: list[str] = []

    def storage(self, _hash: object, _nbytes: int, *, device: object = None, **_: object) -> int:
        self._devices.append("cpu" if device is None else str(device))
        return len(self._devices) - 1

    def tensor(
        self,
        storage: int,
        shape: Sequence[int],
        stride: Sequence[int] | None = None,
        *,
        storage_offset: int = 0,
        dtype: torch.dtype = torch.float32,
        **_: object,
    ) -> None:
        size = tuple(int(extent) for extent in shape)
        strides = tuple(int(step) for step in stride) if stride is not None else contiguous(size)
        self.entries.append(
            TensorSpec(size, strides, dtype, self._devices[storage], storage, int(storage_offset))
        )

    def symint(self, value: int, **_: object) -> None:
        self.entries.append(int(value))

    def __getattr__(self, name: str) -> Callable[..., None]:
        # const and whatever later versions add: an argument that is neither.
        return lambda *_, **__: self.entries.append(None)


def make_specs(
    args: Sequence[object], devices: dict[object, str], recorded: RecordedReader | None
) -> tuple[list[object], bool]:
    """Each argument's TensorSpec, or the argument itself where it is none; and whether any share memory.

    `args` are meta tensors. torch's ``get_args`` keeps shared storages from 2.13 on, without their
    offsets; where `recorded` (load_args) agrees on every size, stride and dtype, its storages and
    offsets are used. A tensor that would not start at a multiple of 16 bytes gets its own memory:
    torch copies such inputs before it calls the generated code (torch/_inductor/utils.py:
    align_inputs_from_check_idxs).
    """
    entries = recorded.entries if recorded is not None and _agrees(args, recorded) else None
    numbers: dict[object, int] = {}
    private = itertools.count(1_000_000)
    specs: list[object] = []
    for position, arg in enumerate(args):
        if not isinstance(arg, Tensor):
            specs.append(arg)
            continue
        key = storage_key(arg)
        device = devices.get(key, "cpu")
        offset = arg.storage_offset()
        entry = entries[position] if entries is not None else None
        if isinstance(entry, TensorSpec):
            key, offset = ("recorded", entry.storage), entry.offset
        number = numbers.setdefault((key, arg.dtype, device), len(numbers))
        if offset * arg.dtype.itemsize % 16:
            number, offset = next(private), 0
        specs.append(TensorSpec(tuple(arg.shape), tuple(arg.stride()), arg.dtype, device, number, offset))
    storages = [spec.storage for spec in specs if isinstance(spec, TensorSpec)]
    return specs, len(set(storages)) < len(storages)


def _agrees(args: Sequence[object], recorded: RecordedReader) -> bool:
    if len(args) != len(recorded.entries):
        return False
    for arg, entry in zip(args, recorded.entries, strict=True):
        if isinstance(arg, Tensor) != isinstance(entry, TensorSpec):
            return False
        if isinstance(arg, Tensor) and isinstance(entry, TensorSpec):
            own = (tuple(arg.shape), tuple(arg.stride()), arg.dtype)
            if own != (entry.size, entry.stride, entry.dtype):
                return False
    return True


@dataclass(frozen=True)
class Fill:
    """How to fill one argument. Floats: N(0, 1) times `scale`, or uniform in [0.5, 1.5) where
    `positive`. Integers: uniform in [`low`, `high`). Booleans: true and false alike."""

    scale: float = 1.0
    positive: bool = False
    low: int = 0
    high: int = 1


class Inputs:
    """A graph's arguments: one master copy, and fresh clones of it for each run."""

    def __init__(self, specs: Sequence[object], seed: int) -> None:
        self.specs = list(specs)
        self.given: dict[int, Tensor] = {}
        """Tensors to use in place of made-up values, by position; `fill` copies them in."""
        self.stored: dict[int, Tensor] = {}
        """Storage -> its elements in one dimension, kept at capture, in place of made-up ones."""
        self._seed = seed
        self._masters: dict[int, Tensor] = {}

    @property
    def known(self) -> set[int]:
        """Positions of the tensors whose values are not made up."""
        kept = {
            position
            for position, spec in enumerate(self.specs)
            if isinstance(spec, TensorSpec) and spec.storage in self.stored
        }
        return kept | self.given.keys()

    def fill(self, fills: Sequence[Fill]) -> None:
        """Makes the values anew; the same seed, specs and fills give the same on the same device.

        Arguments that share memory are filled as the first of them, positive if any of them is.
        """
        self._masters.clear()
        groups: dict[int, list[tuple[TensorSpec, Fill]]] = {}
        for spec, fill in zip(self.specs, fills, strict=True):
            if isinstance(spec, TensorSpec):
                groups.setdefault(spec.storage, []).append((spec, fill))
        for order, (storage, members) in enumerate(groups.items()):
            first, chosen = members[0]
            if storage in self.stored:
                self._masters[storage] = self.stored[storage].to(first.device, copy=True)
                continue
            chosen = next((fill for _, fill in members if fill.positive), chosen)
            if not first.dtype.is_floating_point:
                chosen = min((fill for _, fill in members), key=lambda fill: fill.high - fill.low)
            count = max(spec.extent for spec, _ in members)
            self._masters[storage] = random_values(
                count, first.dtype, first.device, chosen, self._seed * 1_000_003 + order
            )
        self._put(self._arguments(self._masters), self.given)

    def fresh(self) -> list[object]:
        """The arguments on cloned memory, sharing it as the masters do."""
        clones = {storage: master.clone() for storage, master in self._masters.items()}
        return self._arguments(clones)

    def promoted(self) -> list[object]:
        """The arguments with the same values in float64 or complex128; other dtypes as they are."""
        return self._arguments({key: promote(master.clone()) for key, master in self._masters.items()})

    def counts(self, position: int) -> bool:
        """Whether the argument holds whole numbers, which a graph that writes them may use as places."""
        spec = self.specs[position]
        return isinstance(spec, TensorSpec) and is_whole(spec.dtype)

    def restore(self, args: Sequence[object], positions: Sequence[int]) -> None:
        """Puts the masters' values back into arguments made by `fresh`."""
        self._put(args, {position: _placed(self.specs[position], self._masters) for position in positions})

    @staticmethod
    def _put(args: Sequence[object], values: Mapping[int, object]) -> None:
        for position, value in values.items():
            target = args[position]
            assert isinstance(target, Tensor) and isinstance(value, Tensor)
            for axis, step in enumerate(target.stride()):
                if step == 0 and target.shape[axis] > 1:
                    # An expanded dimension is one element of memory.
                    target, value = target.narrow(axis, 0, 1), value.narrow(axis, 0, 1)
            target.copy_(value)

    def changed(self, args: Sequence[object]) -> list[int]:
        """Positions of the arguments whose bits differ from the masters'."""
        masters = self._arguments(self._masters)
        return [
            position
            for position, (arg, master) in enumerate(zip(args, masters, strict=True))
            if isinstance(arg, Tensor) and not _same_bits(arg, master)
        ]

    def _arguments(self, storages: dict[int, Tensor]) -> list[object]:
        return [_placed(spec, storages) for spec in self.specs]


def _placed(spec: object, storages: Mapping[int, Tensor]) -> object:
    """The argument on that memory; what is no tensor is its own."""
    if not isinstance(spec, TensorSpec):
        return spec
    return torch.as_strided(storages[spec.storage], spec.size, spec.stride, spec.offset)


def _same_bits(left: Tensor, right: Tensor) -> bool:
    if left.dtype.is_complex:
        left, right = torch.view_as_real(left), torch.view_as_real(right)
    if left.dtype.is_floating_point:
        integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[left.dtype.itemsize]
        left, right = left.view(integer), right.view(integer)
    return bool(torch.equal(left, right))


def promote(tensor: Tensor) -> Tensor:
    """`tensor` in float64 or complex128; integers, booleans and non-tensors as they are."""
    if not isinstance(tensor, Tensor):
        return tensor
    if tensor.dtype.is_complex:
        return tensor.to(torch.complex128)
    if tensor.dtype.is_floating_point:
        # The 8-bit floats convert to nothing wider than float32 on some devices.
        narrow = tensor.to(torch.float32) if tensor.dtype.itemsize == 1 else tensor
        return narrow.to(torch.float64)
    return tensor


def random_values(count: int, dtype: torch.dtype, device: str, fill: Fill, seed: int) -> Tensor:
    """`count` values as `fill` says, in one dimension, on `device`."""
    generator = torch.Generator(device=device).manual_seed(seed & 0x7FFF_FFFF_FFFF_FFFF)
    if dtype == torch.bool:
        return torch.rand(count, generator=generator, device=device) < 0.5
    if is_whole(dtype):
        whole = torch.randint(fill.low, fill.high, (count,), generator=generator, device=device)
        ends = [-1, fill.low, fill.high - 1] if fill.low < 0 < fill.high else [fill.low, fill.high - 1]
        if count > 2 * len(ends):
            # An index that is wrapped or cut off at the wrong place shows there.
            whole[:: count // len(ends)][: len(ends)] = torch.tensor(ends, device=device)
        return whole.to(dtype)
    work = dtype if dtype in (torch.float64, torch.complex64, torch.complex128) else torch.float32
    work = torch.complex64 if dtype == torch.complex32 else work
    if fill.positive and not dtype.is_complex:
        values = torch.rand(count, generator=generator, device=device, dtype=work) + 0.5
    else:
        values = torch.randn(count, generator=generator, device=device, dtype=work) * fill.scale
    return values.to(dtype)
