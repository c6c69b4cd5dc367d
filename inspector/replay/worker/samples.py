"""The reference again with disturbed rounding, as often as shows how far that moves each element."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import torch
from torch import Tensor

_SAMPLES = 8
"""Disturbed references at most; as long as elements are outside."""

_SAMPLES_S = 2.0
"""Seconds after which four of them are enough; two after four times as long."""


def flat(tensor: Tensor) -> Tensor:
    tensor = torch.view_as_real(tensor.resolve_conj()) if tensor.dtype.is_complex else tensor
    return tensor.reshape(-1)


class Samples:
    """How far disturbed rounding moves each element of the reference, as far as seen; flat float64.

    `moved` is infinite where an element is not finite in one and finite in the other. `second` is what all
    but the one that moved it farthest did: what the others say of that one."""

    def __init__(
        self, noisy: Callable[[int], object] | None, reference: Tensor, certain: Tensor | None
    ) -> None:
        self._noisy = noisy
        self._reference = reference
        self.moved: Tensor | None = None
        self.second: Tensor | None = None
        self._spent_s = 0.0
        self.partial = certain is not None
        if certain is not None:
            unsure = torch.full((), math.inf, dtype=torch.float64, device=certain.device)
            self.moved = torch.where(certain.reshape(-1), torch.zeros_like(unsure), unsure)
        self.count = 0

    @property
    def expected(self) -> bool:
        """Whether there is, or will be, a sample."""
        return self._noisy is not None or self.count > 0

    @property
    def alone(self) -> int:
        """How many elements one of them moved and no other."""
        if self.moved is None or self.second is None:
            return 0
        return int(((self.moved > 0) & self.moved.isfinite() & (self.second == 0)).sum())

    def more(self) -> bool:
        """Draws one more; False where there is none to have."""
        if self._noisy is None or self.count == _SAMPLES:
            return False
        if self._spent_s > _SAMPLES_S * (1 if self.count >= 4 else 4) and self.count > 1:
            return False
        started = time.monotonic()
        try:
            sample = self._noisy(self.count + 1)
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            if isinstance(error, torch.cuda.OutOfMemoryError):
                raise
            sample = None
        if not isinstance(sample, Tensor) or sample.numel() != self._reference.numel():
            self._noisy = None
            return False
        self.count += 1
        self._spent_s += time.monotonic() - started
        left, right = (flat(value).to(torch.float64) for value in (sample, self._reference))
        distance = torch.where(same(left, right), 0.0, (left - right).abs()).nan_to_num_(math.inf, math.inf)
        before = torch.zeros_like(distance) if self.moved is None else self.moved
        less = torch.minimum(before, distance)
        self.second = less if self.second is None else torch.maximum(self.second, less)
        self.moved = torch.maximum(before, distance)
        return True


def same(left: Tensor, right: Tensor) -> Tensor:
    return (left == right) | (torch.isnan(left) & torch.isnan(right))
