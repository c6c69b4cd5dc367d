"""Contrast-limited histogram equalisation on tiles with interpolated lookup tables."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def clahe(image, tiles=8, bins=256, clip=0.02):
    n, h, w = image.shape
    th, tw = h // tiles, w // tiles
    level = (image * (bins - 1)).long()
    t = level.view(n, tiles, th, tiles, tw).permute(0, 1, 3, 2, 4).reshape(n * tiles * tiles, -1)
    hist = torch.zeros(t.shape[0], bins, device=image.device).scatter_add_(
        1, t, torch.ones_like(t, dtype=torch.float32)
    )
    hist = hist / t.shape[1]
    excess = (hist - clip).clamp(min=0).sum(1, keepdim=True)
    cdf = (hist.clamp(max=clip) + excess / bins).cumsum(1).view(n, tiles, tiles, bins)
    y = ((torch.arange(h, device=image.device) + 0.5) / th - 0.5).clamp(0, tiles - 1)
    x = ((torch.arange(w, device=image.device) + 0.5) / tw - 0.5).clamp(0, tiles - 1)
    y0, x0 = y.long().clamp(max=tiles - 2), x.long().clamp(max=tiles - 2)
    fy, fx = (y - y0)[:, None], (x - x0)[None]
    batch = torch.arange(n, device=image.device)[:, None, None]

    def table(dy, dx):
        return cdf[batch, (y0 + dy)[None, :, None], (x0 + dx)[None, None], level]

    top = table(0, 0) * (1 - fx) + table(0, 1) * fx
    bottom = table(1, 0) * (1 - fx) + table(1, 1) * fx
    return top * (1 - fy) + bottom * fy


def build(device, compiled):
    torch.manual_seed(0)
    image = torch.rand(pick(2, 1), pick(384, 32), pick(512, 32), device=device) ** 2
    run = torch.compile(clahe, backend=BACKEND) if compiled else clahe

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
