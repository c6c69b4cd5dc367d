"""Functions whose every line has a constant that no other line has, for the check of the map in lower.py."""

import torch
from torch import Tensor


def damped(x: Tensor) -> Tensor:
    a = torch.sin(x) * 1.328125
    b = torch.tanh(a - 0.265625)
    c = (x + 3.171875).abs()
    return a / 5.703125 + b.exp() * c


def clipped(x: Tensor) -> Tensor:
    low = torch.where(x > 0.390625, x * 1.859375, x)
    high = low.clamp(max=6.546875)
    return high.sqrt() + 2.421875


def scaled_rows(x: Tensor) -> Tensor:
    y = x * 0.703125
    centred = y - y.mean(-1, keepdim=True)
    power = (centred * 1.578125).square().mean(-1, keepdim=True)
    return centred * torch.rsqrt(power + 0.015625) + 4.265625


def weighted_softmax(x: Tensor) -> Tensor:
    scores = x * 0.171875
    scores = scores + (x - 7.359375).abs()
    weights = torch.softmax(scores, -1)
    return weights * 9.640625


def columns(x: Tensor) -> Tensor:
    total = (x * 2.890625).sum(0)
    most = (x + 8.453125).amax(0)
    return total * 0.046875 + most


def energy(x: Tensor) -> Tensor:
    well = x.pow(4) * 0.109375
    slope = torch.log1p(x.abs() * 3.546875)
    return (well - slope + 1.734375).sum()


def normed(x: Tensor) -> Tensor:
    y = torch.nn.functional.layer_norm(x, x.shape[-1:], eps=0.0234375)
    return torch.sigmoid(y * 2.109375) + y * 0.328125


def mixed(n: Tensor) -> Tensor:
    a = n * 1103515245 + 12345
    b = a ^ 747796405
    c = b & 16777213
    return c % 10007


def running(x: Tensor) -> Tensor:
    steps = (x * 1.421875).cumsum(-1)
    return torch.cos(steps + 5.140625)


def half_precision(x: Tensor) -> Tensor:
    y = x.half().float() * 3.859375
    z = torch.where(y < 0.640625, y, 6.203125)
    return (z + 0.890625).bfloat16().float()


FUNCTIONS = (
    damped,
    clipped,
    scaled_rows,
    weighted_softmax,
    columns,
    energy,
    normed,
    mixed,
    running,
    half_precision,
)


def inputs(function, device: str) -> Tensor:
    if function is mixed:
        return torch.arange(96 * 512, device=device).reshape(96, 512)
    return torch.linspace(-3, 3, 96 * 512, device=device).reshape(96, 512)


if __name__ == "__main__":
    for function in FUNCTIONS:
        x = inputs(function, "cpu")
        torch.compile(function)(x)
