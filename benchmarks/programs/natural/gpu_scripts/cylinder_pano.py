"""Warps frames onto a cylinder and blends neighbours by feathered weights."""

import torch
import torch.nn.functional as F

dev = "cuda"
frames = torch.rand(6, 3, 1080, 1440, device=dev)
yy, xx = torch.meshgrid(
    torch.linspace(-1, 1, 1080, device=dev), torch.linspace(-1, 1, 1440, device=dev), indexing="ij"
)


def warp(frames, focal):
    theta = torch.atan(xx / focal)
    gx = torch.tan(theta)
    gy = yy * (1 + gx * gx).sqrt()
    grid = torch.stack([gx, gy], -1).expand(frames.shape[0], -1, -1, -1)
    out = F.grid_sample(frames, grid, mode="bilinear", padding_mode="border", align_corners=False)
    weight = (1 - xx.abs()).clamp(0, 1) * (1 - yy.abs()).clamp(0, 1)
    out = out * weight
    pano = torch.zeros(3, 1080, 1440 + 5 * 720, device=dev)
    norm = torch.zeros(1080, 1440 + 5 * 720, device=dev)
    for k in range(frames.shape[0]):
        pano[:, :, k * 720 : k * 720 + 1440] += out[k]
        norm[:, k * 720 : k * 720 + 1440] += weight
    return pano / (norm + 1e-6)


fast = torch.compile(warp)
with torch.no_grad():
    for _ in range(60):
        p = fast(frames, 0.8)
print(p.mean().item())
