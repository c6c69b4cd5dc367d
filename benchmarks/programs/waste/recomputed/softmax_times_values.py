"""Attention of one query for each head, written as a product and a sum."""

import torch

torch.manual_seed(0)


def inputs():
    return torch.randn(32, 1024), torch.randn(32, 1024, 64)


def step(scores, values):
    return (torch.softmax(scores, -1)[..., None] * values).sum(1)


def twin(scores, values):
    weights = torch.softmax(scores, -1)
    return (weights.as_strided(weights.shape, weights.stride())[..., None] * values).sum(1)


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
