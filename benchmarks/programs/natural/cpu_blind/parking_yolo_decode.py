"""One-stage car detector over a car park camera: batch inference, box decoding, suppression and bay occupancy."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(2)

SIZE = 192
ANCHORS = {8: [(12, 16), (20, 14), (24, 30)], 16: [(40, 28), (36, 60), (70, 50)]}
CLASSES = ("car", "van", "motorbike")


class ConvBN(nn.Module):
    def __init__(self, cin, cout, k=3, s=1):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, k, s, k // 2, bias=False)
        self.bn = nn.BatchNorm2d(cout)

    def forward(self, x):
        return F.silu(self.bn(self.conv(x)))


class CSP(nn.Module):
    def __init__(self, ch, depth):
        super().__init__()
        half = ch // 2
        self.left = ConvBN(ch, half, 1)
        self.right = ConvBN(ch, half, 1)
        self.inner = nn.ModuleList(
            nn.Sequential(ConvBN(half, half, 1), ConvBN(half, half, 3)) for _ in range(depth)
        )
        self.fuse = ConvBN(ch, ch, 1)

    def forward(self, x):
        a, b = self.left(x), self.right(x)
        for block in self.inner:
            a = a + block(a)
        return self.fuse(torch.cat([a, b], 1))


class Detector(nn.Module):
    def __init__(self, base=16):
        super().__init__()
        self.stem = ConvBN(3, base, 6 - 1, 2)
        self.s4 = nn.Sequential(ConvBN(base, base * 2, 3, 2), CSP(base * 2, 1))
        self.s8 = nn.Sequential(ConvBN(base * 2, base * 4, 3, 2), CSP(base * 4, 2))
        self.s16 = nn.Sequential(ConvBN(base * 4, base * 8, 3, 2), CSP(base * 8, 1))
        self.lateral = ConvBN(base * 8, base * 4, 1)
        self.merge = CSP(base * 8, 1)
        per = 3 * (5 + len(CLASSES))
        self.head8 = nn.Conv2d(base * 8, per, 1)
        self.head16 = nn.Conv2d(base * 8, per, 1)

    def decode(self, raw, stride):
        b, _, h, w = raw.shape
        raw = raw.view(b, 3, 5 + len(CLASSES), h, w).permute(0, 1, 3, 4, 2).sigmoid()
        gy, gx = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        grid = torch.stack([gx, gy], -1).float()
        anchor = torch.tensor(ANCHORS[stride], dtype=torch.float32).view(1, 3, 1, 1, 2)
        centre = (raw[..., :2] * 2 - 0.5 + grid) * stride
        extent = (raw[..., 2:4] * 2) ** 2 * anchor
        score = raw[..., 4:5] * raw[..., 5:]
        boxes = torch.cat([centre - extent / 2, centre + extent / 2, score], -1)
        return boxes.reshape(b, -1, 4 + len(CLASSES))

    def forward(self, frames):
        x = frames.float() / 255
        x = self.s8(self.s4(self.stem(x)))
        deep = self.s16(x)
        up = F.interpolate(self.lateral(deep), scale_factor=2.0, mode="nearest")
        near = self.merge(torch.cat([x, up], 1))
        return torch.cat([self.decode(self.head8(near), 8), self.decode(self.head16(deep), 16)], 1)


def iou(a, b):
    lt = torch.maximum(a[:, None, :2], b[None, :, :2])
    rb = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    inter = (rb - lt).clamp_min(0).prod(-1)
    area_a = (a[:, 2:] - a[:, :2]).prod(-1)
    area_b = (b[:, 2:] - b[:, :2]).prod(-1)
    return inter / (area_a[:, None] + area_b[None] - inter + 1e-6)


def suppress(dets, keep=60, threshold=0.5):
    score, label = dets[:, 4:].max(1)
    score, order = score.topk(keep)
    boxes, label = dets[order, :4], label[order]
    overlap = iou(boxes + label[:, None] * 1000.0, boxes + label[:, None] * 1000.0).tolist()
    kept = []
    for i in range(keep):
        if all(overlap[i][j] < threshold for j in kept):
            kept.append(i)
    return boxes[kept], score[kept], label[kept]


def camera(frames, batch, gen):
    yard = torch.randint(60, 120, (3, SIZE, SIZE), generator=gen)
    for _ in range(frames):
        clip = yard.expand(batch, -1, -1, -1) + torch.randint(-15, 15, (batch, 3, SIZE, SIZE), generator=gen)
        for b in range(batch):
            for x, y in torch.randint(0, SIZE - 30, (6, 2), generator=gen).tolist():
                clip[b, :, y : y + 18, x : x + 26] = torch.randint(0, 255, (3, 1, 1), generator=gen)
        yield clip.clamp(0, 255).to(torch.uint8)


@torch.no_grad()
def main():
    torch.manual_seed(23)
    gen = torch.Generator().manual_seed(23)
    model = Detector().eval()
    detect = torch.compile(model, mode="reduce-overhead")
    bays = torch.tensor([[x, y, x + 30.0, y + 22.0] for y in range(8, 170, 40) for x in range(4, 160, 34)])
    occupancy = torch.zeros(len(bays))
    seen = 0
    for clip in camera(80, 4, gen):
        for dets in detect(clip):
            boxes, score, _ = suppress(dets)
            occupancy += (iou(bays, boxes).amax(1) > 0.3).float()
            seen += 1
    print(f"{seen} frames, {len(bays)} bays, mean occupancy {(occupancy / seen).mean():.3f}")
    print("busiest bay", int(occupancy.argmax()), f"{(occupancy.max() / seen).item():.3f}")


if __name__ == "__main__":
    main()
