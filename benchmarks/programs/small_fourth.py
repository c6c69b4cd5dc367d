"""Forty more small correct programs, written before replay was tried on any: losses, metrics, colour and geometry, signal
windows, tables, quantisation, schedules, games, finance, statistics.

python small_fourth.py [cpu|cuda] [NAME ...]      all are correct: no verdict may blame a kernel of theirs
"""

# ruff: noqa: E501

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import small
import torch
import torch.nn.functional as F
from small import f, i
from torch import Tensor


def huber(x: Tensor, y: Tensor) -> Tensor:
    d = (x - y).abs()
    return torch.where(d <= 0.5, 0.5 * d * d, 0.5 * (d - 0.25)).mean()


def focal(x: Tensor, y: Tensor) -> Tensor:
    p = torch.sigmoid(x)
    p = torch.where(y == 1, p, 1 - p)
    return (-0.25 * (1 - p) ** 2 * torch.log(p.clamp(1e-6))).sum(1)


def intersection_over_union(a: Tensor, b: Tensor) -> Tensor:
    low, high = torch.maximum(a[:, None, :2], b[None, :, :2]), torch.minimum(a[:, None, 2:], b[None, :, 2:])
    inner = (high - low).clamp(min=0).prod(-1)
    area = [((t[:, 2] - t[:, 0]) * (t[:, 3] - t[:, 1])).abs() for t in (a, b)]
    return inner / (area[0][:, None] + area[1][None] - inner + 1e-7)


def gamma(x: Tensor) -> Tensor:
    x = x.clamp(0, 1)
    return torch.where(x <= 0.0031308, 12.92 * x, 1.055 * x.clamp(min=0.0031308) ** (1 / 2.4) - 0.055)


def hue(x: Tensor) -> Tensor:
    low, high = x.amin(0), x.amax(0)
    d = high - low
    r, g, b = x
    h = torch.where(high == r, (g - b) / d, torch.where(high == g, 2 + (b - r) / d, 4 + (r - g) / d))
    return torch.where(d == 0, 0.0, h * 60).remainder(360)


def rotary(x: Tensor) -> Tensor:
    position = torch.arange(x.shape[0], device=x.device)[:, None] / 10000 ** (
        torch.arange(8, device=x.device) / 8
    )
    a, b = x[:, :8], x[:, 8:]
    return torch.cat([a * position.cos() - b * position.sin(), a * position.sin() + b * position.cos()], 1)


def black_scholes(s: Tensor, k: Tensor) -> Tensor:
    s, k = s.abs() + 0.5, k.abs() + 0.5
    d = (torch.log(s / k) + 0.045) / 0.3
    return s * 0.5 * (1 + torch.erf(d / math.sqrt(2))) - k * 0.97 * 0.5 * (
        1 + torch.erf((d - 0.3) / math.sqrt(2))
    )


def life(x: Tensor) -> Tensor:
    n = sum(x.roll((a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b)
    return ((n == 3) | ((x == 1) & (n == 2))).to(x.dtype)


def schedule(step: Tensor) -> Tensor:
    warm = step / 10
    decay = 0.5 * (1 + torch.cos(math.pi * (step - 10) / 90))
    return torch.where(step < 10, warm, torch.where(step > 100, 0.0, decay))


def adam(p: Tensor, g: Tensor, m: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    g = g + 0.01 * p
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v.abs() + 0.001 * g * g
    return p - 0.003 * (m / 0.19) / ((v / 0.002).sqrt() + 1e-8), m, v


def beam(x: Tensor, done: Tensor) -> tuple[Tensor, Tensor]:
    score = x.log_softmax(-1).masked_fill(done[:, None] > 0, -1e9)
    return score.amax(-1), score.argmax(-1)


def fourth() -> dict[str, tuple[Callable[..., object], tuple[object, ...]]]:
    return {
        "huber": (huber, (f(31, 20), f(31, 20))),
        "focal": (focal, (f(17, 33), i(0, 2, 17, 33))),
        "iou": (intersection_over_union, (f(11, 4), f(13, 4))),
        "gamma": (gamma, (f(3, 21, 20),)),
        "hue": (hue, (f(3, 15, 16),)),
        "rotary": (rotary, (f(21, 16),)),
        "black_scholes": (black_scholes, (f(300), f(300))),
        "life": (life, (i(0, 2, 12, 17),)),
        "schedule": (schedule, (torch.arange(130.0, device=small.DEVICE),)),
        "adam": (adam, (f(25, 9), f(25, 9), f(25, 9), f(25, 9))),
        "beam": (beam, (f(9, 37), i(0, 2, 9))),
        "hinge": (lambda x, y: (1 - x * (2 * y - 1)).clamp(min=0).pow(2).mean(1), (f(14, 25), i(0, 2, 14, 25))),
        "kl": (lambda x, y: (y.softmax(1) * (y.log_softmax(1) - x.log_softmax(1))).sum(1), (f(16, 29), f(16, 29))),
        "triplet": (lambda a, p, n: (((a - p) ** 2).sum(1) - ((a - n) ** 2).sum(1) + 0.2).relu(), (f(24, 10), f(24, 10), f(24, 10))),
        "cosine": (lambda x, y: (x * y).sum(1) / (x.norm(dim=1) * y.norm(dim=1)).clamp(min=1e-8), (f(19, 12), f(19, 12))),
        "accuracy": (lambda x, y: ((x.argmax(1) == y).float().mean(), (x > 0.5).sum(0)), (f(40, 10), i(0, 10, 40))),
        "median_of_three": (lambda x: torch.maximum(torch.minimum(x[:-2], x[1:-1]), torch.minimum(torch.maximum(x[:-2], x[1:-1]), x[2:])), (f(50, 7),)),
        "table": (lambda t, n: t[n] * (n != 0)[:, None], (f(20, 12), i(0, 20, 33))),
        "table_from_the_end": (lambda t, n: t[n - 20].sum(-1) + n, (f(20, 9), i(0, 20, 26))),
        "histogram": (lambda x: torch.zeros(10, device=x.device).index_add(0, (x * 2 + 5).clamp(0, 9).long(), torch.ones_like(x)), (f(90),)),
        "quantise": (lambda x: ((x / 0.05).round().clamp(-128, 127) + 3).to(torch.int8), (f(20, 30),)),
        "dequantise": (lambda x, s: (x.float() - 3) * s[:, None], (i(-128, 128, 20, 30).to(torch.int8), f(20))),
        "bits": (lambda x: ((x >> 3) & 7) ^ (x << 2) | (x & 1), (i(-1000, 1000, 200),)),
        "modular": (lambda x, y: (x * 31 + y) % 97 - (x // 7) * (y % 5), (i(-500, 500, 150), i(-500, 500, 150))),
        "parity": (lambda x: torch.where(x % 2 == 0, x // 2, 3 * x + 1), (i(-50, 900, 180),)),
        "staircase": (lambda x: torch.floor(x * 4) / 4 + torch.ceil(x) * (x < 0) + x.frac(), (f(25, 24, scale=3),)),
        "signs": (lambda x, y: torch.copysign(x, y) + torch.sign(x) * torch.sgn(y) + (x > y).float() - (x == y).float(), (f(30, 20), f(30, 20))),
        "triangle": (lambda x: (1 - (x.remainder(2) - 1).abs()) * torch.where(x.abs() > 5, 0.25, 1.0), (f(400, scale=4),)),
        "windowed": (lambda x: x * (0.54 - 0.46 * torch.cos(2 * math.pi * torch.arange(48, device=x.device) / 47)), (f(11, 48),)),
        "normalised": (lambda x: (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5), (f(14, 45),)),
        "min_max": (lambda x: (x - x.amin(1, keepdim=True)) / (x.amax(1, keepdim=True) - x.amin(1, keepdim=True)), (f(14, 45),)),
        "entropy": (lambda x: -(x.softmax(1) * x.softmax(1).clamp(min=1e-9).log()).sum(1), (f(15, 26),)),
        "half_relu": (lambda x: (x.half() * 1.5 - 0.25).relu().float() + 1, (f(26, 30),)),
        "bfloat_norm": (lambda x, w: (x.bfloat16() * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-5).bfloat16() * w.bfloat16()), (f(13, 64), f(64))),
        "double_sum": (lambda x: (x.double().sum(1) - x.double().mean(1) * 3, x.double().amax()), (f(12, 50),)),
        "swish_gate": (lambda x, y: F.silu(x) * y + F.softplus(y - 1) - F.hardswish(x), (f(22, 36), f(22, 36))),
        "piecewise": (lambda x: torch.where(x < -1, -1.0, torch.where(x > 1, 1.0, 1.5 * x - 0.5 * x**3)), (f(23, 31),)),
        "distance_to_line": (lambda x, y: (0.6 * x - 0.8 * y + 2).abs() / (x.square() + y.square() + 1e-3).sqrt(), (f(210), f(210))),
        "cumulative": (lambda x: (x.cumsum(1), x.cummax(1).values, (x > 0).cumsum(1)), (f(9, 40),)),
        "pooled": (lambda x: F.max_pool2d(x, 2) - F.avg_pool2d(x, 2), (f(2, 3, 12, 14),)),
        "attention": (lambda q, k, m: (q @ k.transpose(1, 2) / 4).masked_fill(m == 0, float("-inf")).softmax(-1).nan_to_num(0.0), (f(3, 9, 16), f(3, 11, 16), i(0, 2, 3, 9, 11))),
        "logits": (lambda p: torch.log(p.clamp(0.01, 0.99)) - torch.log1p(-p.clamp(0.01, 0.99)), (f(18, 22),)),
        "saturating": (lambda x, y: torch.tanh(x) * torch.atan2(y, x) + torch.hypot(x, y), (f(20, 21), f(20, 21))),
    }  # fmt: skip


def main() -> None:
    small.DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    torch.manual_seed(4)
    for name, (function, args) in fourth().items():
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        torch._dynamo.reset()
        try:
            with torch.no_grad():
                torch.compile(function, dynamic=False)(*args)
            print(name, flush=True)
        except Exception as error:
            print(f"{name} failed: {type(error).__name__}: {str(error).splitlines()[0]}", flush=True)


if __name__ == "__main__":
    main()
