"""The forward process of a diffusion model: noise of the size of the pictures."""

import torch

torch.manual_seed(0)
TWIN_CONFIG = {"fallback_random": True}


def inputs():
    return torch.randn(16, 3, 256, 256), torch.rand(16)


def step(x, t):
    a = torch.cos(t * 1.57)[:, None, None, None]
    return a * x + (1 - a * a).sqrt() * torch.randn_like(x)


twin = step


if __name__ == "__main__":
    import sys

    args = inputs()
    run = torch.compile(step, options=TWIN_CONFIG if "after" in sys.argv else None)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
