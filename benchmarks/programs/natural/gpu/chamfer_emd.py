"""Chamfer distance and a Sinkhorn approximation of earth mover's distance, gradients."""

import math
import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def chamfer(a, b):
    d = ((a[:, :, None] - b[:, None]) ** 2).sum(-1)
    return d.min(2).values.mean() + d.min(1).values.mean(), d


def sinkhorn(cost, eps=0.05, rounds=10):
    n, m = cost.shape[1:]
    f, g = torch.zeros_like(cost[:, :, 0]), torch.zeros_like(cost[:, 0])
    for _ in range(rounds):
        f = -eps * (torch.logsumexp((g[:, None] - cost) / eps, 2) - math.log(m))
        g = -eps * (torch.logsumexp((f[:, :, None] - cost) / eps, 1) - math.log(n))
    plan = torch.exp((f[:, :, None] + g[:, None] - cost) / eps) / (n * m)
    return (plan * cost).sum((1, 2)).mean()


def loss_fn(points, target):
    c, cost = chamfer(points, target)
    return c + 0.1 * sinkhorn(cost)


def build(device, compiled):
    torch.manual_seed(0)
    n, k = pick(8, 2), pick(1024, 24)
    points = torch.randn(n, k, 3, device=device, requires_grad=True)
    target = torch.randn(n, k, 3, device=device)
    compute = torch.compile(loss_fn, backend=BACKEND) if compiled else loss_fn

    def step():
        points.grad = None
        loss = compute(points, target)
        loss.backward()
        with torch.no_grad():
            points.sub_(0.01 * points.grad)
        return loss.detach()

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
