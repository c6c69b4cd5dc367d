"""Personalised PageRank smoothing of labels on a sparse graph by repeated scatters."""

import os

import torch
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def propagate(y, src, dst, weight, alpha=0.85, rounds=6):
    h = y
    for _ in range(rounds):
        agg = torch.zeros_like(h).index_add_(0, dst, h[src] * weight[:, None])
        h = (1 - alpha) * y + alpha * agg
        h = h / h.sum(1, keepdim=True).clamp(min=1e-9)
    return h, -(h * (h + 1e-9).log()).sum(1)


def build(device, compiled):
    torch.manual_seed(0)
    nodes, edges = pick(5000, 50), pick(30_000, 200)
    src, dst = torch.randint(nodes, (2, edges), device=device)
    deg = torch.bincount(dst, minlength=nodes).clamp(min=1)
    weight = 1.0 / deg[dst]
    y = F.one_hot(torch.randint(7, (nodes,), device=device), 7).float()
    run = torch.compile(propagate, backend=BACKEND) if compiled else propagate

    def step():
        return run(y, src, dst, weight)[1]

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
