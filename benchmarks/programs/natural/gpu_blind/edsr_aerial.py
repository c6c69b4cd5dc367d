"""Train an EDSR-baseline x2 super-resolution network on aerial image patches."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = "cpu" if os.environ.get("SMOKE") else "cuda"
SMOKE = DEVICE == "cpu"
BATCH = 2 if SMOKE else 32
PATCH = 16 if SMOKE else 96
STEPS = 3 if SMOKE else 60
BLOCKS = 2 if SMOKE else 16
FEATS = 64
SCALE = 2


class ResBlock(nn.Module):
    def __init__(self, ch, res_scale=0.1):
        super().__init__()
        self.conv1 = nn.Conv2d(ch, ch, 3, padding=1)
        self.conv2 = nn.Conv2d(ch, ch, 3, padding=1)
        self.res_scale = res_scale

    def forward(self, x):
        return x + self.res_scale * self.conv2(F.relu(self.conv1(x)))


class EDSR(nn.Module):
    def __init__(self, feats=FEATS, blocks=BLOCKS, scale=SCALE):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.44, 0.44, 0.40]).view(1, 3, 1, 1))
        self.head = nn.Conv2d(3, feats, 3, padding=1)
        self.body = nn.Sequential(
            *[ResBlock(feats) for _ in range(blocks)], nn.Conv2d(feats, feats, 3, padding=1)
        )
        self.up = nn.Sequential(nn.Conv2d(feats, feats * scale**2, 3, padding=1), nn.PixelShuffle(scale))
        self.tail = nn.Conv2d(feats, 3, 3, padding=1)

    def forward(self, x):
        x = self.head(x - self.mean)
        x = x + self.body(x)
        return self.tail(self.up(x)) + self.mean


class AerialPatches:
    """Made-up scenes: roofs, roads and fields, held on the device as uint8."""

    def __init__(self, n=8, size=1024, gen=None):
        g = torch.Generator().manual_seed(3)
        coarse = torch.rand(n, 3, size // 32, size // 32, generator=g)
        fine = torch.rand(n, 3, size // 4, size // 4, generator=g)
        img = 0.75 * F.interpolate(coarse, size=size, mode="nearest") + 0.25 * F.interpolate(
            fine, size=size, mode="bicubic"
        )
        self.img = (img.clamp(0, 1) * 255).to(torch.uint8).to(DEVICE)
        self.size = size
        self.rng = torch.Generator().manual_seed(4)

    def batch(self, n, lr_size):
        hr_size = lr_size * SCALE
        crops = []
        pos = torch.randint(0, self.size - hr_size, (n, 2), generator=self.rng).tolist()
        which = torch.randint(0, self.img.shape[0], (n,), generator=self.rng).tolist()
        for w, (y, x) in zip(which, pos):
            crops.append(self.img[w, :, y : y + hr_size, x : x + hr_size])
        hr = torch.stack(crops).float() / 255
        lr = F.avg_pool2d(hr, SCALE)
        return lr, hr


def psnr(a, b):
    return -10 * torch.log10(F.mse_loss(a.float().clamp(0, 1), b))


def main():
    torch.manual_seed(0)
    data = AerialPatches(size=128 if SMOKE else 1024)
    model = EDSR().to(DEVICE)
    opt = torch.optim.Adam(model.parameters(), lr=2e-4, betas=(0.9, 0.99))
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)
    net = torch.compile(model)

    def train_step(lr, hr):
        opt.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            sr = net(lr)
        loss = F.l1_loss(sr.float(), hr)
        loss.backward()
        opt.step()
        return loss.detach(), sr.detach()

    t0, seen = time.perf_counter(), 0
    for step in range(STEPS):
        lr, hr = data.batch(BATCH, PATCH)
        loss, sr = train_step(lr, hr)
        sched.step()
        seen += BATCH
        if (step + 1) % 20 == 0 or step + 1 == STEPS:
            quality = psnr(sr, hr).item()
            dt = time.perf_counter() - t0
            print(f"step {step + 1:4d} l1 {loss.item():.4f} psnr {quality:.2f} dB  {seen / dt:.0f} patches/s")
            t0, seen = time.perf_counter(), 0


if __name__ == "__main__":
    main()
