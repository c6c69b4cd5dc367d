"""An extern or fallback call without a known FX node: the operator itself, in float64, is the reference."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from inspector.replay.worker.code.fx import Function
from inspector.replay.worker.inputs.arguments import promote


class NotRepeatable(Exception):
    """The call cannot be made a second time for a reference; the message says why."""


def repeat(function: Function, args: object, kwargs: Mapping[str, object], *, wide: bool) -> object:
    """What the call gives once more, on clones, into memory of its own; `wide`: in float64.

    Raises NotRepeatable for random numbers and for operators that change their arguments, and what torch
    raises where the operator knows no float64.
    """
    if _is_random(function):
        raise NotRepeatable("it draws random numbers, other ones in each run")
    if _mutates(function) and "out" not in kwargs:
        raise NotRepeatable(f"{_name(function)} changes its arguments")
    convert = promote if wide else _same
    copied = tree_map(lambda leaf: convert(leaf.clone()) if isinstance(leaf, Tensor) else leaf, args)
    options = tree_map(lambda leaf: convert(leaf.clone()) if isinstance(leaf, Tensor) else leaf, dict(kwargs))
    if wide:
        copied, options = tree_map(_wide_dtype, (copied, options))
    result = function(*copied, **options)
    return options["out"] if result is None and "out" in options else result


def _same(tensor: Tensor) -> Tensor:
    return tensor


def _wide_dtype(value: object) -> object:
    if isinstance(value, torch.dtype) and value.is_floating_point and value.itemsize > 1:
        return torch.float64
    return value


def _name(function: object) -> str:
    return str(getattr(function, "__name__", None) or function)


def _is_random(function: object) -> bool:
    if torch.Tag.nondeterministic_seeded in getattr(function, "tags", ()):
        return True
    name = str(function)
    return "rand" in name or "dropout" in name or "bernoulli" in name


def _mutates(function: object) -> bool:
    schema = getattr(function, "_schema", None)
    return bool(schema is not None and schema.is_mutable)
