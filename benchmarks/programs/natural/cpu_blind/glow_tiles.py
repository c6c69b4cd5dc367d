"""A small Glow (actnorm, invertible 1x1 convolution, affine coupling) trained on procedural terrazzo tiles."""

import math

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(21)

SIZE = 16
N_BITS = 5
BATCH = 48
ITERS = 60


def terrazzo(n):
    """A tinted ground with a few soft chips of another colour."""
    yy, xx = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    img = (0.55 + 0.15 * torch.rand(n, 3, 1, 1)).expand(n, 3, SIZE, SIZE).clone()
    for _ in range(5):
        cx, cy = torch.rand(2, n, 1, 1) * SIZE
        r = 1.0 + 2.5 * torch.rand(n, 1, 1)
        mask = torch.sigmoid(3 * (r - ((xx - cx) ** 2 + (yy - cy) ** 2).sqrt()))[:, None]
        img = img * (1 - mask) + torch.rand(n, 3, 1, 1) * mask
    return (img + 0.02 * torch.randn_like(img)).clamp(0, 1)


class ActNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.loc = nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.scale = nn.Parameter(torch.ones(1, channels, 1, 1))
        self.register_buffer("initialized", torch.tensor(0, dtype=torch.uint8))

    def initialize(self, x):
        with torch.no_grad():
            mean = x.mean((0, 2, 3), keepdim=True)
            std = x.std((0, 2, 3), keepdim=True)
            self.loc.data.copy_(-mean)
            self.scale.data.copy_(1 / (std + 1e-6))

    def forward(self, x):
        if self.initialized.item() == 0:
            self.initialize(x)
            self.initialized.fill_(1)
        logdet = x.shape[2] * x.shape[3] * torch.log(self.scale.abs()).sum()
        return self.scale * (x + self.loc), logdet


class InvConv(nn.Module):
    def __init__(self, channels):
        super().__init__()
        q, _ = torch.linalg.qr(torch.randn(channels, channels))
        self.weight = nn.Parameter(q[..., None, None].contiguous())

    def forward(self, x):
        logdet = x.shape[2] * x.shape[3] * torch.slogdet(self.weight.squeeze()).logabsdet
        return F.conv2d(x, self.weight), logdet


class Coupling(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(channels // 2, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 1),
            nn.ReLU(),
            nn.Conv2d(width, channels, 3, padding=1),
        )
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)
        self.log_gain = nn.Parameter(torch.zeros(1, channels, 1, 1))

    def forward(self, x):
        a, b = x.chunk(2, 1)
        log_s, t = (self.net(a) * torch.exp(3 * self.log_gain)).chunk(2, 1)
        s = torch.sigmoid(log_s + 2)
        return torch.cat([a, (b + t) * s], 1), torch.log(s).flatten(1).sum(1)


class FlowStep(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.actnorm = ActNorm(channels)
        self.invconv = InvConv(channels)
        self.coupling = Coupling(channels, width)

    def forward(self, x):
        x, d1 = self.actnorm(x)
        x, d2 = self.invconv(x)
        x, d3 = self.coupling(x)
        return x, d1 + d2 + d3


def gaussian_log_p(x):
    return (-0.5 * (x**2 + math.log(2 * math.pi))).flatten(1).sum(1)


class Glow(nn.Module):
    def __init__(self, levels=2, steps=5, width=96):
        super().__init__()
        self.levels = nn.ModuleList()
        c = 3
        for _ in range(levels):
            c *= 4
            self.levels.append(nn.ModuleList([FlowStep(c, width) for _ in range(steps)]))
            c //= 2

    def forward(self, x):
        total, log_p = 0.0, 0.0
        for i, steps in enumerate(self.levels):
            x = F.pixel_unshuffle(x, 2)
            for step in steps:
                x, d = step(x)
                total = total + d
            if i < len(self.levels) - 1:
                x, z = x.chunk(2, 1)
                log_p = log_p + gaussian_log_p(z)
        return log_p + gaussian_log_p(x), total


def main():
    data = terrazzo(2000)
    bins = 2**N_BITS
    pixels = 3 * SIZE * SIZE
    glow = Glow()
    compiled = torch.compile(glow)
    opt = torch.optim.Adam(glow.parameters(), lr=5e-4)
    for it in range(ITERS):
        x = data[torch.randint(len(data), (BATCH,))]
        x = torch.floor(x * (bins - 1) + 0.5) / bins - 0.5
        x = x + torch.rand_like(x) / bins
        log_p, logdet = compiled(x)
        bpd = (-(log_p + logdet) / pixels + math.log(bins)).mean() / math.log(2)
        opt.zero_grad()
        bpd.backward()
        nn.utils.clip_grad_norm_(glow.parameters(), 50.0)
        opt.step()
        if it % 15 == 0 or it == ITERS - 1:
            print(f"iter {it:3d}  bits/dim {bpd.item():.4f}  logdet {logdet.mean().item():.1f}")


if __name__ == "__main__":
    main()
