"""Products of many rows with a small matrix: by the library, and as the sum of a product.

    python benchmarks/thin_products.py [--device cuda]

Both compiled, one after the other in turns, with results compared; medians and their ratio. What is trained
has the backward of both factors in it. "Amid others" has an operator before and after, which sums fuse with.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from awkward_calls import begin, compare
from torch import Tensor

# Rows, inner elements, columns.
SIZES = (
    (50_000_000, 3, 3),
    (1_000_000, 3, 3),
    (100_000, 3, 3),
    (10_000, 3, 3),
    (1_000_000, 4, 4),
    (1_000_000, 8, 8),
    (1_000_000, 16, 16),
    (1_000_000, 32, 32),
    (1_000_000, 2, 32),
    (1_000_000, 3, 64),
    (1_000_000, 3, 256),
    (1_000_000, 64, 3),
    (1_000_000, 256, 3),
    (1_000_000, 64, 8),
)
TRAINED = {(1_000_000, 3, 3), (1_000_000, 8, 8), (1_000_000, 3, 64), (1_000_000, 64, 3)}
HALF = {(1_000_000, 3, 3), (1_000_000, 16, 16), (1_000_000, 64, 3)}
ON_A_CPU = 10
"""Rows there, times less."""


def by_library(x: Tensor, w: Tensor) -> Tensor:
    return x @ w


def as_sum(x: Tensor, w: Tensor) -> Tensor:
    return (x[..., :, None] * w).sum(-2)


def amid(product: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, w: torch.sin(product(x * 2 + 1, w) + 1)


def trained(product: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    compiled = torch.compile(product)

    def step(x: Tensor, w: Tensor) -> Tensor:
        x.grad = w.grad = None
        compiled(x, w).square().sum().backward()
        assert x.grad is not None
        return x.grad

    return step


def main() -> None:
    device = begin(__doc__ or "")
    print("rows by a small matrix, compiled: by the library, as a sum")
    for size in SIZES:
        rows, inner, columns = size
        rows //= 1 if device == "cuda" else ON_A_CPU
        for dtype in (torch.float32, torch.bfloat16) if size in HALF else (torch.float32,):
            x = torch.randn(rows, inner, device=device, dtype=dtype)
            w = torch.randn(inner, columns, device=device, dtype=dtype)
            name = f"{rows:,} by {inner}x{columns} {str(dtype)[6:]}"
            ways = [(name, torch.compile(by_library), torch.compile(as_sum))]
            ways += [(f"{name}, amid others", torch.compile(amid(by_library)), torch.compile(amid(as_sum)))]
            if size in TRAINED and dtype == torch.float32:
                ways += [(f"{name}, trained", trained(by_library), trained(as_sum))]
            for what, library, own in ways:
                torch._dynamo.reset()
                needs = what.endswith("trained")
                a, b = x.clone().requires_grad_(needs), w.clone().requires_grad_(needs)
                near = (library(a, b) - own(a, b)).abs().mean() / library(a, b).abs().mean()
                assert near < (3e-2 if dtype == torch.bfloat16 else 1e-4), near
                compare(what, lambda: library(a, b), lambda: own(a, b), device)  # noqa: B023


if __name__ == "__main__":
    main()
