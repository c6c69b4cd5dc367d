"""Small RedNet-style classifier (involution instead of 3x3 convolutions), trained on
synthetic oriented textures."""

import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(7)

BATCH = 12
CLASSES = 8
SIZE = 32


def make_textures(n, gen):
    y = torch.randint(0, CLASSES, (n,), generator=gen)
    ang = y.float() * math.pi / CLASSES
    freq = 0.6 + 0.5 * torch.rand(n, generator=gen)
    ys, xs = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    proj = torch.cos(ang)[:, None, None] * xs + torch.sin(ang)[:, None, None] * ys
    base = torch.sin(freq[:, None, None] * proj)
    img = base[:, None] * torch.rand(n, 3, 1, 1, generator=gen)
    return img + 0.3 * torch.randn(n, 3, SIZE, SIZE, generator=gen), y


class Involution(nn.Module):
    def __init__(self, channels, kernel_size=7, stride=1, group_channels=16, reduction=4):
        super().__init__()
        self.k = kernel_size
        self.stride = stride
        self.groups = channels // group_channels
        self.group_channels = group_channels
        self.reduce = nn.Sequential(
            nn.Conv2d(channels, channels // reduction, 1, bias=False),
            nn.BatchNorm2d(channels // reduction),
            nn.ReLU(inplace=True),
        )
        self.span = nn.Conv2d(channels // reduction, kernel_size**2 * self.groups, 1)
        self.pool = nn.AvgPool2d(stride, stride) if stride > 1 else nn.Identity()
        self.unfold = nn.Unfold(kernel_size, 1, (kernel_size - 1) // 2, stride)

    def forward(self, x):
        weight = self.span(self.reduce(self.pool(x)))
        b, _, h, w = weight.shape
        weight = weight.view(b, self.groups, self.k**2, h, w).unsqueeze(2)
        out = self.unfold(x).view(b, self.groups, self.group_channels, self.k**2, h, w)
        return (weight * out).sum(dim=3).view(b, -1, h, w)


class Bottleneck(nn.Module):
    def __init__(self, cin, cmid, cout, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cmid, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cmid)
        self.inv = Involution(cmid, 7, stride)
        self.bn2 = nn.BatchNorm2d(cmid)
        self.conv3 = nn.Conv2d(cmid, cout, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(cout)
        self.skip = nn.Identity()
        if stride != 1 or cin != cout:
            self.skip = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        h = F.relu(self.bn2(self.inv(h)))
        h = self.bn3(self.conv3(h))
        return F.relu(h + self.skip(x))


class MiniRedNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(inplace=True)
        )
        self.stage1 = Bottleneck(32, 32, 64)
        self.stage2 = Bottleneck(64, 64, 128, stride=2)
        self.stage3 = Bottleneck(128, 64, 128)
        self.head = nn.Linear(128, CLASSES)

    def forward(self, x):
        x = self.stage3(self.stage2(self.stage1(self.stem(x))))
        return self.head(x.mean(dim=(2, 3)))


def main():
    gen = torch.Generator().manual_seed(11)
    images, labels = make_textures(BATCH * 16, gen)
    net = MiniRedNet()
    compiled = torch.compile(net)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)

    def step(i):
        j = (i % 16) * BATCH
        x, y = images[j : j + BATCH], labels[j : j + BATCH]
        loss = F.cross_entropy(compiled(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return loss.item()

    for i in range(4):
        step(i)
    times, loss = [], 0.0
    for i in range(30):
        t0 = time.perf_counter()
        loss = step(i)
        times.append(time.perf_counter() - t0)
    times.sort()
    print(f"median step {times[len(times) // 2] * 1e3:.2f} ms   last loss {loss:.4f}")


if __name__ == "__main__":
    main()
