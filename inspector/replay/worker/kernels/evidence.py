"""Where an output is wrong, and by how much: what a reader needs in order to guess why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from inspector.model.replay import OutputCheck, Steps, WorstElement
from inspector.replay.worker.inputs.arguments import promote

_ROWS, _COLUMNS, _LEVELS = 12, 48, 8


def worst_element(
    name: str,
    compiled: object,
    eager: object,
    reference: object,
    check: OutputCheck,
    certain: Tensor | None = None,
) -> WorstElement | None:
    """The element farthest from the reference, a NaN before all others, and where wrong ones lie; None for
    what is no number. `check` has the tolerances; `certain`: elements that can be judged, None for all."""
    if not (isinstance(compiled, Tensor) and isinstance(eager, Tensor) and isinstance(reference, Tensor)):
        return None
    if not compiled.numel() or compiled.dtype.is_complex or reference.numel() != compiled.numel():
        return None
    ours, truth = promote(compiled).to(torch.float64), reference.reshape(compiled.shape).to(torch.float64)
    same = (ours == truth) | (torch.isnan(ours) & torch.isnan(truth))
    distance = torch.where(same, 0.0, torch.nan_to_num((ours - truth).abs(), math.inf, math.inf))
    if certain is not None:
        distance = torch.where(certain.reshape(distance.shape), distance, 0.0)
    place = _place(int(distance.reshape(-1).argmax()), compiled.shape)
    element = WorstElement(name, place, _plain(compiled[place]), _plain(eager[place]), _plain(truth[place]))
    allowed = (check.atol or 0.0) + (check.rtol or 0.0) * truth.abs()
    wrong = (distance > torch.nan_to_num(allowed, 0.0, 0.0)).reshape(-1)
    if not bool(wrong.any()):
        return element
    flat = wrong.reshape(-1, compiled.shape[-1]) if compiled.dim() else wrong.reshape(1, 1)
    ulps, relative = _sizes(float(distance[place]), float(truth[place]), compiled.dtype)
    return replace(
        element,
        first=_place(int(wrong.to(torch.uint8).argmax()), compiled.shape),
        ulps=ulps,
        relative=relative,
        picture=_picture(flat),
        rows=_steps(flat.any(1)),
        columns=_steps(flat.any(0)),
    )


def _place(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    place: tuple[int, ...] = ()
    for size in reversed(shape):
        place = (flat % size, *place)
        flat //= size
    return place


def _plain(value: Tensor) -> float | str:
    """A number that JSON has, else its name."""
    number = float(promote(value))
    return number if math.isfinite(number) else str(number)


def _sizes(distance: float, truth: float, dtype: torch.dtype) -> tuple[float | None, float | None]:
    """The distance in units in the last place of the true value in that dtype, and as a part of it."""
    if not math.isfinite(distance) or not math.isfinite(truth):
        return None, None
    relative = distance / abs(truth) if truth else None
    if not dtype.is_floating_point:
        return None, relative
    info = torch.finfo(dtype)
    exponent = math.floor(math.log2(max(abs(truth), float(info.smallest_normal))))
    return distance / (float(info.eps) * 2.0**exponent), relative


def _picture(wrong: Tensor) -> tuple[str, ...]:
    """The share of wrong elements in each part of a matrix as a digit from 0 (none) to 8 (all)."""
    rows, columns = wrong.shape
    high, wide = min(rows, _ROWS), min(columns, _COLUMNS)
    down = torch.arange(rows, device=wrong.device) * high // rows
    across = torch.arange(columns, device=wrong.device) * wide // columns
    counts = torch.zeros(high, columns, dtype=torch.float64, device=wrong.device)
    counts.index_add_(0, down, wrong.to(torch.float64))
    cells = torch.zeros(high, wide, dtype=torch.float64, device=wrong.device)
    cells.index_add_(1, across, counts)
    sizes = torch.bincount(down, minlength=high)[:, None] * torch.bincount(across, minlength=wide)[None]
    levels = torch.ceil(cells / sizes * _LEVELS).to(torch.int64)
    return tuple("".join(map(str, line)) for line in levels.tolist())


def _steps(hit: Tensor) -> Steps | None:
    """The first, the last and the step of the indices that are hit, where they lie in equal steps."""
    indices = torch.nonzero(hit).reshape(-1)
    gaps = torch.unique(indices[1:] - indices[:-1])
    if gaps.numel() > 1:
        return None
    return Steps(int(indices[0]), int(indices[-1]), int(gaps[0]) if gaps.numel() else 1, hit.numel())
