"""Surface inspection of machined parts with a PatchCore-style memory bank.

Features of normal parts are collected once (coreset by random projection and
greedy selection), then camera frames are scored by the distance of each patch
to its nearest neighbours in the bank.
"""

import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.short = nn.Identity()
        if stride != 1 or cin != cout:
            self.short = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + self.short(x))


class Backbone(nn.Module):
    """First three stages of a slim ResNet, features of stages 2 and 3."""

    def __init__(self, width=24):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.stage1 = Block(width, width, 1)
        self.stage2 = nn.Sequential(Block(width, 2 * width, 2), Block(2 * width, 2 * width, 1))
        self.stage3 = nn.Sequential(Block(2 * width, 4 * width, 2), Block(4 * width, 4 * width, 1))

    def forward(self, x):
        x = self.stage1(self.pool(self.stem(x)))
        f2 = self.stage2(x)
        f3 = self.stage3(f2)
        return f2, f3


class PatchInspector(nn.Module):
    def __init__(self, backbone, neighbours=5):
        super().__init__()
        self.backbone = backbone
        self.neighbours = neighbours
        self.register_buffer("bank", torch.empty(0))

    def patch_features(self, frames):
        x = (frames.float() / 255.0 - MEAN) / STD
        f2, f3 = self.backbone(x)
        f2 = F.avg_pool2d(f2, 3, 1, 1)
        f3 = F.avg_pool2d(f3, 3, 1, 1)
        f3 = F.interpolate(f3, size=f2.shape[-2:], mode="bilinear", align_corners=False)
        return torch.cat([f2, f3], dim=1)  # (B, C, h, w)

    def forward(self, frames):
        feat = self.patch_features(frames)
        b, c, h, w = feat.shape
        patches = feat.permute(0, 2, 3, 1).reshape(-1, c)
        dist = torch.cdist(patches, self.bank)
        near, idx = dist.topk(self.neighbours, largest=False)

        # image score re-weighted by how typical the nearest bank entry is
        amap = near[:, 0].view(b, h * w)
        score, worst = amap.max(dim=1)
        rows = near.view(b, h * w, -1)[torch.arange(b), worst]
        weight = 1 - torch.softmax(rows, dim=1)[:, 0]
        amap = F.interpolate(amap.view(b, 1, h, w), scale_factor=8, mode="bilinear", align_corners=False)
        kernel = torch.ones(1, 1, 9, 9) / 81
        amap = F.conv2d(amap, kernel, padding=4)
        return score * weight, amap[:, 0]


@torch.no_grad()
def greedy_coreset(features, size, gen):
    proj = features @ torch.randn(features.shape[1], 32, generator=gen) / 32**0.5
    chosen = [0]
    best = (proj - proj[0]).pow(2).sum(1)
    for _ in range(size - 1):
        i = int(best.argmax())
        chosen.append(i)
        best = torch.minimum(best, (proj - proj[i]).pow(2).sum(1))
    return features[chosen]


def camera_frames(n, size, gen, defect=False):
    """Brushed-metal texture; defective frames get a scratch."""
    grain = torch.randn(n, 1, size, 1, generator=gen) * 18 + torch.randn(n, 3, size, size, generator=gen) * 6
    ramp = torch.linspace(-20, 20, size).view(1, 1, 1, size)
    img = 128 + grain + ramp
    if defect:
        for k in range(n):
            y = int(torch.randint(20, size - 20, (1,), generator=gen))
            x = int(torch.randint(20, size - 60, (1,), generator=gen))
            img[k, :, y : y + 4, x : x + 40] += 90
    return img.clamp(0, 255).to(torch.uint8)


@torch.no_grad()
def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--size", type=int, default=224)
    ap.add_argument("--batch", type=int, default=2, help="cameras triggered together")
    ap.add_argument("--bank", type=int, default=2048)
    ap.add_argument("--triggers", type=int, default=40)
    args = ap.parse_args()
    torch.manual_seed(5)
    gen = torch.Generator().manual_seed(5)

    model = PatchInspector(Backbone()).eval()
    feats = []
    for _ in range(6):
        f = model.patch_features(camera_frames(4, args.size, gen))
        feats.append(f.permute(0, 2, 3, 1).reshape(-1, f.shape[1]))
    model.bank = greedy_coreset(torch.cat(feats), args.bank, gen)

    inspect = torch.compile(model, mode="max-autotune")
    good = [camera_frames(args.batch, args.size, gen) for _ in range(args.triggers // 2)]
    bad = [camera_frames(args.batch, args.size, gen, defect=True) for _ in range(args.triggers // 2)]
    for _ in range(3):
        inspect(good[0])

    t0 = time.perf_counter()
    s_good = torch.cat([inspect(f)[0] for f in good])
    s_bad = torch.cat([inspect(f)[0] for f in bad])
    dt = time.perf_counter() - t0

    auroc = (s_bad[:, None] > s_good[None, :]).float().mean().item()
    print(
        f"bank {tuple(model.bank.shape)}, good {s_good.mean():.3f}, defective {s_bad.mean():.3f}, AUROC {auroc:.3f}"
    )
    print(
        f"{2 * len(good)} triggers x {args.batch} frames in {dt:.2f} s ({1e3 * dt / (2 * len(good)):.1f} ms per trigger)"
    )


if __name__ == "__main__":
    main()
