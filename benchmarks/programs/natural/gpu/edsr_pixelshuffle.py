"""Super-resolution with residual blocks, pixel shuffle and a bicubic skip."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class ResBlock(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.a = nn.Conv2d(ch, ch, 3, padding=1)
        self.b = nn.Conv2d(ch, ch, 3, padding=1)

    def forward(self, x):
        return x + 0.1 * self.b(F.relu(self.a(x)))


class EDSR(nn.Module):
    def __init__(self, ch=64, blocks=4, scale=4):
        super().__init__()
        self.scale = scale
        self.register_buffer("mean", torch.tensor([0.45, 0.44, 0.40]).view(1, 3, 1, 1))
        self.head = nn.Conv2d(3, ch, 3, padding=1)
        self.body = nn.Sequential(*[ResBlock(ch) for _ in range(blocks)])
        self.tail = nn.Sequential(nn.Conv2d(ch, 3 * scale * scale, 3, padding=1), nn.PixelShuffle(scale))

    def forward(self, x):
        y = self.head(x - self.mean)
        y = self.tail(y + self.body(y))
        base = F.interpolate(x, scale_factor=self.scale, mode="bicubic", align_corners=False)
        return (y + base + self.mean).clamp(0, 1)


def build(device, compiled):
    torch.manual_seed(0)
    model = EDSR().to(device).eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    side = pick(192, 24)
    low = torch.rand(pick(4, 1), 3, side, side, device=device)

    @torch.no_grad()
    def step():
        return (model(low) * 255).round().to(torch.uint8)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
