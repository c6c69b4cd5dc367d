"""Identify minerals from Raman spectra with learnable prototypes.

Notebook -> script port.  Soft assignments to prototypes start fuzzy and get
sharper during training (temperature annealing), as in the paper.  Synthetic
spectra stand for RRUFF: Lorentzian bands per mineral, fluorescence background,
cosmic ray spikes and shot noise.
"""

import copy
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

POINTS = 512
MINERALS = 40
BATCH = 48
STEPS = 130


class Minerals:
    """Band tables of the minerals and a generator of measured spectra."""

    def __init__(self, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.g = g
        self.centre = torch.rand(MINERALS, 9, generator=g) * 0.9 + 0.05
        self.width = 0.003 + 0.01 * torch.rand(MINERALS, 9, generator=g)
        self.height = torch.rand(MINERALS, 9, generator=g) ** 2 + 0.02
        self.axis = torch.linspace(0, 1, POINTS)

    def batch(self, n):
        g = self.g
        label = torch.randint(0, MINERALS, (n,), generator=g)
        shift = 0.003 * torch.randn(n, 1, generator=g)
        c = (self.centre[label] + shift).unsqueeze(2)
        w = self.width[label].unsqueeze(2) * (0.8 + 0.5 * torch.rand(n, 1, 1, generator=g))
        # orientation of the crystal changes the relative heights
        a = self.height[label] * torch.exp(0.5 * torch.randn(n, 9, generator=g))
        x = (a.unsqueeze(2) / (1 + ((self.axis - c) / w) ** 2)).sum(1)
        slope = torch.randn(n, 3, generator=g)
        x = x + 0.6 * torch.exp(slope[:, :1] * self.axis + slope[:, 1:2] * self.axis**2 - 1)
        spikes = (torch.rand(n, POINTS, generator=g) < 0.002).float()
        x = x + 2.0 * spikes + 0.04 * torch.randn(n, POINTS, generator=g)
        x = x - x.amin(1, keepdim=True)
        return x / x.amax(1, keepdim=True), label


class SpectralBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv1d(cin, cout, 7, stride=stride, padding=3)
        self.norm1 = nn.GroupNorm(4, cout)
        self.conv2 = nn.Conv1d(cout, cout, 5, padding=2)
        self.norm2 = nn.GroupNorm(4, cout)
        self.skip = nn.Conv1d(cin, cout, 1, stride=stride)
        self.gate = nn.Parameter(torch.zeros(cout, 1))

    def forward(self, x):
        h = F.silu(self.norm1(self.conv1(x)))
        h = self.norm2(self.conv2(h))
        return F.silu(self.skip(x) + torch.sigmoid(self.gate) * h)


class PrototypeNet(nn.Module):
    def __init__(self, per_class=3, dim=64, start=1.0, end=0.08, warm=100):
        super().__init__()
        self.blocks = nn.Sequential(
            SpectralBlock(2, 24, 2), SpectralBlock(24, 32, 2), SpectralBlock(32, 48, 2)
        )
        # attention pooling: every head also has its own preference for a place on the axis
        self.attn = nn.Conv1d(48, 16, 1)
        self.where = nn.Parameter(2.0 * torch.randn(16, POINTS // 8))
        self.project = nn.Linear(16 * 48, dim)
        self.prototypes = nn.Parameter(F.normalize(torch.randn(MINERALS, per_class, dim), dim=-1))
        self.start, self.end, self.warm = start, end, warm
        self.seen = 0  # batches seen, for the temperature

    def temperature(self):
        frac = min(1.0, self.seen / self.warm)
        return self.end + 0.5 * (self.start - self.end) * (1 + math.cos(math.pi * frac))

    def forward(self, x):
        if self.training:
            self.seen += 1
        baseline = F.avg_pool1d(x.unsqueeze(1), 65, stride=1, padding=32, count_include_pad=False)
        h = self.blocks(torch.cat([x.unsqueeze(1), x.unsqueeze(1) - baseline], 1))
        weights = (self.attn(h) + self.where).softmax(-1)
        pooled = torch.einsum("bkt,bct->bkc", weights, h).flatten(1)
        z = F.normalize(self.project(pooled), dim=-1)
        sim = torch.einsum("bd,mpd->bmp", z, F.normalize(self.prototypes, dim=-1))
        tau = self.temperature()
        assign = F.softmax(sim / tau, dim=-1)
        logits = 12.0 * (assign * sim).sum(-1)
        usage = assign.mean((0, 1))
        return logits, usage, z


class History:
    """Callback that collects metrics and prints every few steps."""

    def __init__(self, every):
        self.every, self.rows, self.t0 = every, [], time.perf_counter()

    def __call__(self, step, metrics):
        self.rows.append(metrics)
        if step % self.every == 0:
            recent = self.rows[-self.every :]
            text = "  ".join(f"{k} {sum(r[k] for r in recent) / len(recent):.4f}" for k in metrics)
            print(f"step {step:4d}  {text}  ({time.perf_counter() - self.t0:.1f} s)")


@torch.no_grad()
def update_ema(ema, model, decay=0.97):
    for pe, p in zip(ema.parameters(), model.parameters()):
        pe.lerp_(p, 1 - decay)


@torch.no_grad()
def top_k_accuracy(model, data, batches=4, k=3):
    hits1 = hitsk = total = 0
    model.eval()
    for _ in range(batches):
        x, y = data.batch(BATCH)
        logits, _, _ = model(x)
        top = logits.topk(k, dim=-1).indices
        hits1 += int((top[:, 0] == y).sum())
        hitsk += int((top == y[:, None]).any(-1).sum())
        total += len(y)
    model.train()
    return hits1 / total, hitsk / total


def main():
    torch.manual_seed(0)
    data = Minerals()
    model = PrototypeNet()
    ema = copy.deepcopy(model)
    model.compile()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)
    history = History(every=26)
    for step in range(1, STEPS + 1):
        x, y = data.batch(BATCH)
        logits, usage, z = model(x)
        ce = F.cross_entropy(logits, y, label_smoothing=0.05)
        spread = (usage * usage.clamp(min=1e-6).log()).sum()
        loss = ce + 0.05 * spread
        opt.zero_grad()
        loss.backward()
        gnorm = nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        opt.step()
        update_ema(ema, model)
        history(
            step,
            {
                "loss": loss.item(),
                "acc": (logits.argmax(-1) == y).float().mean().item(),
                "grad": float(gnorm),
                "tau": model.temperature(),
            },
        )
    ema.seen = model.seen
    print("ema   top-1 {:.3f}  top-3 {:.3f}".format(*top_k_accuracy(ema, data)))
    print("model top-1 {:.3f}  top-3 {:.3f}".format(*top_k_accuracy(model, data)))


if __name__ == "__main__":
    main()
