"""Residual dense blocks with concatenation, bfloat16 autocast, nearest upsampling."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class DenseBlock(nn.Module):
    def __init__(self, ch=64, grow=32):
        super().__init__()
        self.convs = nn.ModuleList(
            [nn.Conv2d(ch + i * grow, grow if i < 4 else ch, 3, padding=1) for i in range(5)]
        )

    def forward(self, x):
        feats = [x]
        for i, conv in enumerate(self.convs):
            y = conv(torch.cat(feats, 1))
            if i < 4:
                feats.append(F.leaky_relu(y, 0.2))
        return y * 0.2 + x


class RRDB(nn.Module):
    def __init__(self, ch=64):
        super().__init__()
        self.blocks = nn.Sequential(DenseBlock(ch), DenseBlock(ch), DenseBlock(ch))

    def forward(self, x):
        return self.blocks(x) * 0.2 + x


class Generator(nn.Module):
    def __init__(self, ch=64):
        super().__init__()
        self.first = nn.Conv2d(3, ch, 3, padding=1)
        self.trunk = RRDB(ch)
        self.up1 = nn.Conv2d(ch, ch, 3, padding=1)
        self.up2 = nn.Conv2d(ch, ch, 3, padding=1)
        self.last = nn.Conv2d(ch, 3, 3, padding=1)

    def forward(self, x):
        x = self.first(x)
        x = x + self.trunk(x)
        x = F.leaky_relu(self.up1(F.interpolate(x, scale_factor=2, mode="nearest")), 0.2)
        x = F.leaky_relu(self.up2(F.interpolate(x, scale_factor=2, mode="nearest")), 0.2)
        return self.last(x)


def build(device, compiled):
    torch.manual_seed(0)
    model = Generator().to(device).eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    side = pick(128, 16)
    x = torch.rand(pick(4, 1), 3, side, side, device=device)

    @torch.no_grad()
    def step():
        with torch.autocast(device, torch.bfloat16):
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
