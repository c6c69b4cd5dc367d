"""Block pointers, ``tl.make_block_ptr``: Triton 3.9 no longer has them, captured kernels do.

Semantics are those of triton/language/core.py up to 3.8: a block at `offsets` in an array of `shape` and
`strides`; dimensions in ``boundary_check`` are masked, others are trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Union

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle

from inspector.replay.worker.interpreter.math import as_tensor

Places = Sequence[Union[tl.tensor, int]]
"""One number for each dimension: the interpreter's or Python's."""


@dataclass(frozen=True)
class BlockPointer:
    """A block of an array in memory: `base` is the pointer to its first element."""

    base: tl.tensor
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offsets: tuple[int, ...]
    block: tuple[int, ...]

    @property
    def element(self) -> tl.dtype:
        """The type of what it points to."""
        return self.base.dtype.element_ty

    def addresses(self, checked: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """The addresses of the block's elements, and which of them are inside in the `checked` dimensions."""
        kind = interpreter._get_np_dtype(self.element)
        places: np.ndarray = np.zeros(self.block, dtype=np.int64)
        inside: np.ndarray = np.ones(self.block, dtype=bool)
        for dimension, length in enumerate(self.block):
            index = np.arange(length).reshape([-1 if d == dimension else 1 for d in range(len(self.block))])
            index = index + self.offsets[dimension]
            places = places + index * self.strides[dimension]
            if dimension in checked:
                inside &= (index >= 0) & (index < self.shape[dimension])
        start = np.uint64(self.base.handle.data.item())
        return start + (places * kind.itemsize).astype(np.uint64), inside


def _int(value: tl.tensor | int) -> int:
    if isinstance(value, tl.constexpr):
        value = value.value
    return int(value.handle.data.item()) if isinstance(value, tl.tensor) else int(value)


def _ints(values: Places) -> tuple[int, ...]:
    return tuple(_int(value) for value in values)


def _make_block_ptr(
    base: tl.tensor,
    shape: Places,
    strides: Places,
    offsets: Places,
    block_shape: Places,
    *_: object,
    **__: object,
) -> BlockPointer:
    return BlockPointer(base, _ints(shape), _ints(strides), _ints(offsets), _ints(block_shape))


def _advance(pointer: BlockPointer, offsets: Places, **_: object) -> BlockPointer:
    moved = tuple(start + _int(step) for start, step in zip(pointer.offsets, offsets, strict=True))
    return replace(pointer, offsets=moved)


def _load(pointer: BlockPointer, checked: Sequence[int], padding: str) -> tl.tensor:
    addresses, inside = pointer.addresses(checked)
    element = pointer.element
    kind = interpreter._get_np_dtype(element)
    other = None
    if padding == "zero":
        other = TensorHandle(np.zeros(pointer.block, dtype=kind), element)
    handle = interpreter.interpreter_builder.create_masked_load(
        TensorHandle(addresses, pointer.base.dtype),
        TensorHandle(inside, tl.int1),
        other,
        None,
        False,
    )
    return tl.tensor(handle, tl.block_type(element, list(pointer.block)))


def _store(pointer: BlockPointer, value: tl.tensor, checked: Sequence[int]) -> None:
    addresses, inside = pointer.addresses(checked)
    value = as_tensor(value, pointer.element)
    interpreter.interpreter_builder.create_masked_store(
        TensorHandle(addresses, pointer.base.dtype),
        value.handle,
        TensorHandle(inside, tl.int1),
        None,
    )


def install() -> None:
    """Gives ``tl`` block pointers. After the interpreter has put its own functions there."""
    plain_load, plain_store = tl.load, tl.store

    def load(
        pointer: object,
        *args: object,
        boundary_check: Places = (),
        padding_option: str = "",
        **kwargs: object,
    ) -> object:
        if isinstance(pointer, BlockPointer):
            return _load(pointer, _ints(boundary_check), padding_option)
        return plain_load(pointer, *args, **kwargs)

    def store(
        pointer: object, value: object, *args: object, boundary_check: Places = (), **kwargs: object
    ) -> object:
        if isinstance(pointer, BlockPointer):
            _store(pointer, value, _ints(boundary_check))
            return None
        return plain_store(pointer, value, *args, **kwargs)

    for module in (tl, tl.core):
        module.load, module.store = load, store
        module.make_block_ptr, module.advance = _make_block_ptr, _advance
