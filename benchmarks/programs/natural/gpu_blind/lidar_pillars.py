"""Pillar encoder for lidar frames: crop, group, pool, scatter to a BEV map."""

import os
import time

import torch
import torch.nn as nn

device = os.environ.get("DEVICE", "cuda")
SCALE = float(os.environ.get("SCALE", "1"))

POINTS = int(500_000 * SCALE)
GRID = 432
CELL = 0.16
CHANNELS = 64
X0, Y0 = 0.0, -34.56


class PillarEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.point_net = nn.Sequential(
            nn.Linear(9, CHANNELS, bias=False), nn.BatchNorm1d(CHANNELS), nn.ReLU()
        )
        self.backbone = nn.Sequential(
            nn.Conv2d(CHANNELS, CHANNELS, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(CHANNELS),
            nn.ReLU(),
            nn.Conv2d(CHANNELS, 32, 3, padding=1),
            nn.ReLU(),
        )

    def forward(self, points):
        x, y, z = points[:, 0], points[:, 1], points[:, 2]
        extent = GRID * CELL
        keep = (x >= X0) & (x < X0 + extent) & (y >= Y0) & (y < Y0 + extent) & (z > -3) & (z < 1)
        points = points[keep]

        ix = ((points[:, 0] - X0) / CELL).long().clamp(0, GRID - 1)
        iy = ((points[:, 1] - Y0) / CELL).long().clamp(0, GRID - 1)
        cell = iy * GRID + ix
        pillars, inverse, counts = torch.unique(cell, return_inverse=True, return_counts=True)
        n = pillars.shape[0]

        # offsets to the pillar mean and to the cell centre
        sums = torch.zeros(n, 3, device=points.device).index_add_(0, inverse, points[:, :3])
        mean = sums / counts[:, None]
        centre = torch.stack([(ix + 0.5) * CELL + X0, (iy + 0.5) * CELL + Y0], 1)
        feats = torch.cat([points, points[:, :3] - mean[inverse], points[:, :2] - centre], 1)

        feats = self.point_net(feats)
        pooled = torch.zeros(n, CHANNELS, device=points.device)
        pooled = pooled.scatter_reduce(0, inverse[:, None].expand(-1, CHANNELS), feats, "amax")

        canvas = torch.zeros(GRID * GRID, CHANNELS, device=points.device)
        canvas[pillars] = pooled
        bev = canvas.view(1, GRID, GRID, CHANNELS).permute(0, 3, 1, 2)
        return self.backbone(bev), n


def make_frame(n):
    r = 60 * torch.rand(n, device=device) ** 1.5 + 1
    a = (torch.rand(n, device=device) - 0.5) * 2.4
    z = torch.randn(n, device=device) * 0.8 - 1.2
    return torch.stack([r * torch.cos(a), r * torch.sin(a), z, torch.rand(n, device=device)], 1)


def sync():
    if device == "cuda":
        torch.cuda.synchronize()


@torch.no_grad()
def main():
    torch.manual_seed(21)
    model = PillarEncoder().to(device).eval()
    encode = torch.compile(model)
    sizes = [int(POINTS * (0.9 + 0.02 * i)) for i in range(10)]
    frames = [make_frame(n) for n in sizes]

    for f in frames[:5]:
        encode(f)
    sync()
    steps = 60
    pillars = 0
    total = 0.0
    t0 = time.perf_counter()
    for i in range(steps):
        bev, n = encode(frames[i % len(frames)])
        pillars += n
        if i % 20 == 0:
            total += bev.mean().item()
    sync()
    dt = (time.perf_counter() - t0) / steps
    print(f"mean pillars {pillars / steps:.0f}, checksum {total:.5f}")
    print(f"{dt * 1e3:.3f} ms per frame")


if __name__ == "__main__":
    main()
