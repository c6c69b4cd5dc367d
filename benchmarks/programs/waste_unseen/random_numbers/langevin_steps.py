"""Langevin steps in a double well, with fresh noise in each."""

import torch

torch.manual_seed(0)
TWIN_CONFIG = {"fallback_random": True}


def inputs():
    return (torch.randn(8192, 128),)


def step(x):
    for _ in range(4):
        x = x - 0.01 * 4 * x * (x * x - 1) + 0.1414 * torch.randn_like(x)
    return x


twin = step


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
