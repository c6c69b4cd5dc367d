"""Regional features for image retrieval: generalised means of overlapping windows, with a learned power."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)


power = torch.nn.Parameter(torch.full((1,), 3.2, device="cuda"))


def inputs():
    return (torch.rand(16, 512, 48, 64, device="cuda"),)


def step(x):
    return F.avg_pool2d(x.clamp(min=1e-6).pow(power), 5, 2, 2).pow(1.0 / power)


def twin(x):
    y = x.clamp(min=1e-6).pow(power)
    return F.avg_pool2d(y.as_strided(y.shape, y.stride()), 5, 2, 2).pow(1.0 / power)


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(30):
            result = run(*args)
    torch.cuda.synchronize()
