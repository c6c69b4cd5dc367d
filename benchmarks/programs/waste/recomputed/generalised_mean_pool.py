"""Generalised mean pooling over windows, as retrieval models end in."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)


def inputs():
    return torch.rand(8, 64, 56, 56), torch.tensor(3.3)


def step(x, p):
    return F.avg_pool2d(x.clamp(min=1e-6).pow(p), 5, 1, 2).pow(1.0 / p)


def twin(x, p):
    y = x.clamp(min=1e-6).pow(p)
    return F.avg_pool2d(y.as_strided(y.shape, y.stride()), 5, 1, 2).pow(1.0 / p)


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
