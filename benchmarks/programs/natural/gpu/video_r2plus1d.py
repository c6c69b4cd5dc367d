"""Factorised 3-d convolutions over clips, batch norm, training with autocast."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class Conv2Plus1D(nn.Sequential):
    def __init__(self, inp, out, stride=1):
        mid = (inp * out * 27) // (inp * 9 + 3 * out)
        super().__init__(
            nn.Conv3d(inp, mid, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False),
            nn.BatchNorm3d(mid),
            nn.ReLU(inplace=True),
            nn.Conv3d(mid, out, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias=False),
        )


class Block(nn.Module):
    def __init__(self, inp, out, stride=1):
        super().__init__()
        self.c1, self.b1 = Conv2Plus1D(inp, out, stride), nn.BatchNorm3d(out)
        self.c2, self.b2 = Conv2Plus1D(out, out), nn.BatchNorm3d(out)
        self.skip = (
            nn.Identity()
            if stride == 1
            else nn.Sequential(nn.Conv3d(inp, out, 1, stride, bias=False), nn.BatchNorm3d(out))
        )

    def forward(self, x):
        y = F.relu(self.b1(self.c1(x)))
        return F.relu(self.b2(self.c2(y)) + self.skip(x))


def build(device, compiled):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv3d(3, 32, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False),
        nn.BatchNorm3d(32),
        nn.ReLU(),
        Block(32, 32),
        Block(32, 64, 2),
        nn.AdaptiveAvgPool3d(1),
        nn.Flatten(),
        nn.Linear(64, 51),
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    forward = torch.compile(model, backend=BACKEND) if compiled else model
    side = pick(96, 16)
    clips = torch.randn(pick(4, 1), 3, pick(16, 4), side, side, device=device)
    labels = torch.randint(51, (clips.shape[0],), device=device)

    def step():
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16):
            loss = F.cross_entropy(forward(clips), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
