"""One candidate's elements against the rounded reference, and what is summed up of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from inspector.replay.worker.samples import same

_RTOL_BACK = 1e-2
"""A finite value where the reference rounds to infinity: both are near the dtype's largest number."""


@dataclass(slots=True)
class Side:
    """What is summed up over chunks for one of the two candidates."""

    worst: float = 0.0
    error: float = 0.0
    squares: float = 0.0
    outside: int = 0
    special: int = 0
    compared: int = 0

    def add(self, element: Element) -> None:
        self.worst = max(self.worst, float(element.off.max()))
        self.error = max(self.error, float(element.error.max()))
        self.squares += float(element.error.square().sum())
        self.compared += int(element.both.sum())
        self.special += int(element.special.sum())
        self.outside += int((element.special | (element.off > 1.0)).sum())

    def add_moved(self, distance: Tensor, tolerance: Tensor) -> None:
        """What a disturbed reference moved; what is not finite in one of the two tells nothing."""
        off = (distance / tolerance).nan_to_num_(0.0)
        known = torch.isfinite(distance) & torch.isfinite(tolerance)
        self.worst = max(self.worst, float(torch.where(known, off, 0.0).max()))
        self.error = max(self.error, float(torch.where(known, distance, 0.0).max()))
        self.outside += int((known & (off > 1.0)).sum())

    @property
    def rms(self) -> float:
        return math.sqrt(self.squares / self.compared) if self.compared else 0.0


class Element:
    """Each element of one candidate against the rounded reference."""

    def __init__(
        self,
        values: Tensor,
        rounded: Tensor,
        exact: Tensor,
        finite: Tensor,
        tolerance: Tensor,
        free: Tensor,
        dtype: torch.dtype,
    ) -> None:
        value = values.to(torch.float64)
        self.both = finite & torch.isfinite(value)
        self.error = torch.where(self.both, (value - rounded).abs(), 0.0)
        self.off = torch.where(self.error == 0, 0.0, self.error / tolerance)
        self.off.masked_fill_(free, 0.0)
        # Just below the largest number one side may round up to infinity and the other not.
        edge = torch.isinf(value) & finite & (rounded.abs() + tolerance >= float(torch.finfo(dtype).max))
        # Unless it is that number, which a clamp or a constant gives and no rounding.
        either = (torch.sign(value) == torch.sign(rounded)) | (tolerance > rounded.abs())
        edge &= either & (exact.abs() != float(torch.finfo(dtype).max))
        back = torch.isinf(rounded) & torch.isfinite(exact) & torch.isfinite(value)
        back &= (value - exact).abs() <= tolerance + _RTOL_BACK * exact.abs()
        self.special = ~self.both & ~same(value, rounded) & ~edge & ~back & ~free


def typical(errors: Tensor, among: Tensor | None = None) -> Tensor:
    """The median of each row, from 64 of its elements or so, only of those that are not zero in `among`; what
    a few large ones do not move."""
    step = max(1, errors.shape[1] // 64)
    some = errors[:, ::step]
    if among is not None:
        some = torch.where(among[:, ::step] == 0, math.nan, some)
    return some.nanmedian(1, keepdim=True).values.nan_to_num_(0.0)
