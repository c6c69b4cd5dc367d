"""Buckets of relative positions with their logarithms, made again in every call."""

import torch

torch.manual_seed(0)


def bias(length, heads):
    place = torch.arange(length)
    distance = (place[:, None] - place[None]).abs().float()
    slopes = torch.pow(2.0, -torch.arange(1, heads + 1).float())
    return -torch.log1p(distance)[None] * slopes[:, None, None]


def inputs():
    return (torch.randn(8, 768, 768),)


def step(scores):
    return torch.softmax(scores + bias(768, 8), -1)


TABLE = bias(768, 8)


def twin(scores):
    return torch.softmax(scores + TABLE, -1)


if __name__ == "__main__":
    import sys

    args = inputs()
    run = torch.compile(twin if "after" in sys.argv else step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
