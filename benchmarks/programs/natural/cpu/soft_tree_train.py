"""Differentiable soft decision forest with entropy regularisation."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class SoftForest(nn.Module):
    def __init__(self, features=30, trees=16, depth=5, classes=4):
        super().__init__()
        self.depth = depth
        self.split = nn.Linear(features, trees * (2**depth - 1))
        self.leaf = nn.Parameter(torch.randn(trees, 2**depth, classes) * 0.1)
        self.trees = trees

    def forward(self, x):
        d = torch.sigmoid(self.split(x)).view(x.shape[0], self.trees, -1)
        p = torch.ones_like(d[..., :1])
        start = 0
        for level in range(self.depth):
            width = 2**level
            right = d[..., start : start + width]
            p = torch.stack([p * (1 - right), p * right], -1).flatten(-2)
            start += width
        balance = -(
            0.5 * d.mean(0).clamp(1e-4, 1 - 1e-4).log() + 0.5 * (1 - d.mean(0)).clamp(1e-4, 1 - 1e-4).log()
        ).mean()
        return torch.einsum("ntl,tlc->nc", p, self.leaf), balance


def build(device, compiled):
    torch.manual_seed(0)
    model = SoftForest().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    forward = torch.compile(model, backend=BACKEND) if compiled else model
    x = torch.randn(pick(1024, 16), 30, device=device)
    y = torch.randint(4, (x.shape[0],), device=device)

    def step():
        logits, balance = forward(x)
        loss = F.cross_entropy(logits, y) + 0.1 * balance
        optimizer.zero_grad()
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
