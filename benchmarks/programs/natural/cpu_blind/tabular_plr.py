"""Tabular regressor with periodic feature embeddings and gated residual layers, trained
for several quantiles at once."""

import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(13)

ROWS, FEATS, BATCH = 16384, 24, 1024
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def make_table():
    g = torch.Generator().manual_seed(99)
    x = torch.randn(ROWS, FEATS, generator=g)
    y = torch.sin(2 * x[:, 0]) * x[:, 1] + (x[:, 2] > 0.3).float() * x[:, 3].abs()
    y = y + 0.5 * torch.cos(3 * x[:, 4] + x[:, 5])
    y = y + 0.2 * (1 + x[:, 6].abs()) * torch.randn(ROWS, generator=g)
    return x, y


class PeriodicEmbedding(nn.Module):
    """x_f -> Linear_f([cos(2 pi c_f x), sin(2 pi c_f x)])"""

    def __init__(self, feats, freqs=16, dim=16, sigma=0.3):
        super().__init__()
        self.coef = nn.Parameter(sigma * torch.randn(feats, freqs))
        self.weight = nn.Parameter(torch.randn(feats, 2 * freqs, dim) / math.sqrt(2 * freqs))
        self.bias = nn.Parameter(torch.zeros(feats, dim))

    def forward(self, x):
        ang = 2 * math.pi * x.unsqueeze(-1) * self.coef
        z = torch.cat((ang.cos(), ang.sin()), dim=-1)
        z = torch.bmm(z.transpose(0, 1), self.weight).transpose(0, 1) + self.bias
        return F.relu(z).flatten(1)


class GatedResidual(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(dim, dim)
        self.gamma = nn.Parameter(torch.full((dim,), 0.1))

    def forward(self, x):
        a, b = self.up(self.norm(x)).chunk(2, dim=-1)
        return x + self.gamma * self.down(F.silu(a) * b)


class QuantileNet(nn.Module):
    def __init__(self, width=128, depth=3):
        super().__init__()
        self.embed = PeriodicEmbedding(FEATS)
        self.inp = nn.Linear(FEATS * 16, width)
        self.body = nn.Sequential(*[GatedResidual(width) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.base = nn.Linear(width, 1)
        self.gaps = nn.Linear(width, len(QUANTILES) - 1)
        self.register_buffer("q", torch.tensor(QUANTILES))

    def forward(self, x):
        h = self.norm(self.body(self.inp(self.embed(x))))
        gaps = F.softplus(self.gaps(h))
        low = self.base(h) - 1.0
        g = gaps.unbind(-1)
        cols, run = [low.squeeze(-1)], low.squeeze(-1)
        for piece in g:
            run = run + piece
            cols.append(run)
        return torch.stack(cols, dim=-1)

    def pinball(self, x, y):
        err = y.unsqueeze(-1) - self(x)
        return torch.maximum(self.q * err, (self.q - 1) * err).mean()


def main():
    x, y = make_table()
    net = QuantileNet()
    loss_fn = torch.compile(net.pinball)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-4, fused=True)

    batches = torch.randperm(ROWS).view(-1, BATCH)
    times, total = [], 0.0
    for i in range(44):
        idx = batches[i % len(batches)]
        xb, yb = x[idx], y[idx]
        t0 = time.perf_counter()
        loss = loss_fn(xb, yb)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        dt = time.perf_counter() - t0
        if i >= 4:
            times.append(dt)
            total += loss.item()
    print(f"{1e3 * sum(times) / len(times):.2f} ms/step   mean pinball {total / len(times):.5f}")


if __name__ == "__main__":
    main()
