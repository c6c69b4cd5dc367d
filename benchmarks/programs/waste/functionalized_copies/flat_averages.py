"""Moving averages of several weights that lie in one flat tensor."""

import torch

torch.manual_seed(0)
SIZES = (400_000, 1000, 300_000, 3000)


def inputs():
    return torch.zeros(8_000_000), *(torch.randn(size) for size in SIZES)


def step(flat, *weights):
    start = 0
    for weight in weights:
        part = flat[start : start + weight.numel()]
        part.mul_(0.99).add_(weight, alpha=0.01)
        start += weight.numel()
    return flat[:10].sum()


def twin(flat, *weights):
    """One write of all that changes."""
    total = sum(SIZES)
    flat[:total] = flat[:total] * 0.99 + torch.cat(weights) * 0.01
    return flat[:10].sum()


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
