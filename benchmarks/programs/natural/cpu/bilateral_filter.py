"""Bilateral filter over shifted windows."""

import math
import os

import torch
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def bilateral(image, radius=3, sigma_s=2.0, sigma_r=0.1):
    padded = F.pad(image, (radius,) * 4, mode="reflect")
    h, w = image.shape[-2:]
    total, weight = torch.zeros_like(image), torch.zeros_like(image[:, :1])
    for dy in range(-radius, radius + 1):
        for dx in range(-radius, radius + 1):
            shifted = padded[..., radius + dy : radius + dy + h, radius + dx : radius + dx + w]
            d2 = (shifted - image).square().sum(1, keepdim=True)
            wgt = torch.exp(-d2 / (2 * sigma_r**2)) * math.exp(-(dy * dy + dx * dx) / (2 * sigma_s**2))
            total = total + wgt * shifted
            weight = weight + wgt
    return total / weight


def build(device, compiled):
    torch.manual_seed(0)
    image = torch.rand(1, 3, pick(240, 16), pick(320, 20), device=device)
    run = torch.compile(bilateral, backend=BACKEND) if compiled else bilateral

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
