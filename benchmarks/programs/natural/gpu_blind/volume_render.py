"""Ray marching through a voxel radiance grid; renders a short orbit."""

import math
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

device = os.environ.get("DEVICE", "cuda")
SCALE = float(os.environ.get("SCALE", "1"))

RES = max(16, int(160 * SCALE**0.5))
IMG = max(16, int(160 * SCALE**0.5))
SAMPLES = 96


class VoxelRenderer(nn.Module):
    def __init__(self, res):
        super().__init__()
        self.density = nn.Parameter(torch.randn(1, 1, res, res, res) * 2 - 1)
        self.color = nn.Parameter(torch.randn(1, 3, res, res, res))
        self.near, self.far = 1.5, 4.5
        self.register_buffer("steps", torch.linspace(0, 1, SAMPLES))

    def forward(self, origins, dirs):
        n = origins.shape[0]
        jitter = torch.rand(n, SAMPLES, device=origins.device) / SAMPLES
        t = self.near + (self.far - self.near) * (self.steps + jitter)
        pts = origins[:, None, :] + dirs[:, None, :] * t[..., None]
        inside = (pts.abs() <= 1).all(-1)

        grid = pts.view(1, n, SAMPLES, 1, 3)
        sigma = F.grid_sample(self.density, grid, align_corners=True)[0, 0, :, :, 0]
        rgb = F.grid_sample(self.color, grid, align_corners=True)[0, :, :, :, 0]
        sigma = F.softplus(sigma) * inside
        rgb = torch.sigmoid(rgb)

        delta = torch.cat([t[:, 1:] - t[:, :-1], torch.full_like(t[:, :1], 1e3)], dim=1)
        alpha = 1 - torch.exp(-sigma * delta)
        trans = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], 1), 1)[:, :-1]
        weights = alpha * trans
        image = (weights[None] * rgb).sum(-1)
        acc = weights.sum(-1)
        depth = (weights * t).sum(-1) / acc.clamp(min=1e-6)
        return image + (1 - acc)[None], depth, acc


def camera_rays(angle, size):
    eye = torch.tensor([3 * math.cos(angle), 0.8, 3 * math.sin(angle)], device=device)
    forward = F.normalize(-eye, dim=0)
    up = torch.tensor([0.0, 1.0, 0.0], device=device)
    right = F.normalize(torch.linalg.cross(forward, up), dim=0)
    up = torch.linalg.cross(right, forward)
    u = torch.linspace(-0.4, 0.4, size, device=device)
    v, h = torch.meshgrid(u, u, indexing="ij")
    d = forward + h[..., None] * right - v[..., None] * up
    d = F.normalize(d, dim=-1).reshape(-1, 3)
    return eye.expand_as(d).contiguous(), d


def sync():
    if device == "cuda":
        torch.cuda.synchronize()


@torch.no_grad()
def main():
    torch.manual_seed(3)
    model = VoxelRenderer(RES).to(device).eval()
    render = torch.compile(model)
    views = [camera_rays(2 * math.pi * i / 60, IMG) for i in range(60)]
    for v in views[:3]:
        render(*v)
    sync()
    t0 = time.perf_counter()
    total = torch.zeros((), device=device)
    for o, d in views:
        image, depth, acc = render(o, d)
        total += image.mean() + depth.mean()
    sync()
    dt = (time.perf_counter() - t0) / len(views)
    print(f"checksum {total.item():.4f}, mean opacity {acc.mean().item():.3f}")
    print(f"{dt * 1e3:.3f} ms per frame of {IMG}x{IMG}")


if __name__ == "__main__":
    main()
