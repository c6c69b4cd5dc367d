"""What a library takes for calls that it does badly, and what another size or another way to write it takes.

``python benchmarks/awkward_calls.py [--device cuda]`` prints a table for each kind of the rule
`awkward_calls`: both sides in turns in one process, medians, and their ratio (above 1 the way out is faster).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from inspector.explain.rules.awkward_calls import next_smooth

ROUNDS = 15
PRODUCTS = ((512, 4), (1000, 3), (20000, 3), (20000, 4), (20000, 6), (20000, 8))
"""How many, and rows and columns of both."""
TRANSFORMS = (
    (3623, 3645),
    (7246, 7290),
    (8191, 8192),
    (7996, 8000),
    (8384, 8400),
    (7808, 7840),
    (7992, 8000),
)
FILTERS = (
    (1, 1, 48000, 256),
    (1, 1, 48000, 720),
    (8, 1, 24000, 512),
    (4, 64, 4000, 512),
    (2, 1, 500000, 1024),
)
"""Batch, channels, length, taps."""
CONVOLUTIONS = ((768, 4095, 3), (512, 1024, 4), (512, 2048, 7))


def once(call: Callable[[], object], device: str) -> float:
    """Microseconds of one call."""
    if device == "cuda":
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(200_000)
        first.record()
        call()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) * 1e3
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e6


def compare(name: str, library: Callable[[], object], other: Callable[[], object], device: str) -> None:
    for _ in range(3):
        library()
        other()
    pairs = [(once(library, device), once(other, device)) for _ in range(ROUNDS)]
    ours, theirs = (statistics.median(pair[side] for pair in pairs) for side in (1, 0))
    print(f"  {name:44} {theirs:10.1f} {ours:10.1f} us  {theirs / ours:6.2f}", flush=True)


def product(first: Tensor, second: Tensor) -> Tensor:
    return (first + 1) @ (second * 2) + 3


def as_sum(first: Tensor, second: Tensor) -> Tensor:
    return ((first + 1)[..., :, :, None] * (second * 2)[..., None, :, :]).sum(-2) + 3


def depthwise(x: Tensor, weight: Tensor) -> Tensor:
    taps = weight.shape[-1]
    return functional.conv1d(x, weight, padding=taps - 1, groups=x.shape[1])[..., : x.shape[-1]]


def shifted(x: Tensor, weight: Tensor) -> Tensor:
    taps, length = weight.shape[-1], x.shape[-1]
    padded = functional.pad(x, (taps - 1, 0))
    made = padded[..., :length] * weight[:, 0, :1]
    for tap in range(1, taps):
        made = made + padded[..., tap : tap + length] * weight[:, 0, tap : tap + 1]
    return made


def turned(z: Tensor) -> Tensor:
    angle = z.imag * 2
    return torch.exp(1j * angle)


def turned_real(z: Tensor) -> Tensor:
    angle = z.imag * 2
    return torch.complex(angle.cos(), angle.sin())


def _contiguous(z: Tensor) -> tuple[Tensor, Tensor]:
    """Lengths and angles, as many as there are numbers."""
    both = torch.view_as_real(z).view(2, -1)
    return both[0], both[1]


def _polar(length: Tensor, angle: Tensor) -> Tensor:
    return torch.complex(length * angle.cos(), length * angle.sin())


COMPLEX: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "abs": (lambda z: z.abs() * 2, lambda z: (z.real**2 + z.imag**2).sqrt() * 2),
    "abs squared": (lambda z: z.abs() ** 2, lambda z: z.real**2 + z.imag**2),
    "polar": (
        lambda z: torch.polar(*_contiguous(z)),
        lambda z: _polar(*_contiguous(z)),
    ),
    "exp of an angle": (turned, turned_real),
    "product": (
        lambda z: z * (z + 1),
        lambda z: torch.complex(
            z.real * (z.real + 1) - z.imag * z.imag, z.real * z.imag + z.imag * (z.real + 1)
        ),
    ),
}
"""As written, and with real numbers."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    device = parser.parse_args().device
    torch.manual_seed(0)
    where = (
        torch.cuda.get_device_name() if device == "cuda" else f"{torch.get_num_threads()} threads of a CPU"
    )
    print(f"torch {torch.__version__}, {where}")
    many = 5 if device == "cuda" else 1
    print("products: compiled with the library's, compiled as sums")
    for dtype in (torch.float32, torch.float64):
        for count, side in PRODUCTS:
            torch._dynamo.reset()
            first = torch.randn(count * many, side, side, dtype=dtype, device=device)
            second = torch.randn(count * many, side, side, dtype=dtype, device=device)
            library, other = torch.compile(product), torch.compile(as_sum)
            torch.testing.assert_close(library(first, second), other(first, second), rtol=1e-3, atol=1e-3)
            name = f"{count * many} of {side}x{side} {str(dtype)[6:]}"
            compare(name, lambda: library(first, second), lambda: other(first, second), device)  # noqa: B023
    print("transforms: rfft of this length, of the next one of small factors")
    rows = 3072 if device == "cuda" else 100
    for length, smooth in TRANSFORMS:
        one, two = torch.randn(rows, length, device=device), torch.randn(rows, smooth, device=device)
        name = f"{rows} of {length}, of {smooth}"
        compare(name, lambda: torch.fft.rfft(one), lambda: torch.fft.rfft(two), device)  # noqa: B023
    print("depthwise convolutions, compiled: the library's, written out")
    batch = 12 if device == "cuda" else 2
    for channels, length, taps in CONVOLUTIONS:
        torch._dynamo.reset()
        x = torch.randn(batch, channels, length, device=device, requires_grad=True)
        weight = torch.randn(channels, 1, taps, device=device, requires_grad=True)
        library, other = torch.compile(depthwise), torch.compile(shifted)
        torch.testing.assert_close(library(x, weight), other(x, weight), rtol=1e-3, atol=1e-3)

        def trained(call: Callable[[Tensor, Tensor], Tensor]) -> object:
            return torch.autograd.grad(call(x, weight).sum(), (x, weight))  # noqa: B023

        name = f"{batch} of {channels}, {length} long, {taps} taps"
        with torch.no_grad():
            compare(name, lambda: library(x, weight), lambda: other(x, weight), device)  # noqa: B023
        compare(f"{name}, trained", lambda: trained(library), lambda: trained(other), device)  # noqa: B023
    print("long filters: the library's convolution, by transforms")
    for batch, channels, length, taps in FILTERS:
        x, filters = (
            torch.randn(batch, channels, length, device=device),
            torch.randn(channels, 1, taps, device=device),
        )
        size = next_smooth(length + taps)

        def filtered() -> Tensor:
            spectrum = torch.fft.rfft(x, size) * torch.fft.rfft(filters[:, 0].flip(-1), size)  # noqa: B023
            return torch.fft.irfft(spectrum, size)[..., taps - 1 : length]  # noqa: B023

        def convolved() -> Tensor:
            return functional.conv1d(x, filters, groups=channels)  # noqa: B023

        torch.testing.assert_close(convolved(), filtered(), rtol=1e-3, atol=1e-2)
        compare(f"{batch} of {channels} channels, {length} long, {taps} taps", convolved, filtered, device)
    print("complex numbers, compiled: as written, with real ones")
    count = 8_000_000 if device == "cuda" else 500_000
    for name, (written, real) in COMPLEX.items():
        torch._dynamo.reset()
        z = torch.randn(count, dtype=torch.complex64, device=device)
        library, other = torch.compile(written), torch.compile(real)
        torch.testing.assert_close(library(z), other(z), rtol=1e-4, atol=1e-4)
        compare(f"{name} of {count:,}", lambda: library(z), lambda: other(z), device)  # noqa: B023


if __name__ == "__main__":
    main()
