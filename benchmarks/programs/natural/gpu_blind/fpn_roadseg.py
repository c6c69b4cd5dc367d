"""Road-scene segmentation with a small separable-conv feature pyramid, SGD training."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

device = os.environ.get("DEVICE", "cuda")
SCALE = float(os.environ.get("SCALE", "1"))

BATCH = 8
SIZE = max(64, int(384 * SCALE**0.5) // 32 * 32)
CLASSES = 19


class Separable(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.dw = nn.Conv2d(cin, cin, 3, stride, 1, groups=cin, bias=False)
        self.bn1 = nn.BatchNorm2d(cin)
        self.pw = nn.Conv2d(cin, cout, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.skip = stride == 1 and cin == cout

    def forward(self, x):
        y = F.hardswish(self.bn1(self.dw(x)))
        y = self.bn2(self.pw(y))
        return F.hardswish(x + y if self.skip else y)


class RoadSeg(nn.Module):
    def __init__(self, widths=(32, 64, 128, 192), fpn=96):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.Hardswish())
        stages, cin = [], 32
        for w in widths:
            stages.append(nn.Sequential(Separable(cin, w, 2), Separable(w, w), Separable(w, w)))
            cin = w
        self.stages = nn.ModuleList(stages)
        self.lateral = nn.ModuleList([nn.Conv2d(w, fpn, 1) for w in widths])
        self.smooth = nn.ModuleList([Separable(fpn, fpn) for _ in widths])
        self.head = nn.Conv2d(fpn, CLASSES, 1)

    def forward(self, x):
        size = x.shape[-2:]
        x = self.stem(x)
        feats = []
        for s in self.stages:
            x = s(x)
            feats.append(x)
        top = None
        merged = 0
        for i in range(len(feats) - 1, -1, -1):
            lat = self.lateral[i](feats[i])
            if top is not None:
                lat = lat + F.interpolate(top, size=lat.shape[-2:], mode="bilinear", align_corners=False)
            top = self.smooth[i](lat)
            merged = merged + F.interpolate(
                top, size=feats[0].shape[-2:], mode="bilinear", align_corners=False
            )
        return F.interpolate(self.head(merged), size=size, mode="bilinear", align_corners=False)


def sync():
    if device == "cuda":
        torch.cuda.synchronize()


def main():
    torch.manual_seed(0)
    model = RoadSeg().to(device, memory_format=torch.channels_last)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    net = torch.compile(model)

    images = torch.rand(4, BATCH, 3, SIZE, SIZE, device=device)
    labels = (images.mean(2) * CLASSES).long().clamp(0, CLASSES - 1)
    labels[torch.rand(labels.shape, device=device) < 0.05] = 255

    def step(i):
        x = images[i % 4].contiguous(memory_format=torch.channels_last)
        if i % 2:
            x = x.flip(-1)
        y = labels[i % 4].flip(-1) if i % 2 else labels[i % 4]
        with torch.autocast(device_type=device, dtype=torch.bfloat16):
            logits = net(x)
            loss = F.cross_entropy(logits.float(), y, ignore_index=255)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return loss.detach()

    for i in range(4):
        step(i)
    sync()
    steps = 60
    t0 = time.perf_counter()
    losses = [step(i) for i in range(steps)]
    sync()
    dt = (time.perf_counter() - t0) / steps
    print(f"loss {losses[0].item():.4f} -> {losses[-1].item():.4f}")
    print(f"{dt * 1e3:.3f} ms per step, {BATCH / dt:.1f} images/s")


if __name__ == "__main__":
    main()
