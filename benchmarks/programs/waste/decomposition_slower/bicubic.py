"""Super resolution: bicubic to twice the size, clamped."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)


@torch.library.custom_op("waste::bicubic", mutates_args=())
def resize(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, scale_factor=2, mode="bicubic")


@resize.register_fake
def _(x):
    return x.new_empty(x.shape[0], x.shape[1], x.shape[2] * 2, x.shape[3] * 2)


def inputs():
    return (torch.rand(2, 16, 128, 128),)


def step(x):
    return F.interpolate(x, scale_factor=2, mode="bicubic").clamp(0, 1)


def twin(x):
    return resize(x).clamp(0, 1)


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
