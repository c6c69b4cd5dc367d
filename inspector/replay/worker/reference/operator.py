"""An extern or fallback call without a known FX node: the operator itself, in float64, is the reference."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from inspector.replay.worker.code.fx import Function
from inspector.replay.worker.inputs.arguments import promote
from inspector.replay.worker.reference.evaluate import mutable_schema
from inspector.replay.worker.reference.noise import Noise, unit


class NotRepeatable(Exception):
    """The call cannot be made a second time for a reference; the message says why."""


def repeat(
    function: Function,
    args: object,
    kwargs: Mapping[str, object],
    *,
    wide: bool,
    noise: Noise | None = None,
) -> object:
    """What the call gives once more, on clones, into memory of its own; `wide`: in float64. `noise`: on
    arguments that are off by as much as their dtype rounds.

    Raises NotRepeatable for random numbers and for operators that change their arguments, and what torch
    raises where the operator knows no float64.
    """
    if _is_random(function):
        raise NotRepeatable("it draws random numbers, other ones in each run")
    if mutable_schema(function) and "out" not in kwargs:
        raise NotRepeatable(f"{_name(function)} changes its arguments")
    copied, options = tree_map(_own_copy, (args, dict(kwargs)))
    sizes = [unit(leaf.dtype) for leaf in tree_leaves((copied, options)) if isinstance(leaf, Tensor)]
    if wide:
        copied, options = tree_map(_widened, (copied, options))
    if noise is not None:
        size = max(sizes, default=0.0)
        copied = tree_map(lambda leaf: noise.disturbed(leaf, size), copied)
    result = function(*copied, **options)
    return options["out"] if result is None and "out" in options else result


def _own_copy(leaf: object) -> object:
    return leaf.clone() if isinstance(leaf, Tensor) else leaf


def _widened(leaf: object) -> object:
    if isinstance(leaf, torch.dtype) and leaf.is_floating_point and leaf.itemsize > 1:
        return torch.float64
    return promote(leaf)


def _name(function: object) -> str:
    return str(getattr(function, "__name__", None) or function)


def _is_random(function: object) -> bool:
    if torch.Tag.nondeterministic_seeded in getattr(function, "tags", ()):
        return True
    name = str(function)
    return "rand" in name or "dropout" in name or "bernoulli" in name
