"""Atrous pyramid segmentation head with bilinear upsampling to class maps."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class ASPP(nn.Module):
    def __init__(self, inp=256, ch=128, rates=(6, 12, 18)):
        super().__init__()

        def branch(k, d):
            return nn.Sequential(
                nn.Conv2d(inp, ch, k, padding=0 if k == 1 else d, dilation=d, bias=False),
                nn.BatchNorm2d(ch),
                nn.ReLU(),
            )

        self.branches = nn.ModuleList([branch(1, 1)] + [branch(3, r) for r in rates])
        self.pool = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(inp, ch, 1, bias=False), nn.BatchNorm2d(ch), nn.ReLU()
        )
        self.project = nn.Sequential(nn.Conv2d(ch * 5, ch, 1, bias=False), nn.BatchNorm2d(ch), nn.ReLU())

    def forward(self, x):
        outs = [b(x) for b in self.branches]
        pooled = F.interpolate(self.pool(x), size=x.shape[-2:], mode="bilinear", align_corners=False)
        return self.project(torch.cat(outs + [pooled], 1))


class Segmenter(nn.Module):
    def __init__(self, classes=21):
        super().__init__()
        self.aspp = ASPP()
        self.low = nn.Conv2d(64, 48, 1)
        self.fuse = nn.Sequential(
            nn.Conv2d(176, 128, 3, padding=1), nn.BatchNorm2d(128), nn.ReLU(), nn.Conv2d(128, classes, 1)
        )

    def forward(self, high, low, size):
        x = self.aspp(high)
        x = F.interpolate(x, size=low.shape[-2:], mode="bilinear", align_corners=False)
        x = self.fuse(torch.cat([x, self.low(low)], 1))
        x = F.interpolate(x, size=size, mode="bilinear", align_corners=False)
        return x.argmax(1)


def build(device, compiled):
    torch.manual_seed(0)
    model = Segmenter().to(device).eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    side, n = pick(512, 64), pick(4, 1)
    high = torch.randn(n, 256, side // 16, side // 16, device=device)
    low = torch.randn(n, 64, side // 4, side // 4, device=device)

    @torch.inference_mode()
    def step():
        return model(high, low, (side, side))

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
