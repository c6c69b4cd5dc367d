"""Crops enlarged to the size of a network's input."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)


@torch.library.custom_op("waste::enlarge", mutates_args=())
def enlarge(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, size=(224, 224), mode="bilinear", align_corners=False)


@enlarge.register_fake
def _(x):
    return x.new_empty(x.shape[0], x.shape[1], 224, 224)


def inputs():
    return (torch.rand(8, 3, 300, 300),)


def step(x):
    crop = x[:, :, 40:140, 50:150]
    return (F.interpolate(crop, size=(224, 224), mode="bilinear", align_corners=False) - 0.45) / 0.22


def twin(x):
    return (enlarge(x[:, :, 40:140, 50:150]) - 0.45) / 0.22


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
