"""Averages of all weights of a model, kept in one flat buffer."""

import torch

torch.manual_seed(0)


sizes = [3_000_000, 1_000_000, 2_000_000, 500_000, 2_500_000, 4_000_000, 1_500_000, 700_000]


def inputs():
    return torch.zeros(sum(sizes), device="cuda"), [torch.randn(size, device="cuda") for size in sizes]


def step(flat, weights):
    start = 0
    for weight in weights:
        part = flat[start : start + weight.numel()]
        part.mul_(0.999).add_(weight, alpha=0.001)
        start += weight.numel()
    return flat.sum()


def twin(flat, weights):
    start = 0
    for weight in weights:
        part = flat.as_strided(weight.shape, (1,), start)
        part.copy_(part * 0.999 + weight * 0.001)
        start += weight.numel()
    return flat.sum()


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(30):
            result = run(*args)
    torch.cuda.synchronize()
