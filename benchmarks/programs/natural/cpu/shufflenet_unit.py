"""Channel split, grouped and depthwise convolutions with channel shuffle, inference."""

import os

import torch
import torch.nn as nn

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def channel_shuffle(x, groups):
    n, c, h, w = x.shape
    return x.view(n, groups, c // groups, h, w).transpose(1, 2).reshape(n, c, h, w)


class Unit(nn.Module):
    def __init__(self, ch):
        super().__init__()
        half = ch // 2
        self.branch = nn.Sequential(
            nn.Conv2d(half, half, 1, bias=False),
            nn.BatchNorm2d(half),
            nn.ReLU(inplace=True),
            nn.Conv2d(half, half, 3, padding=1, groups=half, bias=False),
            nn.BatchNorm2d(half),
            nn.Conv2d(half, half, 1, bias=False),
            nn.BatchNorm2d(half),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        a, b = x.chunk(2, 1)
        return channel_shuffle(torch.cat([a, self.branch(b)], 1), 2)


def build(device, compiled):
    torch.manual_seed(0)
    model = (
        nn.Sequential(
            nn.Conv2d(3, 116, 3, 2, 1, bias=False),
            nn.BatchNorm2d(116),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
            Unit(116),
            Unit(116),
            Unit(116),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(116, 1000),
        )
        .to(device)
        .eval()
    )
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
