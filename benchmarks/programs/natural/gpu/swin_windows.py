"""Shifted-window attention with relative position bias, half precision."""

import os

import torch
import torch.nn as nn

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class WindowAttention(nn.Module):
    def __init__(self, dim, window, heads):
        super().__init__()
        self.heads, self.window = heads, window
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.02)
        c = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        rel = c[:, :, None] - c[:, None] + window - 1
        self.register_buffer("index", rel[0] * (2 * window - 1) + rel[1])

    def forward(self, x, mask):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = (q * (d // self.heads) ** -0.5) @ k.transpose(-1, -2)
        att = att + self.table[self.index.flatten()].view(n, n, -1).permute(2, 0, 1)
        if mask is not None:
            att = (att.view(-1, mask.shape[0], self.heads, n, n) + mask[None, :, None]).view(
                b, self.heads, n, n
            )
        return self.proj((att.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


class SwinBlock(nn.Module):
    def __init__(self, dim, side, window=8, heads=4, shift=0):
        super().__init__()
        self.shift, self.window = shift, window
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, window, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        mask = None
        if shift:
            region = torch.zeros(side, side)
            cuts = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
            for i, a in enumerate(cuts):
                for j, b in enumerate(cuts):
                    region[a, b] = 3 * i + j
            region = self.split(region[None, ..., None]).squeeze(-1)
            mask = (region[:, None] != region[:, :, None]).float() * -100.0
        self.register_buffer("mask", mask)

    def split(self, x):
        b, h, w, c = x.shape
        n = self.window
        return x.view(b, h // n, n, w // n, n, c).transpose(2, 3).reshape(-1, n * n, c)

    def forward(self, x):
        b, h, w, c = x.shape
        y = self.n1(x)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        n = self.window
        y = (
            self.attn(self.split(y), self.mask)
            .view(b, h // n, w // n, n, n, c)
            .transpose(2, 3)
            .reshape(b, h, w, c)
        )
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        x = x + y
        return x + self.mlp(self.n2(x))


def build(device, compiled):
    torch.manual_seed(0)
    side = pick(64, 16)
    model = nn.Sequential(SwinBlock(128, side), SwinBlock(128, side, shift=4)).to(device).half().eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    x = torch.randn(pick(16, 1), side, side, 128, device=device).half()

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
