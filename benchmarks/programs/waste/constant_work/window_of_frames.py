"""A Kaiser-like window and Fourier features of the frame's place, made for each batch."""

import torch

torch.manual_seed(0)


def features(frames, width):
    t = torch.linspace(0, 1, frames)
    k = torch.arange(1, width + 1).float()
    return torch.exp(-((t - 0.5) ** 2) * 8)[:, None] * torch.sin(6.283 * t[:, None] * k) ** 3


def inputs():
    return (torch.randn(4, 1024, 256),)


def step(x):
    return x * features(1024, 256)


TABLE = features(1024, 256)


def twin(x):
    return x * TABLE


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
