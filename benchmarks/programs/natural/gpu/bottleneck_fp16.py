"""Residual bottleneck trunk in half precision, channels last, batch inference."""

import os

import torch
import torch.nn as nn

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class Bottleneck(nn.Module):
    def __init__(self, inp, mid, stride=1):
        super().__init__()
        out = mid * 4
        self.conv1 = nn.Conv2d(inp, mid, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(mid)
        self.conv2 = nn.Conv2d(mid, mid, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(mid)
        self.conv3 = nn.Conv2d(mid, out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.down = None
        if stride != 1 or inp != out:
            self.down = nn.Sequential(nn.Conv2d(inp, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        skip = x if self.down is None else self.down(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return self.relu(self.bn3(self.conv3(x)) + skip)


class Trunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)
        )
        self.body = nn.Sequential(
            Bottleneck(64, 64), Bottleneck(256, 64), Bottleneck(256, 128, 2), Bottleneck(512, 128)
        )
        self.head = nn.Linear(512, 1000)

    def forward(self, x):
        x = self.body(self.stem(x))
        return self.head(x.mean((2, 3)))


def build(device, compiled):
    torch.manual_seed(0)
    model = Trunk().to(device).half().to(memory_format=torch.channels_last).eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    size = pick(224, 32)
    images = (
        torch.randn(pick(64, 2), 3, size, size, device=device)
        .half()
        .contiguous(memory_format=torch.channels_last)
    )

    @torch.inference_mode()
    def step():
        return model(images)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
