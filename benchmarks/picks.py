"""One index of each row picked by its weights: by ATen's `multinomial`, and where its running sum passes a
uniform number.

    python benchmarks/picks.py [--device cuda]

Both compiled, one after the other in turns; medians and their ratio. How often each index is picked is
compared with its weight first, on both sides.
"""

from __future__ import annotations

import torch
from awkward_calls import begin, compare
from torch import Tensor

# Rows, and weights of each.
SIZES = (
    (1, 1000),
    (1, 32000),
    (8, 50257),
    (64, 256),
    (64, 8192),
    (768, 482),
    (4096, 8),
    (4096, 64),
    (100000, 4),
)


def by_library(weights: Tensor) -> Tensor:
    return torch.multinomial(weights.square(), 1).squeeze(-1)


def by_sums(weights: Tensor) -> Tensor:
    sums = weights.square().cumsum(-1)
    return (sums <= torch.rand_like(sums[..., :1]) * sums[..., -1:]).sum(-1).clamp(max=sums.shape[-1] - 1)


def by_search(weights: Tensor) -> Tensor:
    sums = weights.square().cumsum(-1)
    places = torch.searchsorted(sums, torch.rand_like(sums[..., :1]) * sums[..., -1:], right=True)
    return places.squeeze(-1).clamp(max=sums.shape[-1] - 1)


def check(device: str) -> None:
    weights = torch.tensor([0.0, 1.0, 0.0, 2.0, 3.0, 0.0], device=device)
    expected = weights.square() / weights.square().sum()
    for way in (by_library, by_sums, by_search):
        picked = torch.bincount(way(weights.expand(200_000, 6)), minlength=6) / 200_000
        torch.testing.assert_close(picked, expected, rtol=0, atol=0.005)
        assert not picked[expected == 0].any(), "what has no weight is never picked"


def main() -> None:
    device = begin(__doc__ or "")
    check(device)
    print("one index of each row, compiled: by multinomial, by a comparison or a search of running sums")
    for rows, length in SIZES:
        weights = torch.rand(rows, length, device=device)
        torch._dynamo.reset()
        library = torch.compile(by_library)
        for name, way in (("compared", by_sums), ("searched", by_search)):
            other = torch.compile(way)
            name = f"{rows} rows of {length}, {name}"
            compare(name, lambda: library(weights), lambda: other(weights), device)  # noqa: B023


if __name__ == "__main__":
    main()
