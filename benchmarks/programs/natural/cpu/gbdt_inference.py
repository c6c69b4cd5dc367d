"""Boosted oblivious trees evaluated as tensor gathers."""

import os

import torch
import torch.nn as nn

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class Ensemble(nn.Module):
    def __init__(self, trees, depth, features, outputs=1):
        super().__init__()
        self.register_buffer("feature", torch.randint(features, (trees, depth)))
        self.register_buffer("threshold", torch.randn(trees, depth))
        self.register_buffer("leaves", torch.randn(trees, 2**depth, outputs) * 0.1)
        self.register_buffer("power", 2 ** torch.arange(depth))

    def forward(self, x):
        bits = x[:, self.feature] > self.threshold
        leaf = (bits * self.power).sum(-1)
        tree = torch.arange(self.leaves.shape[0], device=x.device)
        return torch.sigmoid(self.leaves[tree, leaf].sum(1)).squeeze(-1)


def build(device, compiled):
    torch.manual_seed(0)
    model = Ensemble(pick(300, 10), 6, 50).to(device)
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    x = torch.randn(pick(2000, 16), 50, device=device)

    @torch.no_grad()
    def step():
        return model(x)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
