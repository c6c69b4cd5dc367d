"""Distances of points, as ATen's `cdist` and as the root of a sum of squares.

    python benchmarks/distances.py [--device cuda]

Both compiled, one after the other in turns, with results compared; medians and their ratio. What is trained
has the backward of both sets in it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from awkward_calls import begin, compare
from torch import Tensor

# Sets, points of the one and of the other, coordinates.
SIZES = (
    (3072, 24, 24, 75),
    (256, 25, 20, 4),
    (1024, 16, 16, 3),
    (64, 128, 128, 8),
    (1, 2048, 2048, 3),
    (1, 4096, 4096, 2),
    (8, 1024, 1024, 3),
    (1, 20000, 100, 3),
    (1, 1000, 1000, 16),
    (16, 300, 50, 32),
    (1, 4096, 4096, 64),
    (1, 8192, 512, 128),
)


def written_out(x: Tensor, y: Tensor) -> Tensor:
    return (x.unsqueeze(-2) - y.unsqueeze(-3)).square().sum(-1).sqrt()


def main() -> None:
    device = begin(__doc__ or "")
    print("distances, compiled: cdist, written out")
    for sets, first, second, coordinates in SIZES:
        for trained in (False, True):
            torch._dynamo.reset()
            library, other = torch.compile(torch.cdist), torch.compile(written_out)
            x = torch.randn(sets, first, coordinates, device=device, requires_grad=trained)
            y = torch.randn(sets, second, coordinates, device=device, requires_grad=trained)
            torch.testing.assert_close(library(x, y), other(x, y), rtol=1e-3, atol=1e-3)

            def called(
                call: Callable[[Tensor, Tensor], Tensor],
                x: Tensor = x,
                y: Tensor = y,
                trained: bool = trained,
            ) -> object:
                made = call(x, y)
                return torch.autograd.grad(made.sum(), (x, y)) if trained else made

            name = f"{sets} of {first} and {second}, {coordinates} coordinates{', trained' * trained}"
            compare(name, lambda: called(library), lambda: called(other), device)  # noqa: B023


if __name__ == "__main__":
    main()
