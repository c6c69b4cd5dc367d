"""Gradient steps of exact t-SNE with momentum and early exaggeration."""

import torch


def step(y, velocity, p, exaggeration, rate):
    d = torch.cdist(y, y).pow(2)
    q = 1 / (1 + d)
    q = q * (1 - torch.eye(len(y)))
    w = (p * exaggeration - q / q.sum()) * q
    grad = 4 * (torch.diag(w.sum(1)) - w) @ y
    velocity = 0.8 * velocity - rate * grad
    y = y + velocity
    return y - y.mean(0), velocity, (p * (p / (q / q.sum()).clamp(min=1e-12)).clamp(min=1e-12).log()).sum()


torch.manual_seed(0)
n = 800
x = torch.randn(n, 30) + torch.randint(0, 4, (n, 1)) * 3
p = torch.softmax(-torch.cdist(x, x).pow(2) / 50 - 1e9 * torch.eye(n), 1)
p = (p + p.T) / (2 * n)
y, velocity = torch.randn(n, 2) * 1e-2, torch.zeros(n, 2)
go = torch.compile(step)
for k in range(30):
    y, velocity, kl = go(y, velocity, p, torch.tensor(4.0 if k < 15 else 1.0), 100.0)
print(kl.item())
