"""Conformer feed-forward and convolution modules, bfloat16."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class ConvModule(nn.Module):
    def __init__(self, dim, kernel=31):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.pw1 = nn.Conv1d(dim, 2 * dim, 1)
        self.dw = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.bn = nn.BatchNorm1d(dim)
        self.pw2 = nn.Conv1d(dim, dim, 1)

    def forward(self, x, mask):
        y = self.norm(x).transpose(1, 2)
        y = F.glu(self.pw1(y), dim=1)
        y = y.masked_fill(mask[:, None], 0.0)
        y = F.silu(self.bn(self.dw(y)))
        return x + self.pw2(y).transpose(1, 2)


class FeedForward(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim)
        )

    def forward(self, x):
        return x + 0.5 * self.net(x)


class Layer(nn.Module):
    def __init__(self, dim=512):
        super().__init__()
        self.ff1, self.conv, self.ff2 = FeedForward(dim), ConvModule(dim), FeedForward(dim)
        self.final = nn.LayerNorm(dim)

    def forward(self, x, mask):
        return self.final(self.ff2(self.conv(self.ff1(x), mask)))


class Encoder(nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range(depth)])

    def forward(self, x, lengths):
        mask = torch.arange(x.shape[1], device=x.device)[None] >= lengths[:, None]
        for layer in self.layers:
            x = layer(x, mask)
        return x


def build(device, compiled):
    torch.manual_seed(0)
    model = Encoder().to(device, torch.bfloat16).eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    n, frames = pick(16, 2), pick(800, 32)
    x = torch.randn(n, frames, 512, device=device, dtype=torch.bfloat16)
    lengths = torch.randint(frames // 2, frames, (n,), device=device)

    @torch.no_grad()
    def step():
        return model(x, lengths)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
