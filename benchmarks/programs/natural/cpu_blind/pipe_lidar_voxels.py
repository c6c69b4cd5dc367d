"""LiDAR sweep preprocessing: crop, ego-motion correction, voxel grid, pillar features."""

import math
import time

import torch

X_RANGE = (-40.0, 40.0)
Y_RANGE = (-40.0, 40.0)
Z_RANGE = (-3.0, 2.0)
VOXEL = 0.4
MAX_POINTS_PER_SWEEP = 90_000
NUM_SWEEPS = 6


def synth_sweep(n, gen):
    r = 3.0 + 55.0 * torch.rand(n, generator=gen) ** 1.6
    az = torch.rand(n, generator=gen) * 2 * math.pi
    el = (torch.randint(0, 32, (n,), generator=gen).float() / 31.0 - 0.75) * 0.4
    xyz = torch.stack(
        [r * torch.cos(el) * torch.cos(az), r * torch.cos(el) * torch.sin(az), r * torch.sin(el)],
        dim=1,
    )
    xyz += 0.03 * torch.randn(n, 3, generator=gen)
    intensity = torch.rand(n, 1, generator=gen) * torch.exp(-r / 40.0)[:, None]
    stamp = (az / (2 * math.pi) * 0.1)[:, None]
    return torch.cat([xyz, intensity, stamp], dim=1)


def deskew(points, velocity, yaw_rate):
    t = points[:, 4]
    ang = yaw_rate * t
    c, s = torch.cos(ang), torch.sin(ang)
    x = c * points[:, 0] - s * points[:, 1] + velocity[0] * t
    y = s * points[:, 0] + c * points[:, 1] + velocity[1] * t
    return torch.stack([x, y, points[:, 2], points[:, 3]], dim=1)


def crop(points):
    x, y, z = points[:, 0], points[:, 1], points[:, 2]
    keep = (x >= X_RANGE[0]) & (x < X_RANGE[1])
    keep &= (y >= Y_RANGE[0]) & (y < Y_RANGE[1])
    keep &= (z >= Z_RANGE[0]) & (z < Z_RANGE[1])
    keep &= (x * x + y * y) > 2.0**2
    return points[keep]


def pillarize(points):
    nx = int((X_RANGE[1] - X_RANGE[0]) / VOXEL)
    ix = ((points[:, 0] - X_RANGE[0]) / VOXEL).long()
    iy = ((points[:, 1] - Y_RANGE[0]) / VOXEL).long()
    key = iy * nx + ix
    uniq, inverse, counts = torch.unique(key, return_inverse=True, return_counts=True)

    centroid = torch.zeros(uniq.numel(), 4)
    centroid.index_add_(0, inverse, points)
    centroid = centroid / counts[:, None]
    zmax = torch.full((uniq.numel(),), -1e9)
    zmax = zmax.scatter_reduce(0, inverse, points[:, 2], reduce="amax")

    offset = points[:, :3] - centroid[inverse, :3]
    spread = torch.zeros(uniq.numel(), 3).index_add_(0, inverse, offset * offset)
    spread = torch.sqrt(spread / counts[:, None])
    feats = torch.cat([centroid, spread, zmax[:, None], torch.log1p(counts.float())[:, None]], dim=1)
    return uniq, feats


def preprocess(points, velocity, yaw_rate):
    pts = crop(deskew(points, velocity, yaw_rate))
    uniq, feats = pillarize(pts)
    feats = (feats - feats.mean(0)) / (feats.std(0) + 1e-5)
    return uniq, feats


def main():
    gen = torch.Generator().manual_seed(5)
    sizes = [MAX_POINTS_PER_SWEEP - 1500 * i for i in range(NUM_SWEEPS)]
    sweeps = [synth_sweep(n, gen) for n in sizes]
    velocity = torch.tensor([8.0, 0.3])
    yaw_rate = torch.tensor(0.12)

    fast_preprocess = torch.compile(preprocess)
    for s in sweeps:
        fast_preprocess(s, velocity, yaw_rate)

    iters = 36
    pillars, acc = 0, 0.0
    t0 = time.perf_counter()
    for i in range(iters):
        uniq, feats = fast_preprocess(sweeps[i % NUM_SWEEPS], velocity, yaw_rate)
        pillars += uniq.numel()
        acc += feats.abs().mean().item()
    dt = (time.perf_counter() - t0) / iters
    print(f"avg pillars per sweep: {pillars / iters:.1f}")
    print(f"{dt * 1e3:.2f} ms per sweep")
    print(f"checksum: {acc:.5f} {pillars}")


if __name__ == "__main__":
    main()
