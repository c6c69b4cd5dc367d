"""Augments a batch of bytes on the device: crop and resize, flip, jitter, grey, normalise, erase."""

import torch
import torch.nn.functional as F

dev = "cuda"
raw = torch.randint(0, 256, (128, 256, 256, 3), dtype=torch.uint8, device=dev)
mean, std = torch.tensor([0.485, 0.456, 0.406], device=dev), torch.tensor([0.229, 0.224, 0.225], device=dev)


def augment(raw):
    n = raw.shape[0]
    x = raw.permute(0, 3, 1, 2).float() / 255
    scale = 0.6 + 0.4 * torch.rand(n, 1, 1, device=raw.device)
    shift = (torch.rand(n, 1, 2, device=raw.device) - 0.5) * (1 - scale)
    t = torch.linspace(-1, 1, 224, device=raw.device)
    gy, gx = torch.meshgrid(t, t, indexing="ij")
    flip = torch.where(torch.rand(n, 1, device=raw.device) < 0.5, -1.0, 1.0)
    grid = torch.stack(
        [gx[None] * scale * flip[..., None] + shift[..., :1], gy[None] * scale + shift[..., 1:]], -1
    )
    x = F.grid_sample(x, grid, mode="bilinear", padding_mode="reflection", align_corners=False)
    b, c = 0.8 + 0.4 * torch.rand(2, n, 1, 1, 1, device=raw.device)
    x = (x * b - 0.5) * c + 0.5
    grey = (x * torch.tensor([0.299, 0.587, 0.114], device=raw.device)[:, None, None]).sum(1, keepdim=True)
    x = torch.where(torch.rand(n, 1, 1, 1, device=raw.device) < 0.2, grey, x)
    x = (x.clamp(0, 1) - mean[:, None, None]) / std[:, None, None]
    cy, cx = torch.rand(2, n, 1, 1, 1, device=raw.device) * 2 - 1
    hole = ((gy - cy).abs() < 0.2) & ((gx - cx).abs() < 0.2)
    return torch.where(hole, 0, x).to(memory_format=torch.channels_last)


fast = torch.compile(augment)
with torch.no_grad():
    for _ in range(50):
        y = fast(raw)
print(y.mean().item())
