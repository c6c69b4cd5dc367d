"""Entropic optimal transport between point clouds, log-domain Sinkhorn, as a training loss."""

import math

import torch


def cost_matrix(x, y, p=2):
    return (x[:, None] - y[None]).abs().pow(p).sum(-1)


def sinkhorn(x, y, eps=0.05, iters=30):
    C = cost_matrix(x, y)
    n, m = C.shape
    log_a = torch.full((n,), -math.log(n))
    log_b = torch.full((m,), -math.log(m))
    f, g = torch.zeros(n), torch.zeros(m)
    for _ in range(iters):
        f = -eps * torch.logsumexp((g[None] - C) / eps + log_b[None], 1)
        g = -eps * torch.logsumexp((f[:, None] - C) / eps + log_a[:, None], 0)
    P = torch.exp((f[:, None] + g[None] - C) / eps + log_a[:, None] + log_b[None])
    return (P * C).sum()


torch.manual_seed(0)
x = torch.randn(300, 2, requires_grad=True)
y = torch.randn(320, 2) * 0.5 + torch.tensor([2.0, 0.0])
loss_fn = torch.compile(sinkhorn)
opt = torch.optim.Adam([x], lr=0.05)
for it in range(20):
    opt.zero_grad()
    loss = loss_fn(x, y)
    loss.backward()
    opt.step()
    print(it, loss.item())
