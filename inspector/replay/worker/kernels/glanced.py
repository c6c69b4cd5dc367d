"""Many launches of one kernel, each on values of its own, looked at briefly: which of them are to be judged.

A launch whose results are those of the loops in their own dtypes needs no reference: it would match. The rest
are judged as any launch is, so that a glance accuses nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import torch
from torch import Tensor

from inspector.replay.worker.compare import tolerances

_MOST_MEMORY = 1 << 24
"""Elements of all launches' results that are kept at once."""

Results = Mapping[str, tuple[Tensor, Tensor]]
"""By output what the loops make of each launch's values, (launches, elements), and where they do."""


def glanced(
    run: Callable[[], bool],
    solved: Tensor,
    values: Tensor,
    before: Sequence[tuple[Tensor, Tensor]],
    outputs: Mapping[str, Tensor],
    results: Results,
) -> list[tuple[int, Collection[str] | None]]:
    """Those of the launches that differ from the loops, the farthest first, each with the outputs that do,
    None for any. `run`: launches, and whether that went well; one with which it did not is the only one.
    `solved`: the flat memory that takes each of the `values`, (launches, elements); `before`: memories and
    what they hold before each launch; `outputs`: flat memories, by the names that `results` has."""
    looked_at = {
        name: memory
        for name, memory in outputs.items()
        if name in results and results[name][0].shape[1] == memory.numel()
    }
    elements = sum(memory.numel() for memory in looked_at.values())
    if not looked_at or elements * len(values) > _MOST_MEMORY:
        return [(number, None) for number in range(len(values))]
    got: dict[str, list[Tensor]] = {name: [] for name in looked_at}
    for number, each in enumerate(values):
        for memory, value in before:
            memory.copy_(value)
        solved.copy_(each)
        if not run():
            return [(number, None)]
        for name, memory in looked_at.items():
            got[name].append(memory.clone())
    far = torch.stack([_apart(torch.stack(launches), *results[name]).cpu() for name, launches in got.items()])
    order = far.amax(0).argsort(descending=True, stable=True).tolist()
    whole = len(looked_at) == len(outputs)
    differ = (
        {name for name, apart in zip(got, far[:, number], strict=True) if apart > 1} for number in order
    )
    return [(number, names if whole else None) for number, names in zip(order, differ, strict=True) if names]


def _apart(compiled: Tensor, expected: Tensor, where: Tensor) -> Tensor:
    """Of each launch how far off the farthest element is, in tolerances."""
    if not compiled.dtype.is_floating_point:
        return ((compiled != expected.to(compiled.dtype)) & where).any(1).double() * 2
    rtol, _ = tolerances(compiled.dtype)
    left, right = compiled.to(torch.float64), expected.to(torch.float64)
    least = float(torch.finfo(compiled.dtype).smallest_normal) * float(torch.finfo(compiled.dtype).eps)
    off = (left - right).abs() / (rtol * right.abs() + 2 * least)
    same = (left == right) | (left.isnan() & right.isnan()) | ~where
    return torch.where(same, 0.0, off.nan_to_num(torch.inf, torch.inf)).amax(1)
