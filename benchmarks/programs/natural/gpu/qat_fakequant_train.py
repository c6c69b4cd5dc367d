"""Quantisation-aware training with straight-through fake quantisation and observers."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class FakeQuant(nn.Module):
    def __init__(self, bits=8, momentum=0.01):
        super().__init__()
        self.levels, self.momentum = 2 ** (bits - 1) - 1, momentum
        self.register_buffer("amax", torch.tensor(1.0))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.amax.lerp_(x.abs().amax(), self.momentum)
        scale = self.amax / self.levels
        q = (x / scale).round().clamp(-self.levels, self.levels) * scale
        return x + (q - x).detach()


class QConv(nn.Conv2d):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.act = FakeQuant()

    def forward(self, x):
        scale = self.weight.detach().abs().amax((1, 2, 3), keepdim=True) / 127
        w = self.weight + ((self.weight / scale).round() * scale - self.weight).detach()
        return F.conv2d(self.act(x), w, self.bias, self.stride, self.padding, self.dilation, self.groups)


def build(device, compiled):
    torch.manual_seed(0)
    model = (
        nn.Sequential(
            QConv(3, 32, 3, 2, 1),
            nn.BatchNorm2d(32),
            nn.ReLU6(),
            QConv(32, 64, 3, 1, 1),
            nn.BatchNorm2d(64),
            nn.ReLU6(),
            QConv(64, 128, 3, 2, 1),
            nn.BatchNorm2d(128),
            nn.ReLU6(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(128, 10),
        )
        .to(device)
        .train()
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True)
    forward = torch.compile(model, backend=BACKEND) if compiled else model
    side = pick(128, 16)
    x = torch.randn(pick(64, 2), 3, side, side, device=device)
    y = torch.randint(10, (x.shape[0],), device=device)

    def step():
        loss = F.cross_entropy(forward(x), y, label_smoothing=0.1)
        optimizer.zero_grad()
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
