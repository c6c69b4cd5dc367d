"""Optical flow: a picture warped by a field of displacements."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)


@torch.library.custom_op("waste::sample", mutates_args=())
def sample(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    return F.grid_sample(x, grid, align_corners=False)


@sample.register_fake
def _(x, grid):
    return x.new_empty(x.shape[0], x.shape[1], grid.shape[1], grid.shape[2])


def inputs():
    return torch.rand(2, 32, 160, 160), torch.rand(2, 160, 160, 2) * 2 - 1


def step(x, flow):
    return F.grid_sample(x, flow * 0.9, align_corners=False) * 0.5


def twin(x, flow):
    return sample(x, flow * 0.9) * 0.5


if __name__ == "__main__":
    import sys

    args = inputs()
    run = torch.compile(twin if "after" in sys.argv else step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
