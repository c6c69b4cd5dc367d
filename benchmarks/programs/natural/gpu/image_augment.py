"""Batch augmentation: affine warp, colour jitter in HSV-like space, blur, erasing."""

import os

import torch
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def affine(x, angle, scale, shift):
    c, s = angle.cos() * scale, angle.sin() * scale
    theta = torch.stack([torch.stack([c, -s, shift[:, 0]], -1), torch.stack([s, c, shift[:, 1]], -1)], 1)
    grid = F.affine_grid(theta, x.shape, align_corners=False)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="reflection", align_corners=False)


def jitter(x, brightness, contrast, saturation):
    gray_w = torch.tensor([0.299, 0.587, 0.114], device=x.device).view(1, 3, 1, 1)
    x = x * brightness
    mean = (x * gray_w).sum(1, keepdim=True).mean((2, 3), keepdim=True)
    x = (x - mean) * contrast + mean
    gray = (x * gray_w).sum(1, keepdim=True)
    return ((x - gray) * saturation + gray).clamp(0, 1)


def blur(x, sigma, radius=4):
    t = torch.arange(-radius, radius + 1, device=x.device).float()
    k = torch.exp(-0.5 * (t / sigma) ** 2)
    k = (k / k.sum()).expand(3, 1, -1)
    x = F.conv2d(F.pad(x, (radius, radius, 0, 0), mode="reflect"), k[:, :, None, :], groups=3)
    return F.conv2d(F.pad(x, (0, 0, radius, radius), mode="reflect"), k[:, :, :, None], groups=3)


def augment(images):
    n, _, h, w = images.shape
    x = images.float() / 255
    r = torch.rand(n, 10, device=x.device)
    flip = (r[:, 0] < 0.5).view(n, 1, 1, 1)
    x = torch.where(flip, x.flip(-1), x)
    x = affine(x, (r[:, 1] - 0.5) * 0.6, 0.9 + 0.2 * r[:, 2], (r[:, 3:5] - 0.5) * 0.2)
    f = (0.6 + 0.8 * r[:, 5:8])[:, :, None, None, None]
    x = jitter(x, f[:, 0], f[:, 1], f[:, 2])
    x = blur(x, 1.5)
    y, xx = torch.arange(h, device=x.device)[:, None], torch.arange(w, device=x.device)[None]
    cy, cx = (r[:, 8] * h).view(n, 1, 1), (r[:, 9] * w).view(n, 1, 1)
    hole = ((y - cy).abs() < h // 8) & ((xx - cx).abs() < w // 8)
    x = x.masked_fill(hole[:, None], 0.5)
    mean = torch.tensor([0.485, 0.456, 0.406], device=x.device).view(3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225], device=x.device).view(3, 1, 1)
    return ((x - mean) / std).half()


def build(device, compiled):
    torch.manual_seed(0)
    side = pick(224, 32)
    images = torch.randint(256, (pick(256, 2), 3, side, side), dtype=torch.uint8, device=device)
    run = torch.compile(augment, backend=BACKEND) if compiled else augment

    @torch.no_grad()
    def step():
        return run(images)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
