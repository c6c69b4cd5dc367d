"""Adafactor written by hand over a list of weights, with clipping by root mean square and a cosine schedule."""

import math

import torch

dev = "cuda"
shapes = [(4096, 1024), (1024, 4096), (1024, 1024), (1024,)] * 6
params = [torch.randn(s, device=dev) * 0.02 for s in shapes]
rows = [torch.zeros(s[:1], device=dev) for s in shapes]
cols = [torch.zeros(s[1:], device=dev) if len(s) > 1 else torch.zeros(s, device=dev) for s in shapes]


@torch.compile
def update(params, grads, rows, cols, lr, beta):
    for p, g, r, c in zip(params, grads, rows, cols):
        sq = g * g + 1e-30
        if p.dim() == 2:
            r.mul_(beta).add_(sq.mean(1), alpha=0.02)
            c.mul_(beta).add_(sq.mean(0), alpha=0.02)
            u = g * (r / r.mean()).rsqrt()[:, None] * c.rsqrt()
        else:
            c.mul_(beta).add_(sq, alpha=0.02)
            u = g * c.rsqrt()
        u = u / (u.square().mean().sqrt() / 1.0).clamp_min(1)
        p.add_(u * -lr).mul_(1 - 1e-4)


for step in range(40):
    grads = [p * 0.1 + 1e-3 for p in params]
    lr = torch.tensor(1e-3 * 0.5 * (1 + math.cos(math.pi * step / 40)), device=dev)
    update(params, grads, rows, cols, lr, 0.98)
print(params[0].std().item())
