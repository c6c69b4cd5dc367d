"""A speech front end: the log power of every band, averaged over 21 frames."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)


def inputs():
    return (torch.rand(16, 257, 16000, device="cuda"),)


def step(power):
    return F.avg_pool1d(torch.log10(power + 1e-8).pow(0.33 * 2).abs(), 21, 1, 10)


def twin(power):
    level = torch.log10(power + 1e-8).pow(0.33 * 2).abs()
    return F.avg_pool1d(level.as_strided(level.shape, level.stride()), 21, 1, 10)


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(30):
            result = run(*args)
    torch.cuda.synchronize()
