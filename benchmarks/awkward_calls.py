"""What a library takes for calls that it does badly, and what another size or another way to write it takes.

``python benchmarks/awkward_calls.py [--device cuda]`` prints a table for each kind of the rule
`awkward_calls`: both sides in turns in one process, medians, and their ratio (above 1 the way out is faster).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy
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
    (1, 1, 48000, 33),
    (1, 1, 48000, 65),
    (64, 1, 4000, 65),
    (8, 1, 24000, 129),
    (1, 1, 48000, 256),
    (1, 1, 48000, 720),
    (8, 1, 24000, 512),
    (4, 64, 4000, 512),
    (2, 1, 500000, 1024),
)
"""Batch, channels, length, taps."""
SHORT_ROWS = ((28800, 6), (100_000, 6), (100_000, 16), (50_000, 32), (20_000, 64), (2000, 512))
"""Rows of the smallest two, and of a median, and their elements."""
LONG_ROWS = ((60_000, 32), (30_000, 64), (8192, 256), (2048, 1024))
"""Rows that are sorted, and their elements."""
Sides = tuple[int, int]
WINDOWS = (
    ((1, 1, 360, 640), 41, 1),
    ((1, 1, 360, 640), 1, 41),
    ((1, 1, 360, 640), 15, 15),
    ((8, 3, 128, 128), 9, 9),
    ((1, 1, 1024, 1024), 31, 31),
    ((16, 32, 64, 64), 7, 7),
    ((4, 16, 256, 256), 1, 27),
    ((4, 16, 256, 256), 27, 1),
)
"""A tensor's sizes, and rows and columns of the windows whose means are taken."""
MIXED_FILTERS = (
    (1, 3, 6, 3, 4000, 2048),
    (1, 1, 4, 1, 16000, 512),
    (1, 1, 64, 1, 16000, 128),
    (1, 1, 64, 1, 16000, 400),
    (1, 6, 2, 1, 4000, 2048),
    (4, 8, 8, 1, 4000, 256),
    (1, 16, 16, 1, 8000, 512),
    (1, 32, 32, 1, 8000, 256),
)
"""Batch, channels in and out, groups, length, taps."""
SCANS = (((16, 512, 128), 1), ((16, 128, 512), 2), ((2048, 1024), 1), ((8, 4096, 16), 1))
"""Shapes, and the dimension that is summed along."""
CONVOLUTIONS = ((768, 4095, 3), (512, 1024, 4), (512, 2048, 7))


def _whole(x: Tensor, y: Tensor | int) -> Tensor:
    """The quotient, rounded down, exact for numbers below 2**53."""
    return (x.double() / y).floor()


DIVISIONS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]] = {
    "% a tensor": (lambda x, y: x % y, lambda x, y: (x - _whole(x, y) * y).to(x.dtype)),
    "// a tensor": (lambda x, y: x // y, lambda x, y: _whole(x, y).to(x.dtype)),
    "% 65521": (lambda x, _: x % 65521, lambda x, _: (x - _whole(x, 65521) * 65521).to(x.dtype)),
    "// 65521": (lambda x, _: x // 65521, lambda x, _: _whole(x, 65521).to(x.dtype)),
    "% 64, masked": (lambda x, _: x % 64, lambda x, _: x & 63),
    "// 64, shifted": (lambda x, _: x // 64, lambda x, _: x >> 6),
}
"""Name -> integers divided, and the same with floats or without a division."""


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


def begin(about: str) -> str:
    """The device that a script was asked to use, after saying what it is."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--device", default="cpu")
    device: str = parser.parse_args().device
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {device}")
    return device


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


def as_real(first: Tensor, second: Tensor) -> Tensor:
    a, b = (
        torch.view_as_real(first) + torch.tensor([1.0, 0.0]).to(first.device),
        torch.view_as_real(second) * 2,
    )
    (a, c), (b, d) = (
        [part[..., :, :, None] for part in a.unbind(-1)],
        [part[..., None, :, :] for part in b.unbind(-1)],
    )
    made = torch.stack(((a * b - c * d).sum(-2), (a * d + c * b).sum(-2)), -1)
    return torch.view_as_complex(made) + 3


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


def smallest(x: Tensor) -> tuple[Tensor, Tensor]:
    value, place = torch.topk(x * 2, 2, dim=-1, largest=False)
    return value, place


def smallest_in_turns(x: Tensor) -> tuple[Tensor, Tensor]:
    x = x * 2
    value, place = x.min(-1)
    others = torch.where(torch.arange(x.shape[-1], device=x.device) == place[..., None], torch.inf, x)
    second, behind = others.min(-1)
    return torch.stack((value, second), -1), torch.stack((place, behind), -1)


def middle(x: Tensor) -> Tensor:
    return (x * 2).sort(-1).values[..., x.shape[-1] // 2]


def sorted_by_numpy(x: Tensor) -> Tensor:
    return torch.from_numpy(numpy.sort(x.numpy()))


def middle_by_median(x: Tensor) -> Tensor:
    return (x * 2).median(-1).values


def middle_by_network(x: Tensor) -> Tensor:
    row = list((x * 2).unbind(-1))
    for turn in range(len(row)):
        for at in range(turn % 2, len(row) - 1, 2):
            row[at], row[at + 1] = torch.minimum(row[at], row[at + 1]), torch.maximum(row[at], row[at + 1])
    return row[len(row) // 2]


def determinant(a: Tensor) -> Tensor:
    (p, q), (r, s) = (row.unbind(-1) for row in a[..., :2, :2].unbind(-2))
    if a.shape[-1] == 2:
        return p * s - q * r
    x, y, z = a.unbind(-2)
    return (x * torch.linalg.cross(y, z)).sum(-1)


def inverse(a: Tensor) -> Tensor:
    if a.shape[-1] == 2:
        (p, q), (r, s) = (row.unbind(-1) for row in a.unbind(-2))
        rows = torch.stack((torch.stack((s, -q), -1), torch.stack((-r, p), -1)), -2)
        return rows / (p * s - q * r)[..., None, None]
    x, y, z = a.unbind(-2)
    columns = torch.linalg.cross(y, z), torch.linalg.cross(z, x), torch.linalg.cross(x, y)
    return torch.stack(columns, -1) / (x * columns[0]).sum(-1)[..., None, None]


def triangle(a: Tensor) -> Tensor:
    """Cholesky's, row by row."""
    side = a.shape[-1]
    made: list[list[Tensor]] = []
    for i in range(side):
        row: list[Tensor] = []
        for j in range(i + 1):
            rest = a[..., i, j] - sum(row[k] * (row if i == j else made[j])[k] for k in range(j))
            row.append(rest.sqrt() if i == j else rest / made[j][j])
        made.append(row)
    none = torch.zeros_like(a[..., 0, 0])
    return torch.stack([torch.stack([*row, *[none] * (side - len(row))], -1) for row in made], -2)


FORMULAS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "det": (lambda a: torch.linalg.det(a) * 2, lambda a: determinant(a) * 2),
    "inv": (lambda a: torch.linalg.inv(a) * 2, lambda a: inverse(a) * 2),
    "solve": (
        lambda a: torch.linalg.solve(a, a[..., 0]) * 2,
        lambda a: (inverse(a) * a[..., None, :, 0]).sum(-1) * 2,
    ),
    "cholesky": (lambda a: torch.linalg.cholesky(a) * 2, lambda a: triangle(a) * 2),
}
"""Of matrices of two or three rows: LAPACK's or a GPU's library's, and written out."""


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


def _sine(z: Tensor) -> Tensor:
    up, down = z.imag.exp(), (-z.imag).exp()
    return torch.complex(z.real.sin() * (up + down) / 2, z.real.cos() * (up - down) / 2)


def _cosine(z: Tensor) -> Tensor:
    up, down = z.imag.exp(), (-z.imag).exp()
    return torch.complex(z.real.cos() * (up + down) / 2, -z.real.sin() * (up - down) / 2)


def _root(z: Tensor) -> Tensor:
    size = (z.real * z.real + z.imag * z.imag).sqrt()
    large = ((size + z.real.abs()) / 2).sqrt()
    small, right = z.imag / (2 * large), z.real >= 0
    return torch.complex(
        torch.where(right, large, small.abs()), torch.where(right, small, large.copysign(z.imag))
    )


def _logarithm(z: Tensor) -> Tensor:
    return torch.complex((z.real**2 + z.imag**2).log() / 2, torch.atan2(z.imag, z.real))


def _grown(z: Tensor) -> Tensor:
    size = z.real.exp()
    return torch.complex(size * z.imag.cos(), size * z.imag.sin())


def _quotient(z: Tensor) -> Tensor:
    """Of it by itself and (1, 2)."""
    real, imag = z.real + 1, z.imag + 2
    by = 1 / (real * real + imag * imag)
    return torch.complex((z.real * real + z.imag * imag) * by, (z.imag * real - z.real * imag) * by)


COMPLEX: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "abs": (lambda z: z.abs() * 2, lambda z: (z.real**2 + z.imag**2).sqrt() * 2),
    "abs squared": (lambda z: z.abs() ** 2, lambda z: z.real**2 + z.imag**2),
    "polar": (
        lambda z: torch.polar(*_contiguous(z)),
        lambda z: _polar(*_contiguous(z)),
    ),
    "exp of an angle": (turned, turned_real),
    "exp": (lambda z: torch.exp(z) * 2, lambda z: _grown(z) * 2),
    "sin": (lambda z: torch.sin(z) * 2, lambda z: _sine(z) * 2),
    "cos": (lambda z: torch.cos(z) * 2, lambda z: _cosine(z) * 2),
    "sqrt": (lambda z: torch.sqrt(z) * 2, lambda z: _root(z) * 2),
    "log": (lambda z: torch.log(z) * 2, lambda z: _logarithm(z) * 2),
    "quotient": (lambda z: z / (z + (1 + 2j)), _quotient),
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
    print("products of complex numbers: compiled with the library's, as sums, as sums of real ones")
    for count, side in PRODUCTS[:4]:
        torch._dynamo.reset()
        first = torch.randn(count * many, side, side, dtype=torch.complex64, device=device)
        second = torch.randn(count * many, side, side, dtype=torch.complex64, device=device)
        library, other, real = torch.compile(product), torch.compile(as_sum), torch.compile(as_real)
        for way, call in (("sums", other), ("real", real)):
            torch.testing.assert_close(library(first, second), call(first, second), rtol=1e-3, atol=1e-3)
            name = f"{count * many} of {side}x{side} complex64, {way}"
            compare(name, lambda: library(first, second), lambda: call(first, second), device)  # noqa: B023
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

        torch.testing.assert_close(convolved(), filtered(), rtol=1e-3, atol=0.1)
        compare(f"{batch} of {channels} channels, {length} long, {taps} taps", convolved, filtered, device)
    for batch, channels, out, groups, length, taps in MIXED_FILTERS:
        x = torch.randn(batch, channels, length, device=device)
        filters = torch.randn(out, channels // groups, taps, device=device)
        size = next_smooth(length)

        def mixed() -> Tensor:
            given, weight = torch.fft.rfft(x, size), torch.fft.rfft(filters.flip(-1), size)  # noqa: B023
            parts = given.unflatten(1, (groups, -1)), weight.unflatten(0, (groups, -1))  # noqa: B023
            made = torch.einsum("bgif,goif->bgof", *parts).flatten(1, 2)
            return torch.fft.irfft(made, size)[..., taps - 1 : length]  # noqa: B023

        def convolve() -> Tensor:
            return functional.conv1d(x, filters, groups=groups)  # noqa: B023

        torch.testing.assert_close(convolve(), mixed(), rtol=1e-2, atol=1e-2)
        name = f"{batch} of {channels} to {out} channels, {length} long, {taps} taps"
        compare(name, convolve, mixed, device)
    print("the smallest two of each row, compiled: by topk, by a minimum and another")
    for rows, length in SHORT_ROWS:
        torch._dynamo.reset()
        x = torch.randn(rows * many, length, device=device)
        library, other = torch.compile(smallest), torch.compile(smallest_in_turns)
        torch.testing.assert_close(library(x), other(x))
        compare(f"{rows * many} rows of {length}", lambda: library(x), lambda: other(x), device)  # noqa: B023
    print("the middle of each row, compiled: by sort, by median; by sort, by a network of min and max")
    for rows, length in SHORT_ROWS[:4]:
        torch._dynamo.reset()
        x = torch.randn(rows * many, length | 1, device=device)
        library, other = torch.compile(middle), torch.compile(middle_by_median)
        torch.testing.assert_close(library(x), other(x))
        name = f"{rows * many} rows of {length | 1}"
        compare(f"{name}, median", lambda: library(x), lambda: other(x), device)  # noqa: B023
    for length in (9, 15, 21, 31):
        rows = 32_000 * many
        lying = torch.randn(16, rows // 16 + length - 1, device=device).unfold(-1, length, 1)
        for kind, x in (("rows", torch.randn(rows, length, device=device)), ("windows", lying)):
            torch._dynamo.reset()
            network = torch.compile(middle_by_network)
            for way, whole in (("sort", middle), ("median", middle_by_median)):
                library = torch.compile(whole)
                torch.testing.assert_close(library(x), network(x))
                name = f"{rows} {kind} of {length}, {way}, network"
                compare(name, lambda: library(x), lambda: network(x), device)  # noqa: B023
    for dtype in (torch.float32, torch.float64, torch.int32, torch.int64) if device == "cpu" else ():
        for rows, length in LONG_ROWS:
            x = (torch.randn(rows, length) * 1e6).to(dtype)
            torch.testing.assert_close(sorted_by_numpy(x), x.sort(-1).values)
            name = f"{rows} rows of {length} {dtype}, sorted: by ATen, by numpy"
            compare(name, lambda: x.sort(-1), lambda: sorted_by_numpy(x), device)  # noqa: B023
    print("matrices of two or three rows, compiled: the library's, written out")
    for name, (written, formula) in FORMULAS.items():
        for count, side in ((1000, 2), (1000, 3), (20000, 2), (20000, 3)):
            torch._dynamo.reset()
            a = torch.randn(count * many, side, side, device=device, dtype=torch.float64)
            a = a @ a.mT + torch.eye(side, device=device, dtype=torch.float64)
            library, other = torch.compile(written), torch.compile(formula)
            torch.testing.assert_close(library(a), other(a), rtol=1e-6, atol=1e-6)
            what = f"{name} of {count * many} of {side}x{side} float64"
            compare(what, lambda: library(a), lambda: other(a), device)  # noqa: B023
    if device == "cpu":
        means()
    complex_numbers(device)
    print("divisions of integers, compiled: as written, with floats, a shift or a mask")
    count = 400_000 * many
    for kind in (torch.int64, torch.int32):
        for name, (divided, instead) in DIVISIONS.items():
            torch._dynamo.reset()
            x = torch.randint(0, 1 << 30, (count,), device=device).to(kind)
            y = torch.randint(1, 1000, (count,), device=device).to(kind)
            whole, apart = torch.compile(divided), torch.compile(instead)
            torch.testing.assert_close(whole(x, y), apart(x, y))
            what = f"{count:,} of {str(kind)[6:]} {name}"
            compare(what, lambda: whole(x, y), lambda: apart(x, y), device)  # noqa: B023
    rotations(device)
    running_sums(device)


def rotation(a: Tensor) -> Tensor:
    """Of many matrices of 3x3 the nearest rotations, as structures are laid over each other."""
    u, _, v = torch.linalg.svd(a)
    sign = torch.linalg.det(u @ v).sign()
    return (u * torch.stack([torch.ones_like(sign), torch.ones_like(sign), sign], -1)[:, None, :]) @ v


def rotation_by_quaternion(a: Tensor) -> Tensor:
    """The same by the largest eigenvector of a 4x4 matrix, which squaring it brings out."""
    xx, xy, xz, yx, yy, yz, zx, zy, zz = a.flatten(1).unbind(1)
    rows = (
        (xx + yy + zz, zy - yz, xz - zx, yx - xy),
        (zy - yz, xx - yy - zz, xy + yx, zx + xz),
        (xz - zx, xy + yx, yy - xx - zz, yz + zy),
        (yx - xy, zx + xz, yz + zy, zz - xx - yy),
    )
    key = torch.stack([item for row in rows for item in row], 1).view(-1, 4, 4)
    m = key + key.square().sum((1, 2)).sqrt()[:, None, None] * torch.eye(4)
    for _ in range(12):
        m = m / m.diagonal(dim1=1, dim2=2).sum(1)[:, None, None]
        m = (m[:, :, :, None] * m[:, None, :, :]).sum(2)
    best = m.diagonal(dim1=1, dim2=2).argmax(1)
    q = m.gather(2, best[:, None, None].expand(-1, 4, 1)).squeeze(2)
    w, x, y, z = (q / q.square().sum(1, keepdim=True).sqrt()).unbind(1)
    made = (
        1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w),
        2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w),
        2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y),
    )  # fmt: skip
    return torch.stack(made, 1).view(-1, 3, 3)


def rotations(device: str) -> None:
    print("nearest rotations of 3x3, compiled: by their singular values, by quaternions")
    for count in (1000, 20000):
        torch._dynamo.reset()
        turned = torch.linalg.qr(torch.randn(count, 3, 3, dtype=torch.float64))[0]
        turned = turned * torch.linalg.det(turned).sign()[:, None, None]
        a = (turned + 0.05 * torch.randn(count, 3, 3)).float().to(device)
        library, other = torch.compile(rotation), torch.compile(rotation_by_quaternion)
        torch.testing.assert_close(library(a), other(a), rtol=1e-3, atol=1e-3)
        compare(f"{count:,}", lambda: library(a), lambda: other(a), device)  # noqa: B023


def running_means(x: Tensor, dim: int, length: int) -> Tensor:
    """Means of `length` elements in a row around each, of those that are there."""
    size, reach = x.shape[dim], length // 2
    sums = torch.nn.functional.pad(x.cumsum(dim), (0, 0, 1, 0) if dim == -2 else (1, 0))
    at = torch.arange(size)
    last, first = (at + reach + 1).clamp(max=size), (at - reach).clamp(min=0)
    count = (last - first).to(x.dtype)
    means = sums.index_select(dim, last) - sums.index_select(dim, first)
    return means / (count[:, None] if dim == -2 else count)


def means() -> None:
    print("means over windows, compiled: by avg_pool2d, by running sums")
    for shape, rows, columns in WINDOWS:
        torch._dynamo.reset()
        around = (rows // 2, columns // 2)
        x = torch.randn(shape)

        def pooled(x: Tensor, window: Sides = (rows, columns), around: Sides = around) -> Tensor:
            return torch.nn.functional.avg_pool2d(x + 1, window, 1, around, count_include_pad=False) * 2

        def summed(x: Tensor, rows: int = rows, columns: int = columns) -> Tensor:
            x = running_means(x + 1, -2, rows) if rows > 1 else x + 1
            return (running_means(x, -1, columns) if columns > 1 else x) * 2

        library, other = torch.compile(pooled), torch.compile(summed)
        torch.testing.assert_close(library(x), other(x), rtol=1e-3, atol=1e-3)
        name = f"{'x'.join(map(str, shape))}, windows of {rows}x{columns}"
        compare(name, lambda: library(x), lambda: other(x), "cpu")  # noqa: B023


def complex_numbers(device: str) -> None:
    print("complex numbers, compiled: as written, with real ones")
    for count in (8_000_000,) if device == "cuda" else (20_000, 500_000):
        for name, (written, real) in COMPLEX.items():
            torch._dynamo.reset()
            z = torch.randn(count, dtype=torch.complex64, device=device)
            library, other = torch.compile(written), torch.compile(real)
            torch.testing.assert_close(library(z), other(z), rtol=1e-4, atol=1e-4)
            compare(f"{name} of {count:,}", lambda: library(z), lambda: other(z), device)  # noqa: B023


def logs_summed(x: Tensor, dim: int) -> Tensor:
    return torch.logcumsumexp(x * 2, dim)


def numbers_summed(x: Tensor, dim: int) -> Tensor:
    x = x * 2
    most = x.amax(dim, keepdim=True)
    return ((x - most).double().exp().cumsum(dim).log() + most).to(x.dtype)


def running_sums(device: str) -> None:
    print("running sums of exponentials, compiled: as logarithms, as doubles")
    for shape, dim in SCANS:
        for trained in (False, True):
            torch._dynamo.reset()
            x = torch.randn(shape, device=device, requires_grad=trained)
            library, other = torch.compile(logs_summed), torch.compile(numbers_summed)
            torch.testing.assert_close(library(x, dim), other(x, dim), rtol=1e-4, atol=1e-4)

            def called(call: Callable[[Tensor, int], Tensor]) -> object:
                made = call(x, dim)  # noqa: B023
                return torch.autograd.grad(made.sum(), x) if trained else made  # noqa: B023

            what = f"{shape} along {dim}{', trained' if trained else ''}"
            compare(what, lambda: called(library), lambda: called(other), device)  # noqa: B023


if __name__ == "__main__":
    main()
