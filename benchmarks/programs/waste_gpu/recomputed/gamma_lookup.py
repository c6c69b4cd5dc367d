"""Colour correction: every pixel looks its value up in a table with a gamma."""

import torch

torch.manual_seed(0)


def inputs():
    return torch.rand(3, 1024, device="cuda"), torch.randint(0, 1024, (8, 1080, 1920), device="cuda")


def step(table, pixels):
    return torch.pow(table, 2.2)[:, pixels].clamp(0, 1)


def twin(table, pixels):
    curve = torch.pow(table, 2.2)
    return curve.as_strided(curve.shape, curve.stride())[:, pixels].clamp(0, 1)


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(30):
            result = run(*args)
    torch.cuda.synchronize()
