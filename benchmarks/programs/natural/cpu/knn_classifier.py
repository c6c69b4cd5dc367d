"""k nearest neighbours with distance weighting and a vote per class."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def knn_vote(queries, points, labels, classes, k=15):
    d = torch.cdist(queries, points)
    dist, index = d.topk(k, largest=False)
    weight = 1 / (dist + 1e-3)
    votes = torch.zeros(queries.shape[0], classes, device=queries.device)
    votes.scatter_add_(1, labels[index], weight)
    return votes.argmax(1), votes.max(1).values / votes.sum(1)


def build(device, compiled):
    torch.manual_seed(0)
    points = torch.randn(pick(5000, 50), 32, device=device)
    labels = torch.randint(10, (points.shape[0],), device=device)
    queries = torch.randn(pick(256, 4), 32, device=device)
    run = torch.compile(knn_vote, backend=BACKEND) if compiled else knn_vote

    def step():
        return run(queries, points, labels, 10)[1]

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
