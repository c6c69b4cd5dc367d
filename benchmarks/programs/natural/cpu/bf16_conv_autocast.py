"""Small residual CNN under bfloat16 autocast, inference."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class Res(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.a, self.b = nn.Conv2d(ch, ch, 3, padding=1), nn.Conv2d(ch, ch, 3, padding=1)
        self.na, self.nb = nn.GroupNorm(8, ch), nn.GroupNorm(8, ch)

    def forward(self, x):
        return x + self.b(F.silu(self.nb(self.a(F.silu(self.na(x))))))


def build(device, compiled):
    torch.manual_seed(0)
    model = (
        nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1),
            Res(32),
            nn.Conv2d(32, 64, 3, 2, 1),
            Res(64),
            Res(64),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, 10),
        )
        .to(device)
        .eval()
    )
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    side = pick(48, 16)
    x = torch.randn(pick(4, 1), 3, side, side, device=device)

    @torch.no_grad()
    def step():
        with torch.autocast(device, torch.bfloat16):
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
