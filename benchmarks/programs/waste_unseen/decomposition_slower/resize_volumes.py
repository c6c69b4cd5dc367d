"""Volumes of a scanner brought to a grid of twice the size, trilinear."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)


@torch.library.custom_op("waste::resize3d", mutates_args=())
def resize3d(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, scale_factor=2.0, mode="trilinear", align_corners=False)


@resize3d.register_fake
def _(x):
    return x.new_empty(x.shape[0], x.shape[1], *(2 * size for size in x.shape[2:]))


def inputs():
    return (torch.rand(2, 8, 32, 48, 48),)


def step(x):
    return F.interpolate(x * 2 - 1, scale_factor=2.0, mode="trilinear", align_corners=False)


def twin(x):
    return resize3d(x * 2 - 1)


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
