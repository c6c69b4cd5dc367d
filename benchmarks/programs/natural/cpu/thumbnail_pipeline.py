"""Decode-side preprocessing: uint8 images resized with antialias, cropped, normalised."""

import os

import torch
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def preprocess(images, size=224):
    x = images.permute(0, 3, 1, 2).float()
    x = F.interpolate(
        x, size=(size * 8 // 7, size * 8 // 7), mode="bilinear", align_corners=False, antialias=True
    )
    top = (x.shape[-1] - size) // 2
    x = x[..., top : top + size, top : top + size].round().clamp(0, 255) / 255
    mean = torch.tensor([0.485, 0.456, 0.406], device=x.device).view(1, 3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225], device=x.device).view(1, 3, 1, 1)
    return (x - mean) / std


def build(device, compiled):
    torch.manual_seed(0)
    images = torch.randint(
        256, (pick(2, 1), pick(480, 64), pick(640, 80), 3), dtype=torch.uint8, device=device
    )
    size = pick(224, 28)
    run = torch.compile(preprocess, backend=BACKEND) if compiled else preprocess

    def step():
        return run(images, size)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
