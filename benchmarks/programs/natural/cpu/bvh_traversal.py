"""Fixed-depth tree descent for point queries in a balanced kd-tree by gathers."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def build_tree(points, depth):
    order = torch.arange(points.shape[0])[None]
    cuts, axes = [], []
    for level in range(depth):
        axis = level % points.shape[1]
        values = points[order][..., axis]
        rank = values.argsort(1)
        order = order.gather(1, rank)
        half = order.shape[1] // 2
        cuts.append(points[order[:, half]][:, axis])
        axes.append(torch.full((order.shape[0],), axis))
        order = order.view(-1, half)
    return torch.cat(cuts), torch.cat(axes), order


def query(x, points, cuts, axes, leaves, depth):
    node = torch.zeros(x.shape[0], dtype=torch.long, device=x.device)
    for _ in range(depth):
        value = x.gather(1, axes[node][:, None]).squeeze(1)
        node = 2 * node + 1 + (value >= cuts[node]).long()
    leaf = node - (2**depth - 1)
    candidates = leaves[leaf]
    d = (points[candidates] - x[:, None]).square().sum(-1)
    best, slot = d.min(1)
    return candidates.gather(1, slot[:, None]).squeeze(1), best.sqrt()


def build(device, compiled):
    torch.manual_seed(0)
    depth = pick(10, 4)
    points = torch.randn(2**depth * 16, 3)
    cuts, axes, leaves = (t.to(device) for t in build_tree(points, depth))
    points = points.to(device)
    x = torch.randn(pick(20_000, 32), 3, device=device)
    run = torch.compile(query, backend=BACKEND) if compiled else query

    def step():
        return run(x, points, cuts, axes, leaves, depth)[1]

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
