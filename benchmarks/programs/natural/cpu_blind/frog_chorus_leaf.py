"""Frog chorus species tagging with a learnable front end (LEAF).

Raw 8 kHz audio goes through complex Gabor filters, squared modulus, Gaussian low-pass pooling and trainable
per-channel energy normalisation, then a small network of frequency-aware convolutions (coordinate channel) with
attention pooling over time. Multi-label training on synthetic choruses of six species with rain and insect noise.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(31)
RATE, SECONDS = 8000, 1.0
SAMPLES = int(RATE * SECONDS)
SPECIES = [
    ("pipiens", 900, 22, 0.5),
    ("crucifer", 2900, 4, 0.10),
    ("versicolor", 2200, 28, 0.4),
    ("clamitans", 420, 1.5, 0.12),
    ("triseriata", 3100, 16, 0.6),
    ("americanus", 1600, 35, 0.9),
]


class GaborFilters(nn.Module):
    def __init__(self, filters=32, size=161, stride=4):
        super().__init__()
        f = torch.linspace(math.log(150), math.log(3800), filters).exp()
        self.centre = nn.Parameter(2 * math.pi * f / RATE)
        self.width = nn.Parameter(math.sqrt(2 * math.log(2)) / (math.pi * (0.15 * f + 60) / RATE))
        self.size, self.stride = size, stride

    def forward(self, x):
        t = torch.arange(-(self.size // 2), self.size // 2 + 1, dtype=torch.float32)
        centre = self.centre.clamp(0, math.pi).unsqueeze(1)
        width = self.width.clamp(4.0, self.size * 1.0).unsqueeze(1)
        env = torch.exp(-(t**2) / (2 * width**2)) / (math.sqrt(2 * math.pi) * width)
        kernel = env * torch.exp(1j * centre * t)
        bank = torch.stack([kernel.real, kernel.imag], 1).flatten(0, 1).unsqueeze(1)
        y = F.conv1d(x.unsqueeze(1), bank, stride=self.stride, padding=self.size // 2)
        return y.view(x.shape[0], -1, 2, y.shape[-1]).pow(2).sum(2)


class GaussianPool(nn.Module):
    def __init__(self, channels, size=81, stride=40):
        super().__init__()
        self.sigma = nn.Parameter(torch.full((channels, 1), 0.4))
        self.size, self.stride = size, stride

    def forward(self, x):
        t = torch.linspace(-1, 1, self.size)
        w = torch.exp(-0.5 * (t / self.sigma.clamp(0.05, 0.5)) ** 2)
        w = w / w.sum(1, keepdim=True)
        return F.conv1d(x, w.unsqueeze(1), stride=self.stride, padding=self.size // 2, groups=x.shape[1])


class PCEN(nn.Module):
    def __init__(self, channels, eps=1e-6):
        super().__init__()
        self.alpha = nn.Parameter(torch.full((channels,), 0.96))
        self.delta = nn.Parameter(torch.full((channels,), 2.0))
        self.root = nn.Parameter(torch.full((channels,), 2.0))
        self.smooth = nn.Parameter(torch.full((channels,), 0.04))
        self.eps = eps

    def forward(self, x):
        s = self.smooth.clamp(0.005, 0.9)
        m = x[:, :, 0]
        states = [m]
        for i in range(1, x.shape[-1]):
            m = (1 - s) * m + s * x[:, :, i]
            states.append(m)
        m = torch.stack(states, -1)
        alpha = self.alpha.clamp(max=1.0)[:, None]
        r = 1.0 / self.root.clamp(min=1.0)[:, None]
        d = self.delta.clamp(min=0.1)[:, None]
        return (x / (m + self.eps) ** alpha + d) ** r - d**r


class FreqConv(nn.Module):
    """Convolution that knows where on the frequency axis it is."""

    def __init__(self, cin, cout, pool):
        super().__init__()
        self.conv = nn.Conv2d(cin + 1, cout, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(4, cout)
        self.pool = pool

    def forward(self, x):
        b, _, f, t = x.shape
        coord = torch.linspace(-1, 1, f).view(1, 1, f, 1).expand(b, 1, f, t)
        x = F.hardswish(self.norm(self.conv(torch.cat([x, coord], 1))))
        return F.lp_pool2d(x, 4.0, self.pool)


class FrogTagger(nn.Module):
    def __init__(self, n_species, filters=32):
        super().__init__()
        self.bank = GaborFilters(filters)
        self.low = GaussianPool(filters)
        self.pcen = PCEN(filters)
        self.body = nn.Sequential(FreqConv(1, 16, (2, 1)), FreqConv(16, 24, (2, 2)), FreqConv(24, 32, (2, 1)))
        self.att = nn.Linear(32 * (filters // 8), n_species)
        self.cls = nn.Linear(32 * (filters // 8), n_species)

    def forward(self, wav):
        x = self.pcen(self.low(self.bank(wav)))
        x = self.body(x.unsqueeze(1))
        x = x.flatten(1, 2).transpose(1, 2)
        a = torch.softmax(self.att(x), 1)
        return (a * self.cls(x)).sum(1)


def chorus(n):
    t = torch.arange(SAMPLES) / RATE
    labels = (torch.rand(n, len(SPECIES)) < 0.3).float()
    wav = 0.05 * torch.randn(n, SAMPLES)
    wav += 0.05 * torch.sin(2 * math.pi * 3500 * t) * torch.rand(n, 1)
    for k, (_, f0, rate, duty) in enumerate(SPECIES):
        f = f0 * (1 + 0.04 * torch.randn(n, 1))
        p = (rate * (1 + 0.1 * torch.randn(n, 1)) * t + torch.rand(n, 1)) % 1.0
        gate = torch.sigmoid((duty - p) * 40)
        call = torch.sin(2 * math.pi * f * t) + 0.4 * torch.sin(4 * math.pi * f * t)
        wav += labels[:, k : k + 1] * (0.06 + 0.3 * torch.rand(n, 1)) * gate * call
    return wav, labels


def average_precision(score, y):
    order = score.argsort(descending=True)
    hit = y[order]
    prec = hit.cumsum(0) / torch.arange(1, len(y) + 1)
    return ((prec * hit).sum() / hit.sum()).item()


def main():
    model = FrogTagger(len(SPECIES))
    net = torch.compile(model)
    opt = torch.optim.RAdam(
        [
            {"params": [*model.bank.parameters()], "lr": 1e-3},
            {"params": [p for n, p in model.named_parameters() if not n.startswith("bank")]},
        ],
        lr=4e-3,
    )
    train_x, train_y = chorus(288)
    test_x, test_y = chorus(96)
    losses = []
    for epoch in range(3):
        for idx in torch.randperm(len(train_x)).split(16):
            wav = torch.roll(train_x[idx], int(torch.randint(SAMPLES, ())), 1)
            loss = F.binary_cross_entropy_with_logits(net(wav), train_y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        score = torch.cat([model(x) for x in test_x.split(32)])
    print(f"loss {sum(losses[:10]) / 10:.3f} -> {sum(losses[-10:]) / 10:.3f}")
    for k, s in enumerate(SPECIES):
        print(f"  {s[0]:11s} AP {average_precision(score[:, k], test_y[:, k]):.3f}")
    print(f"PCEN smoothing {model.pcen.smooth.min().item():.4f}..{model.pcen.smooth.max().item():.4f}")


if __name__ == "__main__":
    main()
