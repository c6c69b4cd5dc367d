"""Tiny ViT whose 2-d sine positions come from a cached host function, inference."""

import functools
import os

import torch
import torch.nn as nn

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


@functools.lru_cache(maxsize=16)
def sincos_2d(side, dim, device):
    omega = 1.0 / 10000 ** (torch.arange(dim // 4, device=device) / (dim // 4))
    y, x = torch.meshgrid(torch.arange(side, device=device), torch.arange(side, device=device), indexing="ij")
    parts = []
    for g in (y, x):
        a = g.flatten()[:, None] * omega
        parts += [a.sin(), a.cos()]
    return torch.cat(parts, 1)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        y = self.n1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.n2(x))


class ViT(nn.Module):
    def __init__(self, dim=192, patch=16, depth=2):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, patch)
        self.blocks = nn.ModuleList([Block(dim, 3) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 100)

    def forward(self, x):
        x = self.patch(x)
        x = x.flatten(2).transpose(1, 2) + sincos_2d(x.shape[-1], x.shape[1], x.device)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


def build(device, compiled):
    torch.manual_seed(0)
    model = ViT().to(device).eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    side = pick(160, 32)
    x = torch.randn(pick(2, 1), 3, side, side, device=device)

    @torch.no_grad()
    def step():
        return model(x)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
