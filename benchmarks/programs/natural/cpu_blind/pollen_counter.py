"""Pollen grain classifier running behind a flow-imaging sampler.

Grains arrive one at a time from the microscope; every grain is scored on its own
so that the sorter can react.  The network is a small pre-activation ResNet with
weight-standardised convolutions and GroupNorm (trained at batch size 2).
"""

import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

TAXA = ["betula", "alnus", "corylus", "poaceae", "artemisia", "quercus", "debris"]
SIDE = 64


class WSConv2d(nn.Conv2d):
    def forward(self, x):
        w = self.weight
        var, mean = torch.var_mean(w, dim=(1, 2, 3), keepdim=True, unbiased=False)
        w = (w - mean) / torch.sqrt(var + 1e-6)
        w = w * (w[0].numel() ** -0.5)
        return F.conv2d(x, w, self.bias, self.stride, self.padding, self.dilation, self.groups)


class PreActBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.gn1 = nn.GroupNorm(8, cin)
        self.conv1 = WSConv2d(cin, cout, 3, stride, 1, bias=False)
        self.gn2 = nn.GroupNorm(8, cout)
        self.conv2 = WSConv2d(cout, cout, 3, 1, 1, bias=False)
        self.proj = None
        if stride != 1 or cin != cout:
            self.proj = WSConv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.gn1(x))
        short = x if self.proj is None else self.proj(y)
        y = self.conv1(y)
        y = self.conv2(F.relu(self.gn2(y)))
        return y + short


class PollenNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.stem = WSConv2d(1, 32, 5, 2, 2, bias=False)
        self.body = nn.Sequential(
            PreActBlock(32, 64),
            PreActBlock(64, 128, 2),
            PreActBlock(128, 256, 2),
            PreActBlock(256, 256),
        )
        self.norm = nn.GroupNorm(8, 256)
        self.head = nn.Linear(256, classes)

    def forward(self, x):
        x = self.body(self.stem(x))
        x = F.relu(self.norm(x)).mean((2, 3))
        return self.head(x).softmax(-1)


def grain_stream(n, seed=11):
    """Synthetic grains: a bright disc with a textured wall and up to four pores."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:SIDE, 0:SIDE].astype(np.float32)
    for _ in range(n):
        cy, cx = rng.uniform(26, 38, 2)
        r = rng.uniform(12, 24)
        d = np.hypot(yy - cy, xx - cx)
        ang = np.arctan2(yy - cy, xx - cx)
        img = np.exp(-(((d - r) / 2.5) ** 2)) + 0.4 * (d < r)
        pores = rng.integers(0, 5)
        for k in range(pores):
            a = 2 * np.pi * k / max(pores, 1) + rng.uniform(0, 0.3)
            img -= 0.8 * np.exp(-(((d - r) / 3) ** 2) - ((ang - a) / 0.2) ** 2)
        img += rng.normal(0, 0.08, img.shape)
        yield img.astype(np.float32)


@torch.no_grad()
def main():
    torch.manual_seed(0)
    net = PollenNet(len(TAXA)).eval()
    classify = torch.compile(net)

    grains = list(grain_stream(110))
    counts = dict.fromkeys(TAXA, 0)
    lat = []
    for i, img in enumerate(grains):
        x = torch.from_numpy((img - img.mean()) / (img.std() + 1e-6))[None, None]
        t0 = time.perf_counter()
        prob = classify(x)
        lat.append(time.perf_counter() - t0)
        counts[TAXA[int(prob.argmax())]] += 1

    lat = np.array(lat[10:]) * 1e3
    print("counts:", {k: v for k, v in counts.items() if v})
    print(f"latency median {np.median(lat):.2f} ms, p95 {np.percentile(lat, 95):.2f} ms")


if __name__ == "__main__":
    main()
