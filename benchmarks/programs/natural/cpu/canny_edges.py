"""Gaussian smoothing, Sobel gradients, non-maximum suppression and hysteresis rounds."""

import math
import os

import torch
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def canny(image, low=0.1, high=0.25):
    t = torch.arange(-2, 3, device=image.device).float()
    g = torch.exp(-0.5 * t**2 / 1.4**2)
    g = (g[:, None] * g[None] / g.sum() ** 2)[None, None]
    x = F.conv2d(F.pad(image, (2, 2, 2, 2), mode="reflect"), g)
    sobel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]], device=image.device)
    grad = F.conv2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), torch.stack([sobel, sobel.t()])[:, None])
    mag = grad.norm(dim=1, keepdim=True)
    angle = torch.atan2(grad[:, 1:], grad[:, :1])
    sector = torch.round(angle * 4 / math.pi) % 4
    p = F.pad(mag, (1, 1, 1, 1))
    h, w = mag.shape[-2:]
    keep = torch.zeros_like(mag, dtype=torch.bool)
    for s, (dy, dx) in enumerate([(0, 1), (1, 1), (1, 0), (1, -1)]):
        a = p[..., 1 + dy : 1 + dy + h, 1 + dx : 1 + dx + w]
        b = p[..., 1 - dy : 1 - dy + h, 1 - dx : 1 - dx + w]
        keep |= (sector == s) & (mag >= a) & (mag >= b)
    thin = mag * keep
    top = thin.amax((2, 3), keepdim=True)
    strong, weak = thin > high * top, thin > low * top
    edges = strong.float()
    for _ in range(5):
        edges = F.max_pool2d(edges, 3, 1, 1) * weak
    return edges


def build(device, compiled):
    torch.manual_seed(0)
    image = torch.rand(1, 1, pick(240, 24), pick(320, 32), device=device)
    run = torch.compile(canny, backend=BACKEND) if compiled else canny

    @torch.no_grad()
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
