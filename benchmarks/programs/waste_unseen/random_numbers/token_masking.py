"""Spans of a spectrogram and words of a text blanked by chance, as augmentation does it."""

import torch

torch.manual_seed(0)
TWIN_CONFIG = {"fallback_random": True}


def inputs():
    return (torch.randn(64, 128, 1024),)


def step(x):
    noise = torch.normal(0.0, 0.1, x.shape)
    keep = torch.rand(x.shape[0], 1, x.shape[2]) > 0.15
    return torch.where(keep, x + noise, 0.0)


twin = step


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
