"""Shelf-gap detector, offline replay of one morning of store-camera photos.

Stores upload photos in whatever aspect ratio their camera has; we letterbox each group of
photos to the nearest multiple of 32 and run the detector in bfloat16.  Prints a line per
store and a latency table in the end.
"""

import time
from collections import defaultdict

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(11)
rng = np.random.default_rng(11)

CLASSES = ("gap", "misplaced", "price_tag")
STRIDES = (8, 16, 32)
LONG_SIDE = 320


class ConvBnAct(nn.Module):
    def __init__(self, c_in, c_out, k=3, s=1, groups=1):
        super().__init__()
        self.conv = nn.Conv2d(c_in, c_out, k, s, k // 2, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(c_out, eps=1e-3, momentum=0.03)

    def forward(self, x):
        return F.silu(self.bn(self.conv(x)))


class Bottleneck(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a = ConvBnAct(c, c, 3)
        self.b = ConvBnAct(c, c, 3)

    def forward(self, x):
        return x + self.b(self.a(x))


class C2f(nn.Module):
    """Cross-stage block: split, run n bottlenecks, keep every intermediate."""

    def __init__(self, c_in, c_out, n=1):
        super().__init__()
        self.half = c_out // 2
        self.enter = ConvBnAct(c_in, c_out, 1)
        self.blocks = nn.ModuleList(Bottleneck(self.half) for _ in range(n))
        self.leave = ConvBnAct((2 + n) * self.half, c_out, 1)

    def forward(self, x):
        parts = list(self.enter(x).split(self.half, dim=1))
        for blk in self.blocks:
            parts.append(blk(parts[-1]))
        return self.leave(torch.cat(parts, 1))


class SPPF(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.enter = ConvBnAct(c, c // 2, 1)
        self.leave = ConvBnAct(2 * c, c, 1)

    def forward(self, x):
        x = self.enter(x)
        p1 = F.max_pool2d(x, 5, 1, 2)
        p2 = F.max_pool2d(p1, 5, 1, 2)
        p3 = F.max_pool2d(p2, 5, 1, 2)
        return self.leave(torch.cat([x, p1, p2, p3], 1))


class ShelfDetector(nn.Module):
    def __init__(self, w=16, n_cls=len(CLASSES)):
        super().__init__()
        self.n_cls = n_cls
        self.stem = nn.Sequential(ConvBnAct(3, w, 3, 2), ConvBnAct(w, 2 * w, 3, 2), C2f(2 * w, 2 * w))
        self.p3 = nn.Sequential(ConvBnAct(2 * w, 4 * w, 3, 2), C2f(4 * w, 4 * w, 2))
        self.p4 = nn.Sequential(ConvBnAct(4 * w, 8 * w, 3, 2), C2f(8 * w, 8 * w, 2))
        self.p5 = nn.Sequential(ConvBnAct(8 * w, 12 * w, 3, 2), C2f(12 * w, 12 * w), SPPF(12 * w))
        self.up4 = C2f(20 * w, 8 * w)
        self.up3 = C2f(12 * w, 4 * w)
        chans = (4 * w, 8 * w, 12 * w)
        self.heads = nn.ModuleList(
            nn.Sequential(ConvBnAct(c, 4 * w, 3), nn.Conv2d(4 * w, 4 + n_cls, 1)) for c in chans
        )
        for h in self.heads:
            nn.init.constant_(h[-1].bias[4:], -1.0)

    def forward(self, img):
        f3 = self.p3(self.stem(img))
        f4 = self.p4(f3)
        f5 = self.p5(f4)
        f4 = self.up4(torch.cat([F.interpolate(f5, scale_factor=2.0, mode="nearest"), f4], 1))
        f3 = self.up3(torch.cat([F.interpolate(f4, scale_factor=2.0, mode="nearest"), f3], 1))
        boxes, scores = [], []
        for feat, head, stride in zip((f3, f4, f5), self.heads, STRIDES):
            out = head(feat).float()
            b, _, h, w = out.shape
            ys = torch.arange(h, device=out.device) + 0.5
            xs = torch.arange(w, device=out.device) + 0.5
            gy, gx = torch.meshgrid(ys, xs, indexing="ij")
            ltrb = F.softplus(out[:, :4]) * stride
            cx, cy = gx * stride, gy * stride
            xyxy = torch.stack([cx - ltrb[:, 0], cy - ltrb[:, 1], cx + ltrb[:, 2], cy + ltrb[:, 3]], -1)
            boxes.append(xyxy.reshape(b, h * w, 4))
            scores.append(out[:, 4:].sigmoid().flatten(2).transpose(1, 2))
        return torch.cat(boxes, 1), torch.cat(scores, 1)


def nms(boxes, scores, iou_thr=0.5, keep_max=30):
    order = scores.argsort(descending=True)[:200]
    boxes, scores = boxes[order], scores[order]
    area = (boxes[:, 2] - boxes[:, 0]).clamp(min=0) * (boxes[:, 3] - boxes[:, 1]).clamp(min=0)
    lt = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    rb = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    inter = (rb - lt).clamp(min=0).prod(-1)
    iou = (inter / (area[:, None] + area[None] - inter + 1e-6)).numpy()
    alive = np.ones(len(order), bool)
    keep = []
    for i in range(len(order)):
        if not alive[i]:
            continue
        keep.append(i)
        if len(keep) == keep_max:
            break
        alive &= iou[i] < iou_thr
    return boxes[keep], scores[keep]


def synth_photo(h, w):
    """Rows of coloured products with a few dark holes."""
    img = np.full((h, w, 3), 40, np.uint8)
    row_h = int(rng.integers(28, 60))
    for top in range(0, h - row_h, row_h + 6):
        x = 0
        while x < w:
            pw = int(rng.integers(10, 40))
            if rng.random() > 0.12:
                img[top : top + row_h, x : x + pw - 2] = rng.integers(60, 255, 3)
            x += pw
    return torch.from_numpy(img)


def letterbox(photo):
    h, w, _ = photo.shape
    r = LONG_SIDE / max(h, w)
    nh, nw = round(h * r), round(w * r)
    x = photo.permute(2, 0, 1)[None].float() / 255
    x = F.interpolate(x, size=(nh, nw), mode="bilinear", align_corners=False)
    ph, pw = -nh % 32, -nw % 32
    return F.pad(x, (0, pw, 0, ph), value=114 / 255), r


STORES = {  # store -> camera height, width, photos per upload
    "Aarhus": (480, 640, 2),
    "Bergen": (360, 640, 4),
    "Cork": (640, 480, 1),
    "Dijon": (480, 480, 3),
    "Espoo": (720, 400, 2),
    "Faro": (400, 800, 4),
    "Gent": (600, 520, 1),
    "Haifa": (512, 640, 3),
}
ROUNDS = 10


def main():
    model = ShelfDetector().eval()
    # a plausible running state for the norms, since the weights are not trained here
    for m in model.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.running_var.uniform_(0.2, 0.6)
            m.running_mean.normal_(0, 0.05)
    model = model.to(memory_format=torch.channels_last)
    detect = torch.compile(model)

    lat, found, n_img = defaultdict(list), defaultdict(int), 0
    t_all = time.perf_counter()
    for rnd in range(ROUNDS):
        for store, (h, w, n) in STORES.items():
            n = max(1, n - int(rng.integers(0, 2)))
            prepared = [letterbox(synth_photo(h, w)) for _ in range(n)]
            batch = torch.cat([p for p, _ in prepared]).contiguous(memory_format=torch.channels_last)
            t0 = time.perf_counter()
            with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
                boxes, scores = detect(batch)
            lat[store].append((time.perf_counter() - t0) * 1e3 / n)
            n_img += n
            for (_, r), bx, sc in zip(prepared, boxes, scores):
                best, _ = sc.max(-1)
                kept, _ = nms(bx / r, best)
                found[store] += len(kept)
        print(
            f"round {rnd + 1}/{ROUNDS}: {n_img} photos, {n_img / (time.perf_counter() - t_all):.1f} photos/s"
        )

    print(f"\n{'store':<10}{'p50 ms/photo':>14}{'max':>10}{'boxes':>8}")
    for store in STORES:
        v = np.array(lat[store])
        print(f"{store:<10}{np.median(v):>14.1f}{v.max():>10.1f}{found[store]:>8}")
    print(f"total {time.perf_counter() - t_all:.2f} s")


if __name__ == "__main__":
    main()
