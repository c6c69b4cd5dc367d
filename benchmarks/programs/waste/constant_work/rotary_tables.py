"""Rotary positions with their sines and cosines made in the layer."""

import torch

torch.manual_seed(0)


def tables(length, width):
    rate = 1.0 / (10000.0 ** (torch.arange(0, width, 2).float() / width))
    angle = torch.outer(torch.arange(length).float(), rate)
    return torch.cos(angle), torch.sin(angle)


def inputs():
    return (torch.randn(2, 1, 4096, 128),)


def rotate(q, cos, sin):
    a, b = q.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


def step(q):
    return rotate(q, *tables(4096, 128))


TABLES = tables(4096, 128)


def twin(q):
    return rotate(q, *TABLES)


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
