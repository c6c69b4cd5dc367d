"""A graph's edges take the angle of the node that they come from."""

import torch

torch.manual_seed(0)


def inputs():
    return torch.randn(20000, 8), torch.randn(20000, 8), torch.randint(0, 20000, (400000,))


def step(y, x, sources):
    return torch.atan2(y, x)[sources] * 2.0


def twin(y, x, sources):
    angle = torch.atan2(y, x)
    return angle.as_strided(angle.shape, angle.stride())[sources] * 2.0


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
