"""A launch on memory with margins, lest what it writes outside of its buffers do harm unseen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from inspector.replay.worker.code.fx import Function, tensors_of

MARGIN = 4096
"""Bytes before and behind each memory; a multiple of every alignment that kernels count on."""

_MOST_BYTES = 256 << 20
"""Of all memories of a launch: copies of more take too long."""

_PATTERN = 0xA5


def guarded(function: Function, args: Sequence[object], kwargs: Mapping[str, object]) -> tuple[object, str]:
    """The result of ``function(*args, **kwargs)``, and where it wrote outside of its buffers, empty where it
    did not. It runs on copies of its tensors' memories; what they hold then is put into the originals."""
    tensors = [each for each in tensors_of((args, kwargs)) if each.device.type in ("cpu", "cuda")]
    storages = {each.untyped_storage().data_ptr(): each for each in tensors}
    if sum(each.untyped_storage().nbytes() for each in storages.values()) > _MOST_BYTES:
        return function(*args, **kwargs), ""
    own = {pointer: _bytes(each) for pointer, each in storages.items() if pointer}
    copies = {pointer: _with_margins(memory) for pointer, memory in own.items()}

    def moved(value: object) -> object:
        copy = copies.get(value.untyped_storage().data_ptr()) if isinstance(value, Tensor) else None
        if copy is None or not isinstance(value, Tensor):
            return value
        offset = MARGIN // value.dtype.itemsize + value.storage_offset()
        empty = torch.empty(0, dtype=value.dtype, device=value.device)
        return empty.set_(copy.untyped_storage(), offset, value.shape, value.stride())

    result = function(*tree_map(moved, tuple(args)), **tree_map(moved, dict(kwargs)))
    written = []
    for pointer, memory in own.items():
        copy = copies[pointer]
        memory.copy_(copy[MARGIN:-MARGIN])
        for where, margin in (("before", copy[:MARGIN].flip(0)), ("behind", copy[-MARGIN:])):
            places = (margin != _PATTERN).nonzero()
            if len(places):
                count, far = len(places), int(places.max()) + 1
                written.append(f"{count:,} bytes {where} a buffer of {len(memory):,}, up to {far:,} away")
    return result, f"it writes outside of its buffers: {'; '.join(written)}" if written else ""


def _bytes(tensor: Tensor) -> Tensor:
    """All of a tensor's memory."""
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def _with_margins(memory: Tensor) -> Tensor:
    copy = torch.full((len(memory) + 2 * MARGIN,), _PATTERN, dtype=torch.uint8, device=memory.device)
    copy[MARGIN:-MARGIN] = memory
    return copy
