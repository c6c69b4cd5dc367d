"""Correlation pyramid and its lookup around the current flow, with convex upsampling."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def correlation_pyramid(a, b, levels=3):
    n, c, h, w = a.shape
    corr = torch.einsum("ncp,ncq->npq", a.flatten(2), b.flatten(2)) / c**0.5
    corr = corr.view(n * h * w, 1, h, w)
    pyramid = [corr]
    for _ in range(levels - 1):
        corr = F.avg_pool2d(corr, 2, 2)
        pyramid.append(corr)
    return pyramid


def lookup(pyramid, coords, radius=4):
    n, _, h, w = coords.shape
    r = torch.linspace(-radius, radius, 2 * radius + 1, device=coords.device)
    delta = torch.stack(torch.meshgrid(r, r, indexing="ij"), -1).view(1, 2 * radius + 1, 2 * radius + 1, 2)
    out = []
    for i, corr in enumerate(pyramid):
        centre = coords.permute(0, 2, 3, 1).reshape(n * h * w, 1, 1, 2) / 2**i
        grid = centre + delta
        ch, cw = corr.shape[-2:]
        grid = torch.stack([2 * grid[..., 0] / (cw - 1) - 1, 2 * grid[..., 1] / (ch - 1) - 1], -1)
        out.append(F.grid_sample(corr, grid, align_corners=True).view(n, h, w, -1))
    return torch.cat(out, -1).permute(0, 3, 1, 2).contiguous()


def upsample_flow(flow, mask):
    n, _, h, w = flow.shape
    mask = mask.view(n, 1, 9, 8, 8, h, w).softmax(2)
    up = F.unfold(8 * flow, 3, padding=1).view(n, 2, 9, 1, 1, h, w)
    return (mask * up).sum(2).permute(0, 1, 4, 2, 5, 3).reshape(n, 2, 8 * h, 8 * w)


class Update(nn.Module):
    def __init__(self, planes=3 * 81):
        super().__init__()
        self.conv = nn.Conv2d(planes + 2, 128, 3, padding=1)
        self.flow, self.mask = nn.Conv2d(128, 2, 3, padding=1), nn.Conv2d(128, 576, 1)

    def forward(self, a, b, coords, base):
        corr = lookup(correlation_pyramid(a, b), coords)
        h = F.relu(self.conv(torch.cat([corr, coords - base], 1)))
        coords = coords + self.flow(h)
        return upsample_flow(coords - base, 0.25 * self.mask(h))


def build(device, compiled):
    torch.manual_seed(0)
    n, h, w = pick(2, 1), pick(46, 8), pick(62, 12)
    model = Update().to(device).eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    a, b = torch.randn(2, n, 128, h, w, device=device)
    base = (
        torch.stack(torch.meshgrid(torch.arange(w), torch.arange(h), indexing="xy"))
        .float()
        .to(device)[None]
        .repeat(n, 1, 1, 1)
    )
    coords = base + torch.randn_like(base)

    @torch.no_grad()
    def step():
        return model(a, b, coords, base)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
