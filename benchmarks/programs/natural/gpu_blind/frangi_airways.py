"""Multi-scale Frangi vesselness of a breathing series of chest CT volumes."""

import math
import os
import time

import torch
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
DEVICE = "cpu" if SMOKE else "cuda"
SIDE = 24 if SMOKE else 192
PHASES = 4 if SMOKE else 80
SCALES = (1.0, 1.8, 3.0)
ALPHA, BETA = 0.5, 0.5


def gaussian_kernel(sigma, device):
    half = int(3 * sigma + 0.5)
    x = torch.arange(-half, half + 1, device=device, dtype=torch.float32)
    k = torch.exp(-0.5 * (x / sigma) ** 2)
    return k / k.sum()


def smooth(volume, sigma):
    k = gaussian_kernel(sigma, volume.device)
    half = k.numel() // 2
    x = F.pad(volume[None, None], (half,) * 6, mode="replicate")
    x = F.conv3d(x, k.view(1, 1, -1, 1, 1))
    x = F.conv3d(x, k.view(1, 1, 1, -1, 1))
    x = F.conv3d(x, k.view(1, 1, 1, 1, -1))
    return x[0, 0]


def hessian(volume, sigma):
    s = smooth(volume, sigma)
    gz, gy, gx = torch.gradient(s)
    hzz, hzy, hzx = torch.gradient(gz)
    hyy, hyx = torch.gradient(gy, dim=(1, 2))
    (hxx,) = torch.gradient(gx, dim=(2,))
    scale = sigma**2
    return [scale * h for h in (hxx, hyy, hzz, hyx, hzx, hzy)]


def symmetric_eigenvalues(a11, a22, a33, a12, a13, a23):
    q = (a11 + a22 + a33) / 3
    p1 = a12**2 + a13**2 + a23**2
    p2 = (a11 - q) ** 2 + (a22 - q) ** 2 + (a33 - q) ** 2 + 2 * p1
    p = torch.sqrt(p2 / 6).clamp(min=1e-12)
    b11, b22, b33 = (a11 - q) / p, (a22 - q) / p, (a33 - q) / p
    b12, b13, b23 = a12 / p, a13 / p, a23 / p
    det = b11 * (b22 * b33 - b23 * b23) - b12 * (b12 * b33 - b23 * b13) + b13 * (b12 * b23 - b22 * b13)
    phi = torch.acos((det / 2).clamp(-1, 1)) / 3
    e1 = q + 2 * p * torch.cos(phi)
    e3 = q + 2 * p * torch.cos(phi + 2 * math.pi / 3)
    return e1, 3 * q - e1 - e3, e3


def sort_by_magnitude(e1, e2, e3):
    eig = torch.stack([e1, e2, e3])
    order = eig.abs().argsort(dim=0)
    return eig.gather(0, order).unbind(0)


def vesselness(volume, sigma):
    l1, l2, l3 = sort_by_magnitude(*symmetric_eigenvalues(*hessian(volume, sigma)))
    ra = l2.abs() / (l3.abs() + 1e-8)
    rb = l1.abs() / torch.sqrt((l2 * l3).abs() + 1e-8)
    s = torch.sqrt(l1**2 + l2**2 + l3**2)
    c = 0.5 * s.max()
    response = (
        (1 - torch.exp(-(ra**2) / (2 * ALPHA**2)))
        * torch.exp(-(rb**2) / (2 * BETA**2))
        * (1 - torch.exp(-(s**2) / (2 * c**2)))
    )
    return torch.where((l2 > 0) & (l3 > 0), response, torch.zeros_like(response))


@torch.compile
def airway_map(volume, lung):
    windowed = ((volume + 1000) / 1200).clamp(0, 1)
    best = torch.zeros_like(windowed)
    label = torch.zeros_like(windowed, dtype=torch.int8)
    for i, sigma in enumerate(SCALES):
        v = vesselness(windowed, sigma) * lung
        label = torch.where(v > best, i + 1, label)
        best = torch.maximum(best, v)
    return best, label


def coordinates():
    axis = torch.linspace(-1, 1, SIDE, device=DEVICE)
    return torch.meshgrid(axis, axis, axis, indexing="ij")


def make_phantom(grid, phase):
    z, y, x = grid
    stretch = 1 + 0.05 * math.sin(2 * math.pi * phase)
    z = z * stretch
    volume = torch.full_like(z, 40.0)
    lung = ((x.abs() - 0.45) / 0.38) ** 2 + (y / 0.7) ** 2 + (z / 0.9) ** 2 < 1
    volume[lung] = -820.0
    for branch in range(10):
        side = 1 if branch % 2 else -1
        slope = 0.15 + 0.08 * branch
        radius = 0.05 / (1 + 0.35 * (branch // 2))
        centre_x = side * (0.12 + slope * (z + 1) / 2)
        centre_y = 0.2 * torch.sin(3 * z + branch)
        tube = (x - centre_x) ** 2 + (y - centre_y) ** 2
        volume = torch.where(tube < (1.5 * radius) ** 2, torch.full_like(z, -550.0), volume)
        volume = torch.where(tube < radius**2, torch.full_like(z, -980.0), volume)
    return volume + 25 * torch.randn_like(volume), lung


def main():
    torch.manual_seed(21)
    grid = coordinates()
    total, counts = [], torch.zeros(len(SCALES) + 1, device=DEVICE)
    start = time.time()
    for i in range(PHASES):
        volume, lung = make_phantom(grid, i / PHASES)
        best, label = airway_map(volume, lung)
        selected = label[best > 0.15]
        counts += torch.bincount(selected.int(), minlength=len(SCALES) + 1)
        total.append((best > 0.15).float().mean())
    fraction = torch.stack(total)
    print(
        f"airway fraction mean {fraction.mean().item():.4f} range {(fraction.max() - fraction.min()).item():.4f}"
    )
    print("voxels per scale", [int(c) for c in counts[1:]])
    print(f"{PHASES} phases in {time.time() - start:.1f} s")


if __name__ == "__main__":
    main()
