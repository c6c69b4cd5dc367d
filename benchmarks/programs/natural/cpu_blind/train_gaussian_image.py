"""Fit a set of anisotropic 2D Gaussians to an image (toy 2D splatting)."""

import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)

H, W = 64, 64
NUM_GAUSSIANS = 224
WARMUP = 4
ITERS = 40


def make_target(h, w):
    ys = torch.linspace(-1, 1, h)
    xs = torch.linspace(-1, 1, w)
    yy, xx = torch.meshgrid(ys, xs, indexing="ij")
    r = torch.sqrt(xx**2 + yy**2)
    img = torch.stack(
        [
            0.5 + 0.5 * torch.sin(6 * r),
            0.5 + 0.5 * torch.cos(5 * xx + 2 * yy),
            torch.sigmoid(8 * (0.6 - r)),
        ],
        dim=-1,
    )
    coords = torch.stack([xx, yy], dim=-1)
    return img.reshape(-1, 3), coords.reshape(-1, 2)


class GaussianImage(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.mean = nn.Parameter(torch.rand(n, 2) * 2 - 1)
        self.log_scale = nn.Parameter(torch.full((n, 2), math.log(0.12)))
        self.theta = nn.Parameter(torch.rand(n) * math.pi)
        self.opacity = nn.Parameter(torch.zeros(n))
        self.color = nn.Parameter(torch.rand(n, 3))

    def forward(self, coords):
        dx = coords[:, 0:1] - self.mean[:, 0]
        dy = coords[:, 1:2] - self.mean[:, 1]
        c, s = torch.cos(self.theta), torch.sin(self.theta)
        inv = torch.exp(-self.log_scale)
        u = (c * dx + s * dy) * inv[:, 0]
        v = (c * dy - s * dx) * inv[:, 1]
        density = torch.exp(-0.5 * (u * u + v * v))
        weight = density * torch.sigmoid(self.opacity)
        norm = weight.sum(dim=1, keepdim=True) + 1e-4
        rgb = (weight / norm) @ torch.sigmoid(self.color)
        return rgb


def loss_fn(model, coords, target):
    pred = model(coords)
    mse = F.mse_loss(pred, target)
    l1 = (pred - target).abs().mean()
    reg = 1e-4 * torch.exp(model.log_scale).mean()
    return 0.8 * mse + 0.2 * l1 + reg


def main():
    target, coords = make_target(H, W)
    model = GaussianImage(NUM_GAUSSIANS)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    compiled_loss = torch.compile(loss_fn)

    def step():
        opt.zero_grad(set_to_none=True)
        loss = compiled_loss(model, coords, target)
        loss.backward()
        opt.step()
        return loss.detach()

    for _ in range(WARMUP):
        step()

    t0 = time.perf_counter()
    losses = []
    for _ in range(ITERS):
        losses.append(step())
    dt = (time.perf_counter() - t0) / ITERS

    with torch.no_grad():
        psnr = -10 * torch.log10(F.mse_loss(model(coords), target))
    print(f"gaussians={NUM_GAUSSIANS} pixels={H * W}")
    print(f"time per iteration: {dt * 1e3:.2f} ms")
    print(f"loss {losses[0].item():.5f} -> {losses[-1].item():.5f}, psnr {psnr.item():.2f} dB")
    print(f"checksum: {sum(p.double().sum().item() for p in model.parameters()):.5f}")


if __name__ == "__main__":
    main()
