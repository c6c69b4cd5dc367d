"""A batched product of a factor that Inductor writes with the batch innermost, on a CPU, and the ways out.

``python benchmarks/factor_strides.py`` prints medians in milliseconds, in turns in one process: the diagonal
blocks of Mamba-2 (transformers' mamba2_chunk_scan: M = G * L, and its product with the values), compiled as
written, with ``.contiguous()`` behind M, with the heads in front of M's rows at once, and in eager.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

CHUNKS, LENGTH, HEADS, STATE, VALUES = 3, 256, 16, 64, 32
ROUNDS = 30


def decay(a: Tensor) -> Tensor:
    keep = torch.tril(torch.ones(LENGTH, LENGTH, dtype=torch.bool))
    below = torch.tril(torch.ones(LENGTH, LENGTH, dtype=torch.bool), diagonal=-1)
    steps = a[..., None].expand(*a.shape, LENGTH).masked_fill(~below, 0)
    return steps.cumsum(dim=-2).masked_fill(~keep, float("-inf")).exp()


def as_written(c: Tensor, b: Tensor, x: Tensor, a: Tensor) -> Tensor:
    m = torch.einsum("bclhn,bcshn->bclsh", c, b) * decay(a).permute(0, 2, 3, 4, 1)
    return torch.einsum("bclsh,bcshp->bclhp", m, x)


def contiguous(c: Tensor, b: Tensor, x: Tensor, a: Tensor) -> Tensor:
    m = (torch.einsum("bclhn,bcshn->bclsh", c, b) * decay(a).permute(0, 2, 3, 4, 1)).contiguous()
    return torch.einsum("bclsh,bcshp->bclhp", m, x)


def heads_first(c: Tensor, b: Tensor, x: Tensor, a: Tensor) -> Tensor:
    m = torch.einsum("bclhn,bcshn->bchls", c, b) * decay(a).permute(0, 2, 1, 3, 4)
    return torch.einsum("bchls,bcshp->bclhp", m, x)


def main() -> None:
    torch.manual_seed(0)
    c, b = torch.randn(2, 1, CHUNKS, LENGTH, HEADS, STATE)
    x = torch.randn(1, CHUNKS, LENGTH, HEADS, VALUES)
    a = torch.randn(1, HEADS, CHUNKS, LENGTH) * 0.1
    ways: dict[str, Callable[..., Tensor]] = {
        way.__name__: torch.compile(way) for way in (as_written, contiguous, heads_first)
    }
    ways["in eager"] = as_written
    took: dict[str, list[float]] = {name: [] for name in ways}
    with torch.inference_mode():
        expected = as_written(c, b, x, a)
        for way in ways.values():
            torch.testing.assert_close(way(c, b, x, a), expected, rtol=1e-3, atol=1e-2)
        for _ in range(ROUNDS):
            for name, way in ways.items():
                start = time.perf_counter()
                way(c, b, x, a)
                took[name].append((time.perf_counter() - start) * 1e3)
    for name, times in took.items():
        low, middle, high = statistics.quantiles(times, n=4)
        print(f"{name:12s} {middle:6.2f} ms   ({low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
