"""Inverted residuals with squeeze-and-excite and hard swish, float32 inference."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class SqueezeExcite(nn.Module):
    def __init__(self, ch, reduce=4):
        super().__init__()
        self.fc1 = nn.Conv2d(ch, ch // reduce, 1)
        self.fc2 = nn.Conv2d(ch // reduce, ch, 1)

    def forward(self, x):
        s = F.adaptive_avg_pool2d(x, 1)
        s = F.hardsigmoid(self.fc2(F.relu(self.fc1(s))))
        return x * s


def conv_bn(inp, out, kernel, stride=1, groups=1, act=True):
    layers = [
        nn.Conv2d(inp, out, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(out),
    ]
    if act:
        layers.append(nn.Hardswish())
    return nn.Sequential(*layers)


class InvertedResidual(nn.Module):
    def __init__(self, inp, out, expand, kernel, stride):
        super().__init__()
        mid = inp * expand
        self.body = nn.Sequential(
            conv_bn(inp, mid, 1),
            conv_bn(mid, mid, kernel, stride, groups=mid),
            SqueezeExcite(mid),
            conv_bn(mid, out, 1, act=False),
        )
        self.skip = stride == 1 and inp == out

    def forward(self, x):
        y = self.body(x)
        return x + y if self.skip else y


def build(device, compiled):
    torch.manual_seed(0)
    model = (
        nn.Sequential(
            conv_bn(3, 16, 3, 2),
            InvertedResidual(16, 24, 4, 3, 2),
            InvertedResidual(24, 24, 3, 3, 1),
            InvertedResidual(24, 40, 4, 5, 2),
            InvertedResidual(40, 40, 4, 5, 1),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(40, 1000),
        )
        .to(device)
        .eval()
    )
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    side = pick(224, 32)
    x = torch.randn(pick(64, 2), 3, side, side, device=device)

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
