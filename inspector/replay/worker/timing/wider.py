"""The same library call in float32 where it is given half precision: what the dtype costs on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from inspector.model.replay import Timing
from inspector.replay.worker.code.fx import Function

_HALF = frozenset({torch.float16, torch.bfloat16})


def in_float32(
    function: Function, args: Sequence[object], kwargs: Mapping[str, object]
) -> Callable[[], object] | None:
    """The call on copies in float32, results included; None where nothing in it has half precision."""
    leaves = tree_leaves((list(args), dict(kwargs)))
    if not any(isinstance(leaf, Tensor) and leaf.dtype in _HALF for leaf in leaves):
        return None
    wide, options = tree_map(_widened, (list(args), dict(kwargs)))
    return lambda: function(*wide, **options)


def surely_faster(first: Timing, wide: Timing, again: Timing) -> bool:
    """Whether float32 took less than half precision did both before and after it, beyond their spread."""
    return all(wide.surely_less(half) for half in (first, again))


def _widened(leaf: object) -> object:
    if isinstance(leaf, Tensor):
        return leaf.float() if leaf.dtype in _HALF else leaf.clone()
    return torch.float32 if isinstance(leaf, torch.dtype) and leaf in _HALF else leaf
