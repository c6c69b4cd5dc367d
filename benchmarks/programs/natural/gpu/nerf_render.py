"""Positional encoding, a small radiance field, importance sampling, volume rendering."""

import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def encode(x, bands):
    f = 2.0 ** torch.arange(bands, device=x.device) * math.pi
    a = (x[..., None] * f).flatten(-2)
    return torch.cat([x, a.sin(), a.cos()], -1)


class Field(nn.Module):
    def __init__(self, hidden=128):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(63, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
        )
        self.sigma, self.color = (
            nn.Linear(hidden, 1),
            nn.Sequential(nn.Linear(hidden + 27, 64), nn.ReLU(), nn.Linear(64, 3)),
        )

    def forward(self, points, dirs):
        h = self.trunk(encode(points, 10))
        d = encode(dirs, 4)[:, None].expand(*h.shape[:-1], 27)
        return F.softplus(self.sigma(h)).squeeze(-1), torch.sigmoid(self.color(torch.cat([h, d], -1)))


def composite(sigma, rgb, z):
    delta = torch.cat([z[:, 1:] - z[:, :-1], torch.full_like(z[:, :1], 1e10)], -1)
    alpha = 1 - torch.exp(-sigma * delta)
    trans = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[:, :-1]
    weight = alpha * trans
    return (weight[..., None] * rgb).sum(1), weight


def sample_pdf(z, weight, n):
    mids = 0.5 * (z[:, 1:] + z[:, :-1])
    pdf = weight[:, 1:-1] + 1e-5
    cdf = (pdf / pdf.sum(-1, keepdim=True)).cumsum(-1)
    cdf = torch.cat([torch.zeros_like(cdf[:, :1]), cdf], -1)
    u = torch.rand(z.shape[0], n, device=z.device)
    i = torch.searchsorted(cdf, u, right=True).clamp(1, cdf.shape[1] - 1)
    c0, c1, m0, m1 = cdf.gather(1, i - 1), cdf.gather(1, i), mids.gather(1, i - 1), mids.gather(1, i)
    return m0 + (u - c0) / (c1 - c0).clamp(min=1e-5) * (m1 - m0)


def render(field, origin, dirs, coarse=48, fine=48):
    z = (
        torch.linspace(2, 6, coarse, device=origin.device)
        + torch.rand(origin.shape[0], coarse, device=origin.device) * 4 / coarse
    )
    sigma, rgb = field(origin[:, None] + dirs[:, None] * z[..., None], dirs)
    _, weight = composite(sigma, rgb, z)
    z = torch.cat([z, sample_pdf(z, weight, fine)], -1).sort(-1).values
    sigma, rgb = field(origin[:, None] + dirs[:, None] * z[..., None], dirs)
    return composite(sigma, rgb, z)[0]


def build(device, compiled):
    torch.manual_seed(0)
    rays = pick(4096, 16)
    field = Field().to(device).eval()
    dirs = F.normalize(torch.randn(rays, 3, device=device), dim=-1)
    origin = torch.zeros(rays, 3, device=device)
    run = torch.compile(render, backend=BACKEND) if compiled else render

    @torch.no_grad()
    def step():
        return run(field, origin, dirs)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
