"""Count maize seedlings on drone frames with a small CenterNet-like detector.

Frames arrive as uint8 HWC arrays.  For each frame we normalise, pad to a multiple of 32, run the network,
find the peaks of the heat map and hand a list of boxes to the counting code.
"""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(7)
rng = np.random.default_rng(7)


class ConvBnAct(nn.Sequential):
    def __init__(self, cin, cout, k=3, stride=1, groups=1):
        super().__init__(
            nn.Conv2d(cin, cout, k, stride, k // 2, groups=groups, bias=False),
            nn.BatchNorm2d(cout),
            nn.SiLU(inplace=True),
        )


class InvertedBlock(nn.Module):
    def __init__(self, cin, cout, stride=1, expand=4):
        super().__init__()
        mid = cin * expand
        self.use_res = stride == 1 and cin == cout
        self.expand = ConvBnAct(cin, mid, 1)
        self.dw = ConvBnAct(mid, mid, 3, stride, groups=mid)
        self.se = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(mid, mid // 8, 1),
            nn.ReLU(),
            nn.Conv2d(mid // 8, mid, 1),
            nn.Hardsigmoid(),
        )
        self.project = nn.Sequential(nn.Conv2d(mid, cout, 1, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        y = self.dw(self.expand(x))
        y = self.project(y * self.se(y))
        return x + y if self.use_res else y


class UpFuse(nn.Module):
    def __init__(self, c_low, c_skip, cout):
        super().__init__()
        self.lat = ConvBnAct(c_skip, cout, 1)
        self.low = ConvBnAct(c_low, cout, 1)
        self.mix = ConvBnAct(cout, cout, 3)

    def forward(self, low, skip):
        low = F.interpolate(self.low(low), size=skip.shape[-2:], mode="bilinear", align_corners=False)
        return self.mix(low + self.lat(skip))


class SeedlingNet(nn.Module):
    def __init__(self, classes=2):
        super().__init__()
        self.stem = ConvBnAct(3, 16, 3, 2)
        self.s4 = nn.Sequential(InvertedBlock(16, 24, 2), InvertedBlock(24, 24))
        self.s8 = nn.Sequential(InvertedBlock(24, 40, 2), InvertedBlock(40, 40))
        self.s16 = nn.Sequential(InvertedBlock(40, 80, 2), InvertedBlock(80, 80), InvertedBlock(80, 80))
        self.s32 = nn.Sequential(InvertedBlock(80, 128, 2), InvertedBlock(128, 128))
        self.up16 = UpFuse(128, 80, 48)
        self.up8 = UpFuse(48, 40, 48)
        self.up4 = UpFuse(48, 24, 48)
        self.heat = nn.Sequential(ConvBnAct(48, 48), nn.Conv2d(48, classes, 1))
        self.size = nn.Sequential(ConvBnAct(48, 48), nn.Conv2d(48, 2, 1))
        self.offset = nn.Sequential(ConvBnAct(48, 48), nn.Conv2d(48, 2, 1))

    def forward(self, x):
        x4 = self.s4(self.stem(x))
        x8 = self.s8(x4)
        x16 = self.s16(x8)
        x32 = self.s32(x16)
        y = self.up4(self.up8(self.up16(x32, x16), x8), x4)
        return self.heat(y), self.size(y), self.offset(y)


class Detector:
    mean = torch.tensor([0.41, 0.43, 0.35]).view(1, 3, 1, 1)
    std = torch.tensor([0.22, 0.21, 0.20]).view(1, 3, 1, 1)

    def __init__(self, net, k=100):
        self.net = torch.compile(net)
        self.decode = torch.compile(self._decode)
        self.k = k

    def preprocess(self, frame):
        x = torch.from_numpy(frame).permute(2, 0, 1).unsqueeze(0).float() / 255
        x = (x - self.mean) / self.std
        h, w = x.shape[-2:]
        return F.pad(x, (0, -w % 32, 0, -h % 32))

    def _decode(self, heat, size, offset):
        heat = heat.sigmoid()
        peak = F.max_pool2d(heat, 3, 1, 1)
        heat = heat * (peak == heat).float()
        b, c, h, w = heat.shape
        score, idx = heat.flatten(1).topk(self.k)
        cls = idx // (h * w)
        pos = idx % (h * w)
        gather = lambda t: t.flatten(2).gather(2, pos.unsqueeze(1).expand(-1, 2, -1))
        off, wh = gather(offset).sigmoid(), F.softplus(gather(size)) * 8
        cx = (pos % w + off[:, 0]) * 4
        cy = (pos // w + off[:, 1]) * 4
        boxes = torch.stack([cx - wh[:, 0] / 2, cy - wh[:, 1] / 2, cx + wh[:, 0] / 2, cy + wh[:, 1] / 2], -1)
        return boxes, score, cls

    @torch.no_grad()
    def __call__(self, frame, threshold=0.8):
        boxes, score, cls = self.decode(*self.net(self.preprocess(frame)))
        keep = score[0] > threshold
        return [
            dict(box=[round(v, 1) for v in b], score=s, cls=k)
            for b, s, k in zip(boxes[0][keep].tolist(), score[0][keep].tolist(), cls[0][keep].tolist())
        ]


def fake_frame(h=360, w=480):
    frame = rng.integers(60, 130, (h, w, 3), dtype=np.uint8)
    for _ in range(40):
        y, x = rng.integers(0, h - 12), rng.integers(0, w - 12)
        frame[y : y + 12, x : x + 12, 1] = 220
    return frame


@torch.no_grad()
def settle_batchnorm(net, detector, frames=8):
    for m in net.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.momentum = None
    net.train()
    net(torch.cat([detector.preprocess(fake_frame()) for _ in range(frames)]))
    net.eval()


def main():
    net = SeedlingNet()
    detector = Detector(net)
    settle_batchnorm(net, detector)
    counts, scores = [], []
    for _ in range(90):
        found = detector(fake_frame())
        counts.append(len(found))
        scores.extend(d["score"] for d in found)
    print(f"frames {len(counts)}  mean count {np.mean(counts):.2f}  max {max(counts)}")
    print(f"mean score {np.mean(scores):.4f}" if scores else "nothing found")


if __name__ == "__main__":
    main()
