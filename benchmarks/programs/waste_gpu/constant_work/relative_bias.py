"""Attention's bias by logarithmic distance, made by a cached function."""

import functools

import torch

torch.manual_seed(0)


@functools.lru_cache
def distances(length: int, heads: int) -> torch.Tensor:
    place = torch.arange(length, device="cuda", dtype=torch.float32)
    apart = (place[:, None] - place[None, :]).abs()
    slope = torch.arange(1, heads + 1, device="cuda")[:, None, None] / heads
    return torch.exp(-slope * torch.log1p(apart)) * torch.cos(apart * slope)


def inputs():
    return torch.randn(1, 16, 1024, 1024, device="cuda"), torch.randn(1, 16, 1024, 64, device="cuda")


def step(scores, values):
    return torch.softmax(scores + distances(1024, 16), -1) @ values


table = distances(1024, 16)


def twin(scores, values):
    return torch.softmax(scores + table, -1) @ values


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(30):
            result = run(*args)
    torch.cuda.synchronize()
