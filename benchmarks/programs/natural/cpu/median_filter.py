"""5x5 median filter with salt-and-pepper detection."""

import os

import torch
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def median_denoise(image, k=5):
    pad = k // 2
    x = F.pad(image, (pad, pad, pad, pad), mode="reflect")
    windows = x.unfold(2, k, 1).unfold(3, k, 1).flatten(-2)
    med = windows.median(-1).values
    spread = windows.amax(-1) - windows.amin(-1)
    outlier = ((image - med).abs() > 0.5 * spread) | (image <= 0.01) | (image >= 0.99)
    return torch.where(outlier, med, image)


def build(device, compiled):
    torch.manual_seed(0)
    image = torch.rand(1, 3, pick(96, 16), pick(128, 16), device=device)
    noise = torch.rand_like(image)
    image = torch.where(
        noise < 0.05, torch.zeros_like(image), torch.where(noise > 0.95, torch.ones_like(image), image)
    )
    run = torch.compile(median_denoise, backend=BACKEND) if compiled else median_denoise

    def step():
        return run(image)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
