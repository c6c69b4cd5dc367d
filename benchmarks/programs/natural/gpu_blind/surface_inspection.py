"""Visual inspection of parts on a line: patch features against a memory bank of good parts."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(8)

IMAGE = 64 if SMOKE else 256
BATCH = 2 if SMOKE else 8
BANK = 200 if SMOKE else 16384
N_FRAMES = 6 if SMOKE else 100
REWEIGHT = 9


class ConvBlock(nn.Module):
    def __init__(self, n_in, n_out, stride):
        super().__init__()
        self.dw = nn.Conv2d(n_in, n_in, 5, stride, 2, groups=n_in, bias=False)
        self.bn = nn.BatchNorm2d(n_in)
        self.up = nn.Conv2d(n_in, 3 * n_out, 1)
        self.down = nn.Conv2d(3 * n_out, n_out, 1)
        self.skip = n_in == n_out and stride == 1

    def forward(self, x):
        y = self.down(F.gelu(self.up(self.bn(self.dw(x)))))
        return x + y if self.skip else y


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 48, 4, 4), nn.BatchNorm2d(48))
        self.mid = nn.Sequential(ConvBlock(48, 128, 2), ConvBlock(128, 128, 1), ConvBlock(128, 128, 1))
        self.deep = nn.Sequential(ConvBlock(128, 256, 2), ConvBlock(256, 256, 1), ConvBlock(256, 256, 1))

    def forward(self, image):
        mid = self.mid(self.stem(image))
        deep = self.deep(mid)
        mid, deep = F.avg_pool2d(mid, 3, 1, 1), F.avg_pool2d(deep, 3, 1, 1)
        deep = F.interpolate(deep, size=mid.shape[-2:], mode="bilinear", align_corners=False)
        return torch.cat([mid, deep], 1)


class Inspector(nn.Module):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        self.register_buffer("mean", torch.zeros(384))
        self.register_buffer("std", torch.ones(384))
        self.register_buffer("bank", torch.zeros(BANK, 384))
        x = torch.arange(-12, 13).float()
        blur = torch.exp(-0.5 * (x / 4.0) ** 2)
        self.register_buffer("blur", (blur / blur.sum()).view(1, 1, -1))

    def patches(self, image):
        f = self.backbone(image).flatten(2).transpose(1, 2)
        return (f - self.mean) / self.std

    @torch.no_grad()
    def fit(self, images):
        f = torch.cat([self.patches(im) for im in images.split(BATCH)]).flatten(0, 1)
        self.mean.copy_(f.mean(0))
        self.std.copy_(f.std(0) + 1e-3)
        f = (f - self.mean) / self.std
        self.bank.copy_(f[torch.randperm(f.shape[0], device=f.device)[:BANK]])

    def nearest(self, f):
        return torch.cdist(f, self.bank).min(1)

    def forward(self, image):
        f = self.patches(image)
        b, n, c = f.shape
        dist, idx = self.nearest(f.reshape(b * n, c))
        dist, idx = dist.view(b, n), idx.view(b, n)
        worst, where = dist.max(1)
        anchor = self.bank[idx.gather(1, where[:, None]).squeeze(1)]
        support = torch.cdist(anchor, self.bank).topk(REWEIGHT, dim=1, largest=False).indices
        test = f[torch.arange(b, device=f.device), where]
        d_support = (test[:, None] - self.bank[support]).norm(dim=-1)
        weight = 1 - 1 / torch.exp(d_support - worst[:, None]).sum(1).clamp_min(1.0)
        side = int(n**0.5)
        heat = dist.view(b, 1, side, side)
        heat = F.interpolate(heat, size=image.shape[-2:], mode="bilinear", align_corners=False)
        heat = F.conv2d(heat, self.blur[:, :, None], padding=(0, 12))
        heat = F.conv2d(heat, self.blur[..., None], padding=(12, 0))
        return weight * worst, heat.squeeze(1)


def brushed_metal(n):
    noise = torch.randn(n, 3, IMAGE, IMAGE, device=device)
    streaks = F.avg_pool2d(F.pad(noise, (15, 15, 0, 0), mode="reflect"), (1, 31), stride=1)
    shade = torch.linspace(-0.5, 0.5, IMAGE, device=device)
    return 1.5 * streaks + shade[:, None] * torch.rand(n, 1, 1, 1, device=device)


def add_scratch(image):
    y, x = torch.meshgrid(*(torch.arange(IMAGE, device=device).float(),) * 2, indexing="ij")
    k = torch.rand(image.shape[0], 3, device=device)
    line = (y[None] - IMAGE * k[:, 0, None, None] - (k[:, 1, None, None] - 0.5) * x[None]).abs()
    return image + 1.2 * (line < 2.0).float()[:, None]


def main():
    backbone = Backbone().to(device).eval()
    inspector = Inspector(backbone).to(device).eval()
    inspector.fit(brushed_metal(8 if SMOKE else 64))
    inspect = torch.compile(inspector)
    good = [brushed_metal(BATCH) for _ in range(2)]
    frames = good + [add_scratch(brushed_metal(BATCH)) for _ in range(2)]

    scores = {0: [], 1: []}
    events = []
    with torch.no_grad():
        for i in range(N_FRAMES):
            if device == "cuda":
                start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                start.record()
            score, heat = inspect(frames[i % 4])
            if device == "cuda":
                end.record()
                events.append((start, end))
            scores[(i % 4) // 2].append(score)
    good_score, bad_score = torch.cat(scores[0]), torch.cat(scores[1])
    print(
        f"good {good_score.mean().item():.4f} +- {good_score.std().item():.4f}   "
        f"scratched {bad_score.mean().item():.4f}   hottest {heat.max().item():.4f}"
    )
    if events:
        torch.cuda.synchronize()
        ms = sorted(a.elapsed_time(b) for a, b in events[20:])
        print(f"median {ms[len(ms) // 2]:.3f} ms per batch of {BATCH} images")


if __name__ == "__main__":
    main()
