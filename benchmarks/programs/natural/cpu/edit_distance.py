"""Batched Levenshtein distance row by row with a prefix-minimum for insertions."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def edit_distance(a, b):
    n, la = a.shape
    lb = b.shape[1]
    ramp = torch.arange(lb + 1, device=a.device)
    row = ramp.expand(n, -1)
    for i in range(la):
        differs = (a[:, i, None] != b).long()
        best = torch.minimum(row[:, 1:] + 1, row[:, :-1] + differs)
        best = torch.cat([torch.full((n, 1), i + 1, device=a.device), best], 1)
        row = torch.cummin(best - ramp, 1).values + ramp
    return row[:, -1]


def build(device, compiled):
    torch.manual_seed(0)
    a, b = (
        torch.randint(26, (pick(512, 4), pick(16, 5)), device=device),
        torch.randint(26, (pick(512, 4), pick(40, 7)), device=device),
    )
    run = torch.compile(edit_distance, backend=BACKEND) if compiled else edit_distance

    def step():
        return run(a, b)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
