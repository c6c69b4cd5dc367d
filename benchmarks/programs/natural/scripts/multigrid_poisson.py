"""Geometric multigrid V-cycles for a Poisson problem on a square."""

import torch
import torch.nn.functional as F

KERNEL = torch.tensor([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]]).view(1, 1, 3, 3)


def residual(u, f, h):
    return f - F.conv2d(F.pad(u, (1, 1, 1, 1)), KERNEL) / (h * h)


def smooth(u, f, h, n):
    for _ in range(n):
        u = u - 0.8 * (h * h / 4) * residual(u, f, h)
    return u


def v_cycle(u, f, h):
    u = smooth(u, f, h, 2)
    if u.shape[-1] <= 8:
        return smooth(u, f, h, 8)
    coarse = F.avg_pool2d(residual(u, f, h), 2)
    e = v_cycle(torch.zeros_like(coarse), coarse, 2 * h)
    u = u + F.interpolate(e, scale_factor=2, mode="bilinear", align_corners=False)
    return smooth(u, f, h, 2)


torch.manual_seed(0)
n = 256
f = torch.randn(1, 1, n, n)
f -= f.mean()
u = torch.zeros(1, 1, n, n)
cycle = torch.compile(v_cycle)
for k in range(30):
    u = cycle(u, f, 1.0 / n)
    if k % 5 == 0:
        r = residual(u, f, 1.0 / n).norm()
        print(k, float(r))
        if r < 1e-3:
            break
