"""Field-aware ranking with a factorisation machine, cross network and BPR loss."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class Ranker(nn.Module):
    def __init__(self, fields, card, dim=16):
        super().__init__()
        self.register_buffer("base", torch.arange(fields) * card)
        self.linear, self.embed = nn.Embedding(fields * card, 1), nn.Embedding(fields * card, dim)
        width = fields * dim
        self.cross_w = nn.ParameterList([nn.Parameter(torch.randn(width) * 0.01) for _ in range(3)])
        self.cross_b = nn.ParameterList([nn.Parameter(torch.zeros(width)) for _ in range(3)])
        self.out = nn.Linear(width, 1)

    def forward(self, ids):
        ids = ids + self.base
        e = self.embed(ids)
        fm = 0.5 * (e.sum(1) ** 2 - (e**2).sum(1)).sum(-1)
        x0 = x = e.flatten(1)
        for w, b in zip(self.cross_w, self.cross_b):
            x = x0 * (x @ w)[:, None] + b + x
        return self.linear(ids).sum((1, 2)) + fm + self.out(x).squeeze(-1)


def build(device, compiled):
    torch.manual_seed(0)
    fields, card, n = pick(24, 4), pick(1000, 10), pick(1024, 8)
    model = Ranker(fields, card).to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)

    def bpr(good, bad):
        return -F.logsigmoid(model(good) - model(bad)).mean()

    if compiled:
        bpr = torch.compile(bpr, backend=BACKEND)
    good, bad = torch.randint(card, (2, n, fields), device=device)

    def step():
        optimizer.zero_grad()
        loss = bpr(good, bad)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
