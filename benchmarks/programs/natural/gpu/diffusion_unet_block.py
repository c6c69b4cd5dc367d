"""Time-conditioned residual blocks with group norm and spatial self-attention."""

import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def timestep_embedding(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(10000) * torch.arange(half, device=t.device) / half)
    args = t[:, None].float() * freqs[None]
    return torch.cat([args.cos(), args.sin()], -1)


class ResBlock(nn.Module):
    def __init__(self, ch, emb):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(32, ch), nn.GroupNorm(32, ch)
        self.conv1, self.conv2 = nn.Conv2d(ch, ch, 3, padding=1), nn.Conv2d(ch, ch, 3, padding=1)
        self.emb = nn.Linear(emb, 2 * ch)

    def forward(self, x, emb):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.emb(F.silu(emb))[..., None, None].chunk(2, 1)
        h = self.norm2(h) * (1 + scale) + shift
        return x + self.conv2(F.silu(h))


class SpatialAttention(nn.Module):
    def __init__(self, ch, heads=4):
        super().__init__()
        self.norm = nn.GroupNorm(32, ch)
        self.qkv = nn.Conv1d(ch, 3 * ch, 1)
        self.proj = nn.Conv1d(ch, ch, 1)
        self.heads = heads

    def forward(self, x):
        b, c, h, w = x.shape
        qkv = self.qkv(self.norm(x).view(b, c, h * w))
        q, k, v = qkv.view(b, 3, self.heads, c // self.heads, h * w).transpose(-1, -2).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v)
        y = y.transpose(-1, -2).reshape(b, c, h * w)
        return x + self.proj(y).view(b, c, h, w)


class Stage(nn.Module):
    def __init__(self, ch=256, emb=512):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(128, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.r1, self.a1, self.r2, self.a2 = (
            ResBlock(ch, emb),
            SpatialAttention(ch),
            ResBlock(ch, emb),
            SpatialAttention(ch),
        )

    def forward(self, x, t):
        emb = self.time(timestep_embedding(t, 128).to(x.dtype))
        x = self.a1(self.r1(x, emb))
        return self.a2(self.r2(x, emb))


def build(device, compiled):
    torch.manual_seed(0)
    model = Stage().to(device, torch.bfloat16).eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    side = pick(32, 8)
    x = torch.randn(pick(16, 2), 256, side, side, device=device, dtype=torch.bfloat16)
    t = torch.randint(1000, (x.shape[0],), device=device)

    @torch.no_grad()
    def step():
        return model(x, t)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
