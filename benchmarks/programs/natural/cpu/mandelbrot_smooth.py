"""Escape-time fractal with smooth colouring in real arithmetic."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def mandelbrot(cx, cy, iterations=30):
    x, y = torch.zeros_like(cx), torch.zeros_like(cy)
    count = torch.zeros_like(cx)
    for _ in range(iterations):
        x2, y2 = x * x, y * y
        alive = x2 + y2 < 256.0
        count += alive
        x, y = torch.where(alive, x2 - y2 + cx, x), torch.where(alive, 2 * x * y + cy, y)
    mag = (x * x + y * y).clamp(min=1.0001)
    smooth = count + 1 - torch.log2(torch.log(mag) / 2 + 1e-6)
    hue = (smooth * 0.07) % 1.0
    rgb = torch.stack([torch.sin(6.28 * (hue + s)) * 0.5 + 0.5 for s in (0.0, 0.33, 0.67)])
    return (rgb * 255 * (count < iterations)).to(torch.uint8)


def build(device, compiled):
    h, w = pick(300, 16), pick(400, 24)
    cy, cx = torch.meshgrid(
        torch.linspace(-1.2, 1.2, h, device=device),
        torch.linspace(-2.2, 0.8, w, device=device),
        indexing="ij",
    )
    run = torch.compile(mandelbrot, backend=BACKEND) if compiled else mandelbrot

    def step():
        return run(cx, cy)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
