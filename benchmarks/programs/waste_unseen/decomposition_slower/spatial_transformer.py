"""A spatial transformer: pictures turned by the angles that a network predicts."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)


@torch.library.custom_op("waste::turn", mutates_args=())
def turn(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    return F.grid_sample(x, grid, padding_mode="border", align_corners=True)


@turn.register_fake
def _(x, grid):
    return x.new_empty(x.shape[0], x.shape[1], grid.shape[1], grid.shape[2])


def inputs():
    return torch.rand(16, 16, 96, 96), torch.rand(16)


def grids(x, angle):
    cos, sin = torch.cos(angle), torch.sin(angle)
    zero = torch.zeros_like(cos)
    theta = torch.stack([torch.stack([cos, -sin, zero], -1), torch.stack([sin, cos, zero], -1)], 1)
    return F.affine_grid(theta, x.shape, align_corners=True)


def step(x, angle):
    turned = F.grid_sample(x, grids(x, angle), padding_mode="border", align_corners=True)
    return (turned - 0.5) * 2


def twin(x, angle):
    return (turn(x, grids(x, angle)) - 0.5) * 2


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
