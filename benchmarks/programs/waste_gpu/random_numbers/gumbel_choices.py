"""Choosing the next tokens by Gumbel noise."""

import torch

torch.manual_seed(0)


TWIN_CONFIG = {"fallback_random": True}


def inputs():
    return (torch.randn(64, 128256, device="cuda"),)


def step(logits):
    noise = -torch.log(-torch.log(torch.rand_like(logits).clamp(1e-9, 1 - 1e-7)))
    return (logits + noise).argmax(-1)


twin = step


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(30):
            result = run(*args)
    torch.cuda.synchronize()
