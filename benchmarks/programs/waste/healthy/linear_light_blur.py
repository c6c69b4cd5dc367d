"""A blur in linear light: a power for every neighbour."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)


def inputs():
    return (torch.rand(2, 3, 512, 512),)


def step(image):
    return F.avg_pool2d(image.pow(2.2), 7, 1, 3).pow(1 / 2.2)


def twin(image):
    linear = image.pow(2.2)
    return F.avg_pool2d(linear.as_strided(linear.shape, linear.stride()), 7, 1, 3).pow(1 / 2.2)


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
