"""Log likelihoods of a mixture of Gaussians whose widths are kept unconstrained."""

import math

import torch
import torch.nn.functional as F

torch.manual_seed(0)


def inputs():
    return torch.randn(4096, 16), torch.randn(64, 16), torch.randn(64, 16)


def step(x, means, raw):
    width = F.softplus(raw) + 1e-3
    z = (x[:, None] - means) / width
    return (-0.5 * z * z - torch.log(width) - 0.5 * math.log(2 * math.pi)).sum(-1)


def twin(x, means, raw):
    width = F.softplus(raw) + 1e-3
    logs = torch.log(width)
    width, logs = (y.as_strided(y.shape, y.stride()) for y in (width, logs))
    z = (x[:, None] - means) / width
    return (-0.5 * z * z - logs - 0.5 * math.log(2 * math.pi)).sum(-1)


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
