"""Sixty small programs of every kind of operator, forty whose result turns on single values, and twenty
numerically nasty ones, one graph each.

python small.py [cpu|cuda] [NAME ...]      all are correct: no verdict may blame a kernel of theirs
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Program = tuple[Callable[..., object], tuple[object, ...]]
DEVICE = "cpu"


def f(*shape: int, scale: float = 1.0, dtype: torch.dtype = torch.float32) -> Tensor:
    return (torch.randn(*shape) * scale).to(DEVICE, dtype)


def i(low: int, high: int, *shape: int) -> Tensor:
    return torch.randint(low, high, shape).to(DEVICE)


def small() -> dict[str, Program]:
    layer = torch.nn.LayerNorm(48).to(DEVICE)
    return {
        "pointwise": (lambda x, y: torch.sin(x) * y + torch.exp(-x.abs()), (f(40, 50), f(40, 50))),
        "where": (lambda x: torch.where(x > 0, x * 2, x.sqrt().nan_to_num(0.5)), (f(33, 17),)),
        "clamp": (
            lambda x, y: x.clamp(-0.5, 0.75) + torch.maximum(x, y) - torch.minimum(x, y),
            (f(64, 9), f(64, 9)),
        ),
        "relus": (lambda x: F.relu(x) + F.relu6(4 * x) + F.leaky_relu(x, 0.1) + F.elu(x), (f(30, 64),)),
        "hardtanh": (
            lambda x: F.hardtanh(2 * x) + F.hardswish(x) + F.hardsigmoid(x) + F.softshrink(x),
            (f(30, 64),),
        ),
        "gelu": (lambda x: F.gelu(x) + F.gelu(x, approximate="tanh") + F.silu(x) + F.mish(x), (f(21, 40),)),
        "softplus": (lambda x: F.softplus(x) + F.logsigmoid(x) + torch.sigmoid(x), (f(21, 40, scale=10),)),
        "softmax": (lambda x: torch.softmax(x, -1), (f(64, 100),)),
        "log_softmax": (lambda x: torch.log_softmax(x, 0), (f(64, 40),)),
        "logsumexp": (lambda x: torch.logsumexp(x, 1), (f(20, 300),)),
        "layer_norm": (lambda x: F.layer_norm(x, (48,), layer.weight, layer.bias), (f(10, 48),)),
        "rms_norm": (
            lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w,
            (f(8, 96), f(96)),
        ),
        "group_norm": (lambda x: F.group_norm(x, 4), (f(2, 16, 8, 8),)),
        "batch_norm": (lambda x, m, v: F.batch_norm(x, m, v.abs() + 0.1), (f(4, 6, 9), f(6), f(6))),
        "var_std": (lambda x: (x.var(1), x.std(0), x.mean()), (f(40, 60),)),
        "sums": (lambda x: (x.sum(), x.sum(0), x.prod(1), x.norm()), (f(50, 12),)),
        "amax": (lambda x: (x.amax(1), x.amin(0), x.max(), x.abs().amax()), (f(41, 37),)),
        "argmax": (lambda x: (x.argmax(1), x.argmin(0), x.max(1).indices), (f(41, 37),)),
        "any_all": (lambda x: ((x > 1).any(1), (x > -3).all(0), (x > 0).sum(1)), (f(41, 37),)),
        "stacked_norms": (
            lambda a, b, c: torch.stack([t.flatten(1).norm(dim=1) for t in (a, b, c)], dim=1).norm(dim=1),
            (f(8, 3, 5), f(8, 4, 4), f(8, 30)),
        ),
        "cat": (lambda a, b: torch.cat([a.relu(), b.sum(1, keepdim=True), a * 2], 1), (f(9, 12), f(9, 33))),
        "from_the_end": (
            lambda x: torch.where(x[torch.arange(0, 32, device=x.device) - 32] > 0, x, -x),
            (f(32),),
        ),
        "negative_index": (lambda x, n: x[n - 8] * 2, (f(8, 20), i(0, 16, 30))),
        "gather": (lambda x, n: x.gather(1, n) + 1, (f(12, 30), i(0, 30, 12, 7))),
        "embedding": (lambda w, n: F.embedding(n, w).sum(1), (f(50, 24), i(0, 50, 6, 5))),
        "scatter_add": (lambda x, n, v: x.scatter_add(0, n, v), (f(10, 16), i(0, 10, 20, 16), f(20, 16))),
        "scatter": (
            lambda n, v: torch.zeros(6, 40, device=v.device).scatter(1, n, v),
            (torch.arange(0, 40, 2).repeat(6, 1).to(DEVICE), f(6, 20)),
        ),
        "index_put": (
            lambda x, n, v: x.index_put((n,), v, accumulate=True),
            (f(12, 8), i(-12, 12, 30), f(30, 8)),
        ),
        "index_add": (lambda x, n, v: x.index_add(0, n, v), (f(12, 8), i(0, 12, 30), f(30, 8))),
        "masked_fill": (lambda x: x.masked_fill(x.tril() == 0, float("-inf")).softmax(-1), (f(24, 24),)),
        "integers": (
            lambda a, b: ((a * b) // 3 % 7, a & b, a ^ 5, a << 2, -a // b, a % b),
            (i(-50, 50, 90), i(1, 9, 90)),
        ),
        "narrow_integers": (
            lambda a, b: (a + b, a * b, a // 3, (a.int() << 3).to(torch.int8)),
            (i(-128, 128, 70).to(torch.int8), i(-128, 128, 70).to(torch.int8)),
        ),
        "bytes": (
            lambda a, b: (a + b, a >> 1, a.float() / 255, torch.maximum(a, b)),
            (i(0, 256, 70).to(torch.uint8), i(0, 256, 70).to(torch.uint8)),
        ),
        "booleans": (
            lambda x, y: ((x > 0) & (y < 0) | (x == y), (x > y) ^ (y > 1), ~(x > 0)),
            (f(77), f(77)),
        ),
        "cumsum": (lambda x: (x.cumsum(1), x.cumsum(0)), (f(12, 90),)),
        "cumprod": (lambda x: (1 + x / 10).cumprod(1), (f(12, 30),)),
        "cummax": (lambda x: x.cummax(1), (f(12, 30),)),
        "logcumsumexp": (lambda x: x.logcumsumexp(1), (f(6, 40),)),
        "sort": (lambda x: x.sort(1), (f(6, 40),)),
        "topk": (lambda x: (x * 2).topk(5).values, (f(6, 40),)),
        "max_pool": (lambda x: F.max_pool2d(x, 3, 2, 1), (f(2, 3, 17, 17),)),
        "avg_pool": (lambda x: F.avg_pool2d(x, 2) + F.adaptive_avg_pool2d(x, 4), (f(2, 3, 8, 8),)),
        "upsample": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (f(1, 3, 7, 7),)),
        "grid_sample": (
            lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False),
            (f(1, 2, 9, 9), f(1, 6, 6, 2)),
        ),
        "pad": (
            lambda x: F.pad(x, (1, 2, 3, 0), value=0.5) * 2 + F.pad(x, (1, 2, 3, 0), mode="reflect"),
            (f(1, 2, 9, 9),),
        ),
        "half": (lambda x: (x.half() * 2 + 1).relu(), (f(40, 33),)),
        "half_norm": (lambda x: F.layer_norm(x, (64,)).softmax(-1), (f(12, 64, dtype=torch.float16),)),
        "bfloat16": (
            lambda x, y: (x * y + x).gelu() if hasattr(x, "gelu") else F.gelu(x * y + x),
            (f(31, 44, dtype=torch.bfloat16), f(31, 44, dtype=torch.bfloat16)),
        ),
        "bfloat16_sum": (
            lambda x: (x.sum(1), x.float().mean(0), x.amax(1)),
            (f(31, 444, dtype=torch.bfloat16),),
        ),
        "double": (lambda x: (x.sin() / (x.abs() + 1)).sum(1), (f(31, 44, dtype=torch.float64),)),
        "matmul": (lambda x, w, b: F.relu(x @ w + b), (f(33, 64), f(64, 20), f(20))),
        "attention": (lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), (f(1, 2, 16, 16),)),
        "conv": (lambda x, w: F.relu(F.conv2d(x, w, padding=1)) + 1, (f(1, 3, 12, 12), f(8, 3, 3, 3))),
        "cross_entropy": (lambda x, n: F.cross_entropy(x, n), (f(20, 11), i(0, 11, 20))),
        "one_hot": (lambda n: F.one_hot(n, 7).float().mean(0), (i(0, 7, 60),)),
        "roll_flip": (lambda x: x.roll(3, 1) + x.flip(0) + x.t().contiguous().t(), (f(15, 15),)),
        "bucketize": (lambda x, b: torch.bucketize(x, b), (f(99), torch.linspace(-2, 2, 9).to(DEVICE))),
        "round": (
            lambda x: (x.round(), x.floor(), x.ceil(), x.trunc(), x.frac(), x.sign()),
            (f(99, scale=4),),
        ),
        "casts": (
            lambda x: (x.to(torch.int32), (x * 9).to(torch.int8).float(), x.bfloat16().float()),
            (f(99, scale=4),),
        ),
        "complex": (lambda x: torch.view_as_real(torch.fft.rfft(x)).square().sum(-1), (f(9, 32),)),
    }


def values() -> dict[str, Program]:
    """Programs that branch on their values: ties, bounds, signs, NaN, rows of one sign, wide numbers."""
    holes = f(24, 40)
    holes[holes > 1.5] = float("inf")
    holes[holes < -1.8] = float("nan")
    fp8 = torch.float8_e4m3fn
    return {
        "huber": (
            lambda x, y: F.smooth_l1_loss(x, y, reduction="none") + F.huber_loss(x, y),
            (f(30, 40), f(30, 40)),
        ),
        "hinge": (lambda x, y: (1 - x * y.sign()).clamp_min(0).sum(1), (f(30, 40), f(30, 40))),
        "bce": (lambda x, y: F.binary_cross_entropy_with_logits(x, (y > 0).float()), (f(30, 40), f(30, 40))),
        "gates": (lambda x: x.sigmoid() * x.tanh(), (f(30, 44),)),
        "near_zero": (lambda x: (x.log1p().nan_to_num(), x.expm1(), x.sinh()), (f(30, 44, scale=1e-3),)),
        "masked_softmax": (
            lambda x, m: torch.softmax(x.masked_fill(m, float("-inf")), -1).nan_to_num(0.0),
            (f(24, 40), f(24, 40) > 1),
        ),
        "masked_logsumexp": (
            lambda x: x.masked_fill(x.abs() < 0.05, float("-inf")).logsumexp(1),
            (f(24, 40),),
        ),
        "not_finite": (
            lambda x: (x.isnan(), x.isinf(), x.nan_to_num(1.0, 2.0, -2.0), x.isfinite().sum(1)),
            (holes,),
        ),
        "extremes": (lambda x: (x.amax(0), x.amin(1), x.aminmax(dim=1)), (-f(24, 40).abs(),)),
        "running_extremes": (lambda x: (x.cummax(0), x.cummin(1)), (i(-3, 4, 12, 30).float(),)),
        "normalize": (lambda x: (F.normalize(x, dim=1), F.cosine_similarity(x, x.flip(0))), (f(20, 33),)),
        "standardize": (
            lambda x: (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5),
            (f(20, 33),),
        ),
        "rms_half": (
            lambda x: x * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-5).half(),
            (f(12, 64, dtype=torch.float16),),
        ),
        "quantise": (
            lambda x, s: (x / s).round().clamp(-128, 127).to(torch.int8),
            (f(40, 33), f(33).abs() / 50 + 0.01),
        ),
        "dequantise": (lambda q, s: (q.float() - 3) * s, (i(-128, 128, 40, 33).to(torch.int8), f(33).abs())),
        "quantise_bytes": (lambda x: (x * 40 + 128).round().clamp(0, 255).to(torch.uint8), (f(40, 33),)),
        "fp8": (lambda x: (x.clamp(-448, 448).to(fp8), (x * 2).to(fp8).float() + 1), (f(40, 32),)),
        "fp8_scaled": (lambda x: (x / (x.abs().amax(1, keepdim=True) / 448)).to(fp8), (f(16, 48),)),
        "wide_integers": (
            lambda a, b: (a * b + a, (a + b) * 3, a - (b << 2), (a > b) & (b >= 0)),
            (i(-9999, 9999, 90), i(-9999, 9999, 90)),
        ),
        "int32": (
            lambda a, b: (a * b, a.abs() + b, torch.maximum(a, b).long() * 5),
            (i(-99, 99, 90).int(), i(-99, 99, 90).int()),
        ),
        "bits": (lambda a, b: ((a & b) | 3, a ^ b, (a >> 2) & 15, ~a), (i(0, 999, 90), i(0, 999, 90))),
        "floor_division": (
            lambda a, b: (a // b, a % b, torch.div(a, b, rounding_mode="trunc")),
            (i(-60, 60, 90), i(1, 9, 90) * (2 * i(0, 2, 90) - 1)),
        ),
        "sign_choice": (
            lambda x, y: torch.where(x == 0, y, torch.where(x > 0, x.sqrt(), -((-x).sqrt()))),
            (i(-2, 3, 40, 33).float(), f(40, 33)),
        ),
        "copysign": (
            lambda x, y: (torch.copysign(x, y), torch.atan2(x, y), torch.hypot(x, y), x.signbit()),
            (f(99), f(99)),
        ),
        "threshold": (
            lambda x, g: (F.threshold(x, 0.1, 20.0), torch.where(x <= 0, 0.0, g), F.hardshrink(x)),
            (f(40, 33), f(40, 33)),
        ),
        "piecewise": (
            lambda x: torch.where(x < -1, -x - 0.5, torch.where(x <= 1, x * x / 2, x - 0.5)),
            (f(40, 33),),
        ),
        "counts": (
            lambda x: ((x >= 0.5).sum(1), (x != 0).any(0), (x < 2).all(1), torch.count_nonzero(x, 1)),
            (i(-2, 3, 24, 40) / 2,),
        ),
        "one_side_clamps": (
            lambda x: (x.clamp_min(-1.0), x.clamp_max(1.0), x.clamp(0, 1).sum(0)),
            (f(24, 40),),
        ),
        "double_choice": (
            lambda x: torch.where(x >= 0, x.log1p(), x.expm1()).double() + 1,
            (f(50, 20).abs(),),
        ),
        "ties_up": (lambda x: (x.argmax(1), x.argmin(1), x.max(0).indices), (i(-2, 3, 24, 40).float(),)),
        "stable_sort": (lambda x: x.sort(dim=1, stable=True), (i(-2, 3, 12, 20).float(),)),
        "wrapped_rows": (lambda w, n: w[n] + w[-n - 1], (f(20, 24), i(-20, 20, 30))),
        "grid_neighbours": (
            lambda x, n: x[n.clamp(0, 30)] - x[(n + 1).clamp(0, 30)],
            (f(31, 7), i(-5, 36, 50)),
        ),
        "overlapping_adds": (
            lambda n, v: torch.zeros(9, device=v.device).index_add(0, n, v),
            (i(0, 9, 60), f(60)),
        ),
        "segment_maximum": (lambda x, n, v: x.scatter_reduce(0, n, v, "amax"), (f(9), i(0, 9, 60), f(60))),
        "relu_backward": (
            lambda g, y: (torch.where(y > 0, g, 0.0).sum(0), g * (1 - y * y)),
            (f(30, 40), f(30, 40).tanh()),
        ),
        "weighted_means": (
            lambda x, w: (x * w).sum(1) / w.sum(1).clamp_min(1e-6),
            (f(20, 33), f(20, 33).relu()),
        ),
        "dropped": (lambda x: torch.where(torch.rand_like(x) > 0.5, x * 2, 0.0), (f(30, 40),)),
        "combined": (
            lambda a, b, c: (a.relu() + 1, b.sigmoid().sum(1), c.amax(1)),
            (f(30, 40), f(20, 50), f(17, 33)),
        ),
        "template": (
            lambda x, w, b: F.relu(x @ w + b),
            (f(64, 64, dtype=torch.float16), f(64, 32, dtype=torch.float16), f(32, dtype=torch.float16)),
        ),
        "own_kernel": (own_kernel, (f(300), f(300))),
    }


OPTIONS: dict[str, dict[str, object]] = {
    "combined": {"combo_kernels": True},
    "template": {"max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON"},
}
"""Inductor's settings for single programs, on a GPU."""


def own_kernel(x: Tensor, y: Tensor) -> Tensor:
    """A kernel of the user's own on a GPU."""
    if not x.is_cuda:
        return torch.where(x > 0.25, x * 1.5 + y, y)
    import triton_choice

    out = torch.empty_like(x)
    triton_choice.choice[(triton_choice.blocks(x.numel()),)](x, y, out, x.numel(), BLOCK=triton_choice.BLOCK)
    return out + 1


def nasty() -> dict[str, Program]:
    big = f(30, 40, scale=1e18)
    holes = f(30, 40)
    holes[holes > 1.5] = float("inf")
    holes[holes < -1.8] = float("nan")
    ties = i(-2, 3, 30, 40).float()
    return {
        "cancel": (lambda x, y: x * y - x * y + (x + 1e4) - 1e4, (f(50, 50), f(50, 50))),
        "variance_of_far_values": (lambda x: x.var(1), (f(20, 200) + 1e4,)),
        "mean_removed": (lambda x: x - x.mean(1, keepdim=True), (f(20, 200) + 1e3,)),
        "sum_of_signs": (lambda x: (x.sum(1), x.mean()), (torch.cat([f(8, 500) + 100, f(8, 500) - 100], 1),)),
        "overflow": (lambda x: x * x * x, (big,)),
        "infinite_sum": (lambda x: (x * 1e20).exp().sum(1), (f(20, 30).abs(),)),
        "nowhere_finite": (lambda x: (x.abs() + 1) * float("inf") * x.sign(), (f(20, 30),)),
        "holes": (lambda x: (x * 2 + 1, x.relu(), x.sum(1)), (holes,)),
        "holes_maximum": (lambda x, y: (torch.maximum(x, y), x.amax(1), x.clamp(-1, 1)), (holes, f(30, 40))),
        "softmax_far": (lambda x: torch.softmax(x, 1), (f(20, 60, scale=1e3),)),
        "log_near_one": (lambda x: torch.log((1 + x * 1e-4).square()), (f(400),)),
        "tiny": (lambda x: x * 1e-30 * 1e-8, (f(400),)),
        "denormal_norm": (lambda x: (x * 1e-22).square().sum(1).sqrt(), (f(20, 30),)),
        "division": (lambda x, y: (x / y, x // y, torch.fmod(x, y), x % y), (f(400), f(400, scale=1e-3))),
        "powers": (lambda x: x.abs() ** 7.3 - x.abs() ** -2.5, (f(400),)),
        "trigonometry": (lambda x: x.sin() + x.cos() * x.tan(), (f(400, scale=1e4),)),
        "ties": (lambda x: (x.argmax(1), x.max(0).indices, x.sort(dim=1, stable=True), x >= 0), (ties,)),
        "thresholds": (lambda x: ((x * 0.1 * 10) > 1, torch.floor(x * 3 / 3), x.round()), (ties,)),
        "half_overflow": (lambda x: (x.half() * 60000).float() / 2, (f(60, 30),)),
        "half_sums": (lambda x: x.sum(1) / x.abs().sum(1), (f(16, 4000, dtype=torch.float16),)),
        "product_chain": (lambda x: x.prod(1), (f(20, 60),)),
        "deep": (lambda x: x.sin().exp().sin().exp().mul(7).sin().exp().mul(50).cos(), (f(30, 30),)),
        "inverse_root": (lambda x: (x.square().mean(1) - 0.99).abs().rsqrt(), (f(40, 300),)),
    }  # fmt: skip


def main() -> None:
    global DEVICE
    DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    torch.manual_seed(0)
    for name, (function, args) in {**small(), **values(), **nasty()}.items():
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        torch._dynamo.reset()
        try:
            with torch.no_grad():
                options = OPTIONS.get(name) if DEVICE == "cuda" else None
                torch.compile(function, dynamic=False, options=options)(*args)  # type: ignore[arg-type]
            print(name, flush=True)
        except Exception as error:
            print(f"{name} failed: {type(error).__name__}: {str(error).splitlines()[0]}", flush=True)


if __name__ == "__main__":
    main()
