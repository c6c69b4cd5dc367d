"""Deformable convolution by bilinear gathers, inside a small detection neck."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class DeformConv(nn.Module):
    def __init__(self, inp, out, kernel=3):
        super().__init__()
        self.k = kernel
        self.offset = nn.Conv2d(inp, 3 * kernel * kernel, 3, padding=1)
        self.weight = nn.Parameter(torch.randn(out, inp * kernel * kernel) * (inp * kernel**2) ** -0.5)

    def forward(self, x):
        n, c, h, w = x.shape
        kk = self.k * self.k
        dy, dx, m = self.offset(x).view(n, 3, kk, h, w).unbind(1)
        r = torch.arange(self.k, device=x.device) - self.k // 2
        ky, kx = torch.meshgrid(r, r, indexing="ij")
        gy = torch.arange(h, device=x.device).view(1, 1, h, 1) + ky.reshape(1, kk, 1, 1) + dy
        gx = torch.arange(w, device=x.device).view(1, 1, 1, w) + kx.reshape(1, kk, 1, 1) + dx
        y0, x0 = gy.floor(), gx.floor()
        fy, fx = gy - y0, gx - x0
        flat = x.flatten(2)
        total = 0.0
        for oy, wy in ((0, 1 - fy), (1, fy)):
            for ox, wx in ((0, 1 - fx), (1, fx)):
                iy, ix = (y0 + oy).long(), (x0 + ox).long()
                inside = (iy >= 0) & (iy < h) & (ix >= 0) & (ix < w)
                index = (iy.clamp(0, h - 1) * w + ix.clamp(0, w - 1)).view(n, 1, -1).expand(-1, c, -1)
                value = flat.gather(2, index).view(n, c, kk, h, w)
                total = total + value * (wy * wx * inside)[:, None]
        cols = (total * m.sigmoid()[:, None]).view(n, c * kk, h * w)
        return (self.weight @ cols).view(n, -1, h, w)


class Neck(nn.Module):
    def __init__(self, ch=64):
        super().__init__()
        self.d1, self.d2 = DeformConv(ch, ch), DeformConv(ch, ch)
        self.n1, self.n2 = nn.GroupNorm(8, ch), nn.GroupNorm(8, ch)

    def forward(self, x):
        x = F.relu(self.n1(self.d1(x)))
        return F.relu(self.n2(self.d2(x)) + x)


def build(device, compiled):
    torch.manual_seed(0)
    model = Neck().to(device).eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    x = torch.randn(pick(4, 1), 64, pick(96, 8), pick(96, 8), device=device)

    @torch.no_grad()
    def step():
        return model(x)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
