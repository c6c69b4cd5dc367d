"""CenterNet-style detector for bees at a hive entrance (top-down camera): centre heatmap + box size + offset.

Synthetic frames: bright ellipses (bees, and some with pollen) on a wooden landing board.
"""

import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(7)
rng = np.random.default_rng(7)
device = "cuda"
torch.set_float32_matmul_precision("high")
torch.backends.cudnn.benchmark = True

SIZE = 512
STRIDE = 4
N_FRAMES = 96
BATCH = 24
STEPS = 110
MAX_BEES = 40
CLASSES = 2


def draw_gaussian(heat, cx, cy, radius):
    d = 2 * radius + 1
    ax = np.arange(d) - radius
    g = np.exp(-(ax[None, :] ** 2 + ax[:, None] ** 2) / (2 * (d / 6) ** 2))
    h, w = heat.shape
    l, r, t, b = min(cx, radius), min(w - cx, radius + 1), min(cy, radius), min(h - cy, radius + 1)
    patch = heat[cy - t : cy + b, cx - l : cx + r]
    np.maximum(patch, g[radius - t : radius + b, radius - l : radius + r], out=patch)


def make_frame():
    out = SIZE // STRIDE
    img = rng.normal(0.35, 0.04, (3, SIZE, SIZE)).astype(np.float32)
    heat = np.zeros((CLASSES, out, out), np.float32)
    wh = np.zeros((MAX_BEES, 2), np.float32)
    off = np.zeros((MAX_BEES, 2), np.float32)
    ind = np.zeros(MAX_BEES, np.int64)
    valid = np.zeros(MAX_BEES, np.float32)
    for k in range(rng.integers(8, MAX_BEES)):
        w, h = rng.uniform(14, 36, 2)
        x, y = rng.uniform(20, SIZE - 20, 2)
        cls = int(rng.random() < 0.3)
        x0, x1, y0, y1 = int(x - w / 2), int(x + w / 2), int(y - h / 2), int(y + h / 2)
        x0, y0, x1, y1 = max(x0, 0), max(y0, 0), min(x1, SIZE), min(y1, SIZE)
        img[:, y0:y1, x0:x1] = np.array([0.8, 0.55, 0.1 + 0.7 * cls], np.float32)[:, None, None]
        cx, cy = x / STRIDE, y / STRIDE
        draw_gaussian(heat[cls], int(cx), int(cy), max(1, int(math.sqrt(w * h) / STRIDE / 2)))
        wh[k] = w / STRIDE, h / STRIDE
        off[k] = cx - int(cx), cy - int(cy)
        ind[k] = int(cy) * out + int(cx)
        valid[k] = 1
    return img, heat, wh, off, ind, valid


def conv_bn(cin, cout, k=3, s=1):
    return nn.Sequential(
        nn.Conv2d(cin, cout, k, s, k // 2, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True)
    )


class Residual(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.a = conv_bn(cin, cout, 3, stride)
        self.b = nn.Sequential(nn.Conv2d(cout, cout, 3, 1, 1, bias=False), nn.BatchNorm2d(cout))
        self.skip = nn.Identity()
        if stride != 1 or cin != cout:
            self.skip = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        return F.relu(self.b(self.a(x)) + self.skip(x))


class BeeNet(nn.Module):
    def __init__(self, widths=(64, 128, 256, 512)):
        super().__init__()
        self.stem = nn.Sequential(conv_bn(3, 32, 7, 2), conv_bn(32, widths[0], 3, 2))
        self.stages = nn.ModuleList()
        c = widths[0]
        for i, w in enumerate(widths):
            self.stages.append(nn.Sequential(Residual(c, w, 1 if i == 0 else 2), Residual(w, w)))
            c = w
        self.ups = nn.ModuleList(nn.ConvTranspose2d(widths[i], widths[i - 1], 4, 2, 1) for i in (3, 2, 1))
        self.fuse = nn.ModuleList(conv_bn(widths[i - 1], widths[i - 1]) for i in (3, 2, 1))
        self.heads = nn.ModuleDict(
            {
                name: nn.Sequential(
                    nn.Conv2d(widths[0], 128, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(128, n, 1)
                )
                for name, n in (("heat", CLASSES), ("wh", 2), ("off", 2))
            }
        )
        nn.init.constant_(self.heads["heat"][-1].bias, -2.19)

    def forward(self, x):
        x = self.stem(x)
        feats = []
        for stage in self.stages:
            x = stage(x)
            feats.append(x)
        for up, fuse, skip in zip(self.ups, self.fuse, feats[-2::-1]):
            x = fuse(up(x) + skip)
        return {name: head(x) for name, head in self.heads.items()}


def focal_loss(logits, target):
    p = torch.sigmoid(logits.float()).clamp(1e-4, 1 - 1e-4)
    pos = target.eq(1).float()
    pos_loss = torch.log(p) * (1 - p) ** 2 * pos
    neg_loss = torch.log(1 - p) * p**2 * (1 - target) ** 4 * (1 - pos)
    n = pos.sum()
    if n == 0:
        return -neg_loss.sum()
    return -(pos_loss.sum() + neg_loss.sum()) / n


def gather_l1(pred, ind, mask, target):
    b, c = pred.shape[:2]
    pred = pred.float().reshape(b, c, -1).permute(0, 2, 1)
    pred = pred.gather(1, ind[:, :, None].expand(-1, -1, c))
    m = mask[:, :, None]
    return F.l1_loss(pred * m, target * m, reduction="sum") / (m.sum() + 1e-4)


def main():
    arrays = [np.stack(a) for a in zip(*[make_frame() for _ in range(N_FRAMES)])]
    data = [torch.from_numpy(a).to(device) for a in arrays]

    model = BeeNet().to(device, memory_format=torch.channels_last)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters")
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 2e-3, total_steps=STEPS)
    net = torch.compile(model)

    t0 = time.time()
    for step in range(STEPS):
        pick = torch.randint(0, N_FRAMES, (BATCH,), device=device)
        img, heat, wh, off, ind, valid = (d[pick] for d in data)
        img = img.contiguous(memory_format=torch.channels_last)
        img = (img * (0.8 + 0.4 * torch.rand(BATCH, 1, 1, 1, device=device)) - 0.4) / 0.2
        with torch.autocast(device, dtype=torch.bfloat16):
            out = net(img)
        l_heat = focal_loss(out["heat"], heat)
        l_wh = gather_l1(out["wh"], ind, valid, wh)
        l_off = gather_l1(out["off"], ind, valid, off)
        loss = l_heat + 0.1 * l_wh + l_off
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        opt.step()
        sched.step()
        if step % 20 == 0:
            print(
                f"step {step:4d} heat {l_heat.item():.3f} wh {l_wh.item():.3f} off {l_off.item():.3f} "
                f"{time.time() - t0:.1f}s"
            )
    print(f"final loss {loss.item():.4f}, {STEPS * BATCH / (time.time() - t0):.0f} frames/s")


if __name__ == "__main__":
    main()
