"""Fifty more small correct programs, written before replay was tried on any: gradients, functions with a gradient of
their own, mutated inputs, views, aliases, changing shapes, halves, integers, complex numbers, scatters, sorts, pools.

python small_third.py [cpu|cuda] [NAME ...]      all are correct: no verdict may blame a kernel of theirs
"""

# ruff: noqa: E501

from __future__ import annotations

import sys
from collections.abc import Callable

import small
import torch
import torch.nn.functional as F
from small import f, i
from torch import Tensor


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(1.5 * x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        gate = torch.sigmoid(1.5 * x)
        return gradient * (gate + 1.5 * x * gate * (1 - gate))


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, levels):
        ctx.levels = levels
        return torch.round(x.clamp(-1, 1) * levels) / levels

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, gradient):
        return (gradient * 2).clamp(-0.1, 0.1)


def grown(x: Tensor) -> Tensor:
    x.requires_grad_(x.is_floating_point() or x.is_complex())
    return x


def mutated(x: Tensor, y: Tensor) -> Tensor:
    x.add_(y).clamp_(-1, 1)
    y[2:5] = x[0:3] * 2
    return x.sum(0) + y.sum(0)


def column(x: Tensor) -> Tensor:
    y = x.clone()
    y[:, 3].mul_(4)
    y[1::2, ::3] -= y[::2, ::3]
    return y.t().contiguous()


def returned_views(x: Tensor) -> tuple[Tensor, ...]:
    y = x * 2 + 1
    return y, y[2:], y.t(), y.view(-1)[::5], x[1]


def windows(x: Tensor) -> Tensor:
    return x.unfold(0, 8, 3).mul(torch.hann_window(8, device=x.device)).sum(-1)


def strided(x: Tensor) -> Tensor:
    y = torch.zeros(9, 12, device=x.device)
    torch.as_strided(y, (3, 4), (24, 3)).copy_(x)
    return y + 1


def joined(a: Tensor, b: Tensor) -> Tensor:
    c = torch.cat([a, b * 2, a.flip(0)], 0)
    d = torch.stack([c, c.exp(), c * 0], 1)
    d[:, 0] += 1
    return torch.cat([d.flatten(1), c], 1)


def split_and_joined(x: Tensor) -> Tensor:
    a, b, c = x.split([5, 6, 7], 1)
    return torch.cat([c, a * b[:, :5], b.cumsum(1)], 1)


def tail_written(cache: Tensor, x: Tensor) -> Tensor:
    cache[:, -x.shape[1] :] = x
    return (cache * cache).mean(1)


def ring(buffer: Tensor, x: Tensor, at: Tensor) -> Tensor:
    buffer.index_copy_(0, (at + torch.arange(4, device=x.device)) % buffer.shape[0], x)
    return buffer.roll(-3, 0).float().mean(0)


def histogram(x: Tensor) -> Tensor:
    n = (x.clamp(-3, 3) * 5).floor().long() + 15
    return torch.zeros(31, device=x.device, dtype=torch.int64).index_add(0, n, torch.ones_like(n))


def ranks(x: Tensor) -> tuple[Tensor, Tensor]:
    order = x.argsort(dim=1, stable=True, descending=True)
    return order, torch.empty_like(order).scatter_(
        1, order, torch.arange(x.shape[1], device=x.device).expand_as(order)
    )


def running(x: Tensor) -> tuple[Tensor, Tensor]:
    mean = x.cumsum(0) / torch.arange(1, x.shape[0] + 1, device=x.device)[:, None]
    return mean, (x - mean).square().cummax(0).values


def packed(x: Tensor) -> Tensor:
    low = (x & 15).to(torch.int8) - 8
    high = (x >> 4).to(torch.int8) - 8
    return torch.stack([low, high], -1).flatten(-2).to(torch.float16) * 0.05


def rotary(q: Tensor, at: Tensor) -> Tensor:
    angle = at[:, None] / 10000 ** (torch.arange(0, 16, 2, device=q.device) / 16)
    a, b = q.float().chunk(2, -1)
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1).to(q.dtype)


def causal(x: Tensor, size: int) -> Tensor:
    n = torch.arange(x.shape[-1], device=x.device)
    near = (n[:, None] >= n[None]) & (n[:, None] - n[None] < size)
    return torch.where(near, x, torch.finfo(x.dtype).min).softmax(-1)


def newton(x: Tensor) -> Tensor:
    y = torch.ones_like(x)
    for _ in range(4):
        y = y * (1.5 - 0.5 * x * y * y)
    return y


def polygon(x: Tensor) -> Tensor:
    y = torch.roll(x, -1, 0)
    return 0.5 * (x[:, 0] * y[:, 1] - y[:, 0] * x[:, 1]).sum().abs()


def levenshtein_row(last: Tensor, costs: Tensor) -> Tensor:
    row = torch.minimum(last[1:] + 1, last[:-1] + costs)
    n = torch.arange(row.shape[0], device=row.device)
    return (row - n).cummin(0).values + n


def boxes(a: Tensor, b: Tensor) -> Tensor:
    low = torch.maximum(a[:, None, :2], b[None, :, :2])
    high = torch.minimum(a[:, None, :2] + a[:, None, 2:].abs(), b[None, :, :2] + b[None, :, 2:].abs())
    inner = (high - low).clamp(min=0).prod(-1)
    return inner / (a[:, 2:].abs().prod(-1)[:, None] + b[:, 2:].abs().prod(-1)[None] - inner + 1e-9)


def third() -> dict[str, tuple[Callable[..., object], tuple[object, ...]]]:
    h, b = torch.float16, torch.bfloat16
    return {
        "swish_backward": (lambda x, w: Swish.apply(x @ w).square().mean(), (grown(f(20, 12)), grown(f(12, 30)))),
        "straight_through": (lambda x: (Straight.apply(x, 7) * x.detach()).sum(), (grown(f(30, 11)),)),
        "clipped_gradient": (lambda x: Clipped.apply(x * 1.0).sin().sum(), (grown(f(40)),)),
        "norm_backward": (lambda x, w: F.layer_norm(x, (36,), w).pow(3).sum(), (grown(f(17, 36)), grown(f(36)))),
        "softmax_backward": (lambda x, n: F.cross_entropy(x / 0.7, n, label_smoothing=0.1), (grown(f(25, 9)), i(0, 9, 25))),
        "embedding_backward": (lambda w, n: F.embedding(n, w, padding_idx=0).tanh().sum(), (grown(f(13, 8)), i(0, 13, 5, 9))),
        "index_backward": (lambda x, n: x[n].exp().mean(), (grown(f(9, 14)), i(-9, 9, 40))),
        "max_pool_backward": (lambda x: (F.max_pool2d(x, 3, 2, 1) ** 2).sum(), (grown(f(2, 3, 11, 11)),)),
        "interpolate_backward": (lambda x: F.interpolate(x, (13, 9), mode="bilinear").square().sum(), (grown(f(1, 2, 6, 6)),)),
        "amax_backward": (lambda x: (x.amax(1) - x.amin(0).sum()).square().sum(), (grown(f(12, 20)),)),
        "cumulative_backward": (lambda x: x.cumsum(1).cumprod(0).sum(), (grown(f(6, 11, scale=0.5)),)),
        "where_backward": (lambda x: torch.where(x > 0, x.log1p(), x.expm1()).sum(), (grown(f(31, 7)),)),
        "half_backward": (lambda x, w: F.gelu(x @ w).float().square().mean(), (grown(f(14, 24, dtype=h)), grown(f(24, 10, dtype=h)))),
        "bfloat16_backward": (lambda x: F.rms_norm(x, (40,)).sigmoid().sum(), (grown(f(9, 40, dtype=b)),)),
        "mutated_inputs": (mutated, (f(10, 7), f(10, 7))),
        "column_in_place": (column, (f(8, 12),)),
        "returned_views": (returned_views, (f(7, 10),)),
        "windows": (windows, (f(60),)),
        "strided_copy": (strided, (f(3, 4),)),
        "joined": (joined, (f(5, 6), f(4, 6))),
        "split_and_joined": (split_and_joined, (f(8, 18),)),
        "tail_written": (tail_written, (f(4, 20), f(4, 3))),
        "ring": (ring, (f(10, 6, dtype=h), f(4, 6, dtype=h), i(0, 10))),
        "histogram": (histogram, (f(300),)),
        "ranks": (ranks, (i(0, 6, 7, 15).float(),)),
        "running": (running, (f(23, 5),)),
        "packed_nibbles": (packed, (i(0, 256, 6, 10).to(torch.uint8),)),
        "rotary_half": (rotary, (f(12, 16, dtype=h), torch.arange(12).to(small.DEVICE))),
        "sliding_window": (lambda x: causal(x, 5), (f(3, 18, 18),)),
        "newton": (newton, (f(50).abs() * 0.5 + 0.5,)),
        "polygon": (polygon, (f(30, 2),)),
        "levenshtein_row": (levenshtein_row, (torch.arange(25).to(small.DEVICE), i(0, 2, 24))),
        "boxes": (boxes, (f(11, 4), f(8, 4))),
        "complex_product": (lambda x, y: (torch.view_as_complex(x) * torch.view_as_complex(y)).abs(), (f(20, 5, 2), f(20, 5, 2))),
        "complex_phase": (lambda x: torch.polar(x.abs(), x * 3).real + torch.polar(x.abs(), x).imag, (f(40),)),
        "bits": (lambda x, y: ((x ^ y) & 0x55, (x | y) >> 1, (x << 2) - y, ~x), (i(-99, 99, 60), i(-99, 99, 60))),
        "int16_sums": (lambda x: (x.sum(1), x.to(torch.int16).cumsum(0), x.prod(1)), (i(-90, 90, 8, 30),)),
        "mixed_types": (lambda x, n, m: torch.where(m, x * n, n // 2) + n.to(h), (f(40, dtype=h), i(-20, 20, 40), i(0, 2, 40).bool())),
        "scatter_reduce": (
            lambda x, n, v: (x.scatter_reduce(0, n, v, "amax"), x.scatter_reduce(0, n, v, "mean", include_self=False)),
            (f(7, 5), i(0, 7, 19, 5), f(19, 5)),
        ),
        "masked_scatter": (lambda x, m: (x * m).sum(1) / m.sum(1).clamp(min=1), (f(9, 14), i(0, 2, 9, 14))),
        "top_two_gates": (lambda x: torch.zeros_like(x).scatter(1, x.topk(2, 1).indices, x.softmax(1).topk(2, 1).values), (f(13, 8),)),
        "adaptive_pools": (lambda x: (F.adaptive_max_pool2d(x, 3), F.adaptive_avg_pool2d(x, (5, 2)), F.lp_pool2d(x, 2, 3)), (f(2, 3, 10, 11),)),
        "dilated_pool": (lambda x: F.max_pool1d(x, 3, 2, 1, dilation=2, return_indices=True), (f(2, 4, 21),)),
        "replication": (lambda x: F.pad(x, (2, 3, 1, 0), mode="replicate") + F.pad(x, (2, 3, 1, 0), mode="circular"), (f(1, 2, 6, 7),)),
        "shuffled": (lambda x: F.pixel_shuffle(x, 2) - F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2).mean(), (f(1, 8, 5, 5),)),
        "diagonals": (lambda x: (x.diagonal().sum(), torch.diag_embed(x[0]), x.tril(-1) + x.triu(2)), (f(9, 9),)),
        "einsum": (lambda x, y: torch.einsum("bij,bkj->bik", x, y).softmax(-1).amax(1), (f(3, 5, 8), f(3, 6, 8))),
        "distances": (lambda x, y: (torch.cdist(x, y), (x[:, None] - y[None]).abs().amax(-1)), (f(9, 4), f(7, 4))),
        "grouped_convolution": (lambda x, w: F.conv2d(x, w, groups=4, padding=1).relu().amax((2, 3)), (f(2, 8, 7, 7), f(12, 2, 3, 3))),
        "log_space": (lambda x: (x.logsumexp(1) - x.logcumsumexp(1)[:, -1], torch.logaddexp(x, -x)), (f(12, 17, scale=5),)),
        "far_softplus": (lambda x: F.softplus(x, 2.0, 15.0) + F.silu(x) * F.hardsigmoid(x), (f(90, scale=20),)),
        "erfs": (lambda x: torch.erf(x) + torch.special.log_ndtr(x) + torch.lgamma(x.abs() + 0.5), (f(60),)),
        "rounding": (lambda x: (x.round(decimals=1), x.trunc() + x.frac(), x.fmod(0.7), torch.remainder(x, -0.7)), (f(70, scale=4),)),
    }  # fmt: skip


CHANGING: dict[str, tuple[Callable[..., object], tuple[tuple[int, ...], ...]]] = {
    "changing_rows": (lambda x: (x - x.mean(1, keepdim=True)).relu().sum(0), ((5, 12), (9, 12), (14, 12))),
    "changing_length": (
        lambda x: torch.cat([x, x.flip(0)[: x.shape[0] // 2]]).cumsum(0),
        ((10, 3), (17, 3), (31, 3)),
    ),
    "changing_both": (
        lambda x: x.softmax(-1).t().contiguous().view(-1)[3:] * x.shape[0],
        ((6, 7), (8, 11), (13, 5)),
    ),
}


def main() -> None:
    small.DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    torch.manual_seed(1)
    wanted = sys.argv[2:]
    for name, (function, args) in third().items():
        if wanted and name not in wanted:
            continue
        torch._dynamo.reset()
        try:
            result = torch.compile(function, dynamic=False)(*args)
            if isinstance(result, Tensor) and result.requires_grad:
                result.backward()
            print(name, flush=True)
        except Exception as error:
            print(f"{name} failed: {type(error).__name__}: {str(error).splitlines()[0]}", flush=True)
    for name, (function, shapes) in CHANGING.items():
        if wanted and name not in wanted:
            continue
        torch._dynamo.reset()
        compiled = torch.compile(function)
        for shape in shapes:
            compiled(f(*shape))
        print(name, flush=True)


if __name__ == "__main__":
    main()
