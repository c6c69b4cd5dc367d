"""Filters of images that mix no channels, as a library's convolution and as a sum of shifted products.

    python benchmarks/stencils.py [--device cuda]

Both compiled, one after the other in turns, with results compared; medians and their ratio. What is trained
has the backward in it, of the image alone or of the filter, too. Some images are padded by their
edges first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product

import torch
from awkward_calls import begin, compare
from torch import Tensor
from torch.nn import functional

# Images, channels, sizes of each, taps of the filter.
ONE_CHANNEL: tuple[tuple[int, int, tuple[int, ...], tuple[int, ...]], ...] = (
    (1, 1, (64, 64), (3, 3)),
    (1, 1, (256, 256), (1, 5)),
    (1, 1, (256, 256), (5, 1)),
    (1, 1, (512, 512), (1, 25)),
    (1, 1, (512, 512), (25, 1)),
    (1, 1, (1024, 1024), (1, 7)),
    (1, 1, (512, 512), (3, 3)),
    (16, 1, (64, 64), (3, 3)),
    (16, 1, (128, 128), (7, 7)),
    (4, 1, (256, 256), (11, 11)),
    (1, 1, (96, 96, 96), (9, 1, 1)),
    (1, 1, (96, 96, 96), (1, 1, 9)),
    (1, 1, (64, 64, 64), (3, 3, 3)),
    (16, 1, (4000,), (3,)),
    (16, 1, (4000,), (15,)),
    (16, 1, (4000,), (63,)),
)
BY_THEMSELVES: tuple[tuple[int, int, tuple[int, ...], tuple[int, ...]], ...] = (
    (1, 3, (256, 256), (3, 3)),
    (8, 3, (512, 512), (3, 3)),
    (8, 3, (128, 128), (5, 5)),
    (8, 3, (128, 128), (11, 11)),
    (8, 8, (128, 128), (3, 3)),
    (8, 8, (64, 64), (5, 5)),
    (8, 16, (64, 64), (3, 3)),
    (8, 16, (64, 64), (5, 5)),
    (8, 64, (32, 32), (3, 3)),
    (8, 64, (16, 16), (5, 5)),
    (2, 128, (32, 32), (3, 3)),
)
TRAINED = (
    (8, 1, (128, 128), (3, 3)),
    (8, 3, (128, 128), (3, 3)),
    (8, 3, (64, 64), (5, 5)),
    (8, 16, (64, 64), (3, 3)),
)


def filtered(x: Tensor, weight: Tensor) -> Tensor:
    """`weight` has each channel's taps: channels, then the window."""
    convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[weight.ndim - 2]
    return convolve(x, weight[:, None], groups=weight.shape[0])


def shifted(x: Tensor, weight: Tensor) -> Tensor:
    window, sizes = weight.shape[1:], x.shape[2:]
    kept = [size - taps + 1 for size, taps in zip(sizes, window, strict=True)]
    made: Tensor | None = None
    for place in product(*map(range, window)):
        parts = [slice(start, start + size) for start, size in zip(place, kept, strict=True)]
        part = x[tuple([Ellipsis, *parts])]  # noqa: C409 (a subscript with a star is newer than 3.10)
        tap = weight[tuple([slice(None), *place])].view([-1, *[1] * len(window)])  # noqa: C409
        made = part * tap if made is None else made + part * tap
    assert made is not None
    return made


def _padded(of: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    def called(x: Tensor, weight: Tensor) -> Tensor:
        sides = [taps // 2 for taps in reversed(weight.shape[1:]) for _ in range(2)]
        return of(functional.pad(x, sides, mode="replicate"), weight)

    return called


def timed(name: str, x: Tensor, weight: Tensor, device: str, padded: bool = False) -> None:
    torch._dynamo.reset()
    ways = (_padded(filtered), _padded(shifted)) if padded else (filtered, shifted)
    library, other = (torch.compile(way) for way in ways)
    torch.testing.assert_close(library(x, weight), other(x, weight), rtol=1e-3, atol=1e-3)
    wanted = [tensor for tensor in (x, weight) if tensor.requires_grad]

    def called(call: Callable[[Tensor, Tensor], Tensor]) -> object:
        made = call(x, weight)
        return torch.autograd.grad(made.sum(), wanted) if wanted else made

    compare(name, lambda: called(library), lambda: called(other), device)


def named(images: int, channels: int, sizes: Sequence[int], taps: Sequence[int]) -> str:
    return f"{images}x{channels}x{'x'.join(map(str, sizes))}, {'x'.join(map(str, taps))} taps"


def main() -> None:
    device = begin(__doc__ or "")
    for title, rows in (("of one channel", ONE_CHANNEL), ("of each channel by itself", BY_THEMSELVES)):
        print(f"filters {title}, compiled: the library's, as a sum")
        for images, channels, sizes, taps in rows:
            x = torch.randn(images, channels, *sizes, device=device)
            weight = torch.randn(channels, *taps, device=device) / math.prod(taps)
            timed(named(images, channels, sizes, taps), x, weight, device)
    print("filters that are trained, compiled: the library's, as a sum")
    for images, channels, sizes, taps in TRAINED:
        for own in (False, True):
            x = torch.randn(images, channels, *sizes, device=device, requires_grad=True)
            weight = torch.randn(channels, *taps, device=device).div_(math.prod(taps)).requires_grad_(own)
            timed(f"{named(images, channels, sizes, taps)}{', trained' * own}", x, weight, device)
    print("filters of what is padded first, compiled: the library's, as a sum")
    for images, channels, sizes, taps in (ONE_CHANNEL[6], ONE_CHANNEL[7], BY_THEMSELVES[0]):
        x = torch.randn(images, channels, *sizes, device=device)
        weight = torch.randn(channels, *taps, device=device) / math.prod(taps)
        timed(f"{named(images, channels, sizes, taps)}, padded", x, weight, device, padded=True)


if __name__ == "__main__":
    main()
