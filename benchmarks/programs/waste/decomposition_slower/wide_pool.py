"""Smoothing by windows of 13 by 13."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)


@torch.library.custom_op("waste::pool", mutates_args=())
def pool(x: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(x, 13, 1, 6)


@pool.register_fake
def _(x):
    return torch.empty_like(x)


def inputs():
    return (torch.randn(4, 32, 40, 40),)


def step(x):
    return F.max_pool2d(x, 13, 1, 6) + x


def twin(x):
    return pool(x) + x


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
