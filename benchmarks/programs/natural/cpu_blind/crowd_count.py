"""Crowd density estimation on station cameras (CSRNet-like, slimmed down for CPU boxes).

Cameras deliver different resolutions; each frame is run at its own size and the density map
is summed inside the platform polygon mask.
"""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

CAMERAS = {
    "platform_1": (192, 256),
    "platform_2": (208, 256),
    "stairs": (224, 224),
    "concourse": (176, 304),
}


def conv_block(cin, cout, dilation=1):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=dilation, dilation=dilation, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
    )


class ContextGate(nn.Module):
    """Global context re-weighting of the channels."""

    def __init__(self, ch, reduction=4):
        super().__init__()
        self.fc1 = nn.Linear(ch, ch // reduction)
        self.fc2 = nn.Linear(ch // reduction, ch)

    def forward(self, x):
        ctx = x.mean(dim=(2, 3))
        gate = torch.sigmoid(self.fc2(F.relu(self.fc1(ctx))))
        return x * gate[:, :, None, None]


class CrowdNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        w = width
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1))
        self.stage1 = nn.Sequential(conv_block(3, w), conv_block(w, w))
        self.stage2 = nn.Sequential(conv_block(w, 2 * w), conv_block(2 * w, 2 * w))
        self.stage3 = nn.Sequential(conv_block(2 * w, 4 * w), conv_block(4 * w, 4 * w))
        self.pool = nn.MaxPool2d(2)
        self.context = ContextGate(4 * w)
        self.backend = nn.Sequential(
            conv_block(4 * w, 4 * w, dilation=2),
            conv_block(4 * w, 2 * w, dilation=2),
            conv_block(2 * w, w, dilation=2),
        )
        self.head = nn.Conv2d(w, 1, 1)

    def forward(self, frame, mask):
        x = frame.permute(0, 3, 1, 2).float() / 255.0
        x = (x - self.mean) / self.std
        x = self.pool(self.stage1(x))
        x = self.pool(self.stage2(x))
        x = self.context(self.stage3(x))
        density = F.softplus(self.head(self.backend(x)))
        full = F.interpolate(density, size=mask.shape[-2:], mode="bilinear", align_corners=False)
        full = full / 16.0 * mask
        count = full.sum(dim=(1, 2, 3))
        return count, full


def synth_weights(net, seed):
    g = torch.Generator().manual_seed(seed)
    for m in net.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.copy_(0.1 * torch.randn(m.num_features, generator=g))
            m.running_var.copy_(0.5 + torch.rand(m.num_features, generator=g))
    nn.init.constant_(net.head.bias, -3.0)


def platform_mask(h, w):
    yy, xx = torch.meshgrid(torch.linspace(0, 1, h), torch.linspace(0, 1, w), indexing="ij")
    inside = (yy > 0.3) & (xx > 0.15 * yy) & (xx < 1.0 - 0.2 * yy)
    return inside.float()[None, None]


def grab(name, gen):
    h, w = CAMERAS[name]
    return torch.randint(0, 256, (1, h, w, 3), generator=gen, dtype=torch.uint8)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rounds", type=int, default=12)
    ap.add_argument("--width", type=int, default=16)
    args = ap.parse_args()

    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    net = CrowdNet(args.width)
    synth_weights(net, 2)
    net.eval()
    counter = torch.compile(net)

    names = list(CAMERAS)
    masks = {n: platform_mask(*CAMERAS[n]) for n in names}
    for n in names:
        counter(grab(n, gen), masks[n])

    smoothed = {n: None for n in names}
    spent = 0.0
    frames = 0
    for _ in range(args.rounds):
        for n in names:
            frame = grab(n, gen)
            t0 = time.perf_counter()
            count, density = counter(frame, masks[n])
            c = count.item()
            spent += time.perf_counter() - t0
            smoothed[n] = c if smoothed[n] is None else 0.8 * smoothed[n] + 0.2 * c
            frames += 1

    for n in names:
        print(f"{n:12s} {smoothed[n]:8.2f} people")
    print(f"{frames} frames, {spent / frames * 1e3:.1f} ms per frame")


if __name__ == "__main__":
    main()
