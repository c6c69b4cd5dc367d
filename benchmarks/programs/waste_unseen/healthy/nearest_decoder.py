"""A decoder's step: halved, then twice the size by the nearest neighbour, and the skip is added."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)


@torch.library.custom_op("waste::nearest", mutates_args=())
def nearest(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, scale_factor=2.0, mode="nearest")


@nearest.register_fake
def _(x):
    return x.new_empty(x.shape[0], x.shape[1], 2 * x.shape[2], 2 * x.shape[3])


def inputs():
    return torch.randn(4, 64, 64, 64), torch.randn(4, 64, 128, 128)


def step(x, skip):
    return F.interpolate(x * 0.5, scale_factor=2.0, mode="nearest") + skip


def twin(x, skip):
    return nearest(x * 0.5) + skip


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
