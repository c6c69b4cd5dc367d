"""Attention of one query, as a decoder that keeps keys and values has it: by the library, and written out.

    python benchmarks/one_query.py [--device cuda]

Both compiled, one after the other in turns, with results compared; medians and their ratio. "Of a part" reads
the first places of larger buffers, as a cache of keys and values is read.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from awkward_calls import begin, compare
from torch import Tensor

# Sequences, heads, queries, keys, channels of a head.
SIZES = (
    (1, 12, 1, 128, 64),
    (1, 12, 1, 1024, 64),
    (1, 32, 1, 2048, 128),
    (8, 12, 1, 512, 64),
    (16, 8, 1, 64, 32),
    (64, 8, 1, 256, 32),
    (192, 4, 1, 100, 32),
    (192, 4, 1, 20, 32),
    (512, 4, 1, 50, 16),
    (64, 8, 2, 256, 32),
    (64, 8, 4, 256, 32),
)
BUFFER = 2
"""Times the keys that are read."""


def by_library(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def written_out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = ((q.unsqueeze(-2) * k.unsqueeze(-3)).sum(-1) * q.shape[-1] ** -0.5).softmax(-1)
    return (weights.unsqueeze(-1) * v.unsqueeze(-3)).sum(-2)


def of_a_part(way: Callable[[Tensor, Tensor, Tensor], Tensor], keys: int) -> Callable[..., Tensor]:
    return lambda q, k, v: way(q, k[:, :, :keys], v[:, :, :keys])


def main() -> None:
    device = begin(__doc__ or "")
    print("attention of one query and of few, compiled: by the library, written out")
    for sequences, heads, queries, keys, channels in SIZES:
        q = torch.randn(sequences, heads, queries, channels, device=device)
        k, v = (torch.randn(sequences, heads, keys * BUFFER, channels, device=device) for _ in "kv")
        for part in (False, True):
            torch._dynamo.reset()
            library, own = (
                torch.compile(of_a_part(way, keys) if part else way) for way in (by_library, written_out)
            )
            given = (q, k, v) if part else (q, k[:, :, :keys].contiguous(), v[:, :, :keys].contiguous())
            torch.testing.assert_close(library(*given), own(*given), rtol=1e-3, atol=1e-3)
            name = f"{sequences}x{heads} of {queries}, {keys} keys of {channels}{', of a part' * part}"
            compare(name, lambda: library(*given), lambda: own(*given), device)  # noqa: B023


if __name__ == "__main__":
    main()
