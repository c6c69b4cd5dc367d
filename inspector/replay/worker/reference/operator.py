"""An extern or fallback call without a known FX node: the operator itself, in float64, is the reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from inspector.replay.worker.code.fx import Function
from inspector.replay.worker.inputs.arguments import promote
from inspector.replay.worker.reference.evaluate import mutable_schema
from inspector.replay.worker.reference.noise import Noise, unit
from inspector.replay.worker.reference.philox import RANDOM


class NotRepeatable(Exception):
    """The call cannot be made a second time for a reference; the message says why."""


def repeat(
    function: Function,
    args: object,
    kwargs: Mapping[str, object],
    *,
    wide: bool,
    noise: Noise | None = None,
    generators: Sequence[Tensor] = (),
) -> object:
    """What the call gives once more, on clones, into memory of its own; `wide`: in float64. `noise`: on
    arguments that are off by as much as their dtype rounds. `generators`: `generator_states` as they were
    before the call, with which random numbers are drawn again, in the operator's own dtypes.

    Raises NotRepeatable for operators that change their arguments, for random numbers without `generators`,
    and what torch raises where the operator knows no float64.
    """
    if draws_numbers(function):
        if not generators:
            raise NotRepeatable(f"it {RANDOM}")
        with _generators(generators):
            drawn = _called(function, *tree_map(_own_copy, (args, dict(kwargs))))
        return tree_map(promote, drawn) if wide else drawn
    if mutable_schema(function) and "out" not in kwargs:
        raise NotRepeatable(f"{_name(function)} changes its arguments")
    copied, options = tree_map(_own_copy, (args, dict(kwargs)))
    sizes = [unit(leaf.dtype) for leaf in tree_leaves((copied, options)) if isinstance(leaf, Tensor)]
    if wide:
        copied, options = tree_map(_widened, (copied, options))
    if noise is not None:
        size = max(sizes, default=0.0)
        copied = tree_map(lambda leaf: noise.disturbed(leaf, size), copied)
    return _called(function, copied, options)


def _called(function: Function, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    result = function(*args, **kwargs)
    return kwargs["out"] if result is None and "out" in kwargs else result


def generator_states() -> list[Tensor]:
    """Of the CPU and of the current GPU, where one is in use."""
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state()] if torch.cuda.is_initialized() else states


@contextmanager
def _generators(states: Sequence[Tensor]) -> Iterator[None]:
    before = generator_states()
    try:
        _set_generators(states)
        yield
    finally:
        _set_generators(before)


def _set_generators(states: Sequence[Tensor]) -> None:
    torch.set_rng_state(states[0])
    if len(states) > 1:
        torch.cuda.set_rng_state(states[1])


def _own_copy(leaf: object) -> object:
    return leaf.clone() if isinstance(leaf, Tensor) else leaf


def _widened(leaf: object) -> object:
    if isinstance(leaf, torch.dtype) and leaf.is_floating_point and leaf.itemsize > 1:
        return torch.float64
    return promote(leaf)


def _name(function: object) -> str:
    return str(getattr(function, "__name__", None) or function)


def draws_numbers(function: object) -> bool:
    if torch.Tag.nondeterministic_seeded in getattr(function, "tags", ()):
        return True
    name = str(function)
    return "rand" in name or "dropout" in name or "bernoulli" in name
