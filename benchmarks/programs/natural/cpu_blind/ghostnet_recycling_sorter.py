"""Recycling belt: a small GhostNet names the material of every object cropped from the belt camera.

The belt hands over the crops of a time slot; they are classified in batches of eight (the last one padded),
and the air jets get one decision per object.
"""

import time

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(5)
CLASSES = ["PET", "HDPE", "PP", "film", "carton", "paper", "alu", "tin", "glass", "reject"]
BATCH = 8
CROP = 112


def conv_bn(c_in, c_out, k, stride=1, groups=1, act=True):
    layers = [nn.Conv2d(c_in, c_out, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(c_out)]
    if act:
        layers.append(nn.ReLU(inplace=True))
    return nn.Sequential(*layers)


class GhostModule(nn.Module):
    """Half of the channels by a pointwise convolution, the other half cheaply from these."""

    def __init__(self, c_in, c_out, act=True):
        super().__init__()
        half = (c_out + 1) // 2
        self.c_out = c_out
        self.primary = conv_bn(c_in, half, 1, act=act)
        self.cheap = conv_bn(half, half, 3, groups=half, act=act)

    def forward(self, x):
        a = self.primary(x)
        b = self.cheap(a)
        return torch.cat([a, b], dim=1)[:, : self.c_out]


class SqueezeExcite(nn.Module):
    def __init__(self, c, r=4):
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(c, c // r, 1), nn.Conv2d(c // r, c, 1)

    def forward(self, x):
        s = F.relu(self.reduce(x.mean((2, 3), keepdim=True)))
        return x * F.hardsigmoid(self.expand(s))


class GhostBottleneck(nn.Module):
    def __init__(self, c_in, c_mid, c_out, stride, se=False):
        super().__init__()
        self.expand = GhostModule(c_in, c_mid)
        self.down = conv_bn(c_mid, c_mid, 3, stride, groups=c_mid, act=False) if stride > 1 else nn.Identity()
        self.se = SqueezeExcite(c_mid) if se else nn.Identity()
        self.project = GhostModule(c_mid, c_out, act=False)
        if stride == 1 and c_in == c_out:
            self.skip = nn.Identity()
        else:
            self.skip = nn.Sequential(
                conv_bn(c_in, c_in, 3, stride, groups=c_in, act=False), conv_bn(c_in, c_out, 1, act=False)
            )

    def forward(self, x):
        return self.project(self.se(self.down(self.expand(x)))) + self.skip(x)


class GhostNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.stem = conv_bn(3, 24, 3, 2)
        cfg = [
            (24, 48, 24, 1, False),
            (24, 72, 40, 2, False),
            (40, 120, 40, 1, True),
            (40, 160, 80, 2, False),
            (80, 200, 80, 1, True),
            (80, 320, 112, 2, True),
        ]
        self.blocks = nn.Sequential(*[GhostBottleneck(*c) for c in cfg])
        self.head = conv_bn(112, 320, 1)
        self.fc = nn.Linear(320, n_classes)

    def forward(self, x):
        x = self.head(self.blocks(self.stem(x)))
        return self.fc(x.mean((2, 3)))


class Sorter:
    mean = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)

    def __init__(self):
        self.model = GhostNet(len(CLASSES)).eval()
        self.model.compile()

    @torch.inference_mode()
    def classify(self, crops):
        """crops: (n, 3, CROP, CROP) uint8, any n."""
        out = []
        for part in crops.split(BATCH):
            n = part.shape[0]
            x = (part.float() / 255 - self.mean) / self.std
            if n < BATCH:
                x = F.pad(x, (0, 0, 0, 0, 0, 0, 0, BATCH - n))
            out.append(self.model(x)[:n])
        return torch.cat(out).softmax(1)


def belt(n_slots, gen):
    """Objects of a time slot: coloured blobs on a grey belt."""
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, CROP), torch.linspace(-1, 1, CROP), indexing="ij")
    for _ in range(n_slots):
        n = int(torch.randint(3, 21, (1,), generator=gen))
        a = 0.4 + 0.5 * torch.rand(n, 2, generator=gen)
        mask = ((xx / a[:, 0, None, None]) ** 2 + (yy / a[:, 1, None, None]) ** 2 < 1).float()
        colour = 255 * torch.rand(n, 3, 1, 1, generator=gen)
        noise = 12 * torch.randn(n, 3, CROP, CROP, generator=gen)
        yield (90 + mask[:, None] * (colour - 90) + noise).clamp(0, 255).to(torch.uint8)


def main():
    gen = torch.Generator().manual_seed(9)
    sorter = Sorter()
    counts = torch.zeros(len(CLASSES), dtype=torch.long)
    lat, n_obj = [], 0
    for crops in belt(70, gen):
        t0 = time.perf_counter()
        prob = sorter.classify(crops)
        lat.append(time.perf_counter() - t0)
        best = prob.argmax(1)
        counts += torch.bincount(best, minlength=len(CLASSES))
        n_obj += len(crops)
    lat = torch.tensor(lat)
    print("objects:", n_obj)
    print("decisions:", {c: int(k) for c, k in zip(CLASSES, counts) if k})
    print(f"slot latency: median {lat.median() * 1e3:.1f} ms, 95 % {lat.quantile(0.95) * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
