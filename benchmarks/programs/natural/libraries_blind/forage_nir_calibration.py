"""NIR calibration of forage quality (dry matter, protein, NDF, ADF, sugar) with RAdam from torch_optimizer.

Residual MLP on SNV + derivative pre-treated spectra; the forward pass and the optimizer step are both compiled.
"""

import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_optimizer

BANDS = 700
TARGETS = ["DM", "CP", "NDF", "ADF", "WSC"]
WIDTH = 448
BLOCKS = 6
BATCH = 32
EPOCHS = 3


def make_spectra(n, gen):
    """Beer-Lambert mixtures of overtone bands with scatter, baseline and instrument drift."""
    wl = torch.linspace(1100, 2500, BANDS)
    centres = torch.tensor(
        [
            1200.0,
            1360.0,
            1450.0,
            1490.0,
            1580.0,
            1690.0,
            1730.0,
            1780.0,
            1940.0,
            2055.0,
            2100.0,
            2180.0,
            2270.0,
            2310.0,
            2350.0,
        ]
    )
    widths = torch.tensor(
        [40.0, 45.0, 50.0, 35.0, 40.0, 30.0, 25.0, 30.0, 45.0, 35.0, 50.0, 35.0, 30.0, 25.0, 30.0]
    )
    bands = torch.exp(-0.5 * ((wl[None] - centres[:, None]) / widths[:, None]) ** 2)
    mix = torch.rand(5, len(centres), generator=gen) ** 3
    mean = torch.tensor([0.45, 0.14, 0.46, 0.28, 0.10])
    sd = torch.tensor([0.15, 0.04, 0.08, 0.05, 0.04])
    z = torch.randn(n, 5, generator=gen)
    z[:, 3] = 0.8 * z[:, 2] + 0.6 * z[:, 3]
    y = (mean + sd * z).clamp_min(0.01)
    water = 1.0 - y[:, :1]
    conc = torch.cat([water, y[:, 1:]], dim=1)
    spec = conc @ (mix @ bands)
    path = 1.0 + 0.15 * torch.randn(n, 1, generator=gen)
    t = (wl - 1800) / 700
    base = (
        0.1 * torch.randn(n, 1, generator=gen)
        + 0.05 * torch.randn(n, 1, generator=gen) * t
        + 0.02 * torch.randn(n, 1, generator=gen) * t**2
    )
    return path * spec + base + 0.001 * torch.randn(n, BANDS, generator=gen), z


def snv(x):
    return (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)


def savgol_first_derivative(x, half=5):
    k = torch.arange(-half, half + 1, dtype=x.dtype)
    k = (k / (k * k).sum()).view(1, 1, -1)
    return F.conv1d(F.pad(x[:, None], (half, half), mode="replicate"), k)[:, 0]


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return x + self.drop(self.down(F.silu(self.up(self.norm(x)))))


class Calibration(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(2 * BANDS, WIDTH)
        self.blocks = nn.Sequential(*[Block(WIDTH) for _ in range(BLOCKS)])
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(TARGETS)))

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)))


def pretreat(x):
    s = snv(x)
    return torch.cat([s, 20.0 * savgol_first_derivative(s)], dim=1)


def main():
    torch.manual_seed(8)
    gen = torch.Generator().manual_seed(8)
    x, y = make_spectra(2048 + 512, gen)
    x = pretreat(x)
    xv, yv, x, y = x[2048:], y[2048:], x[:2048], y[:2048]

    model = Calibration()
    optimizer = torch_optimizer.RAdam(model.parameters(), lr=5e-4, betas=(0.9, 0.99), weight_decay=1e-4)
    forward = torch.compile(model)
    opt_step = torch.compile(optimizer.step)
    print(
        f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters in {len(list(model.parameters()))} tensors"
    )

    total = EPOCHS * (len(x) // BATCH)
    step, start, in_opt = 0, time.perf_counter(), 0.0
    for epoch in range(EPOCHS):
        model.train()
        perm, losses = torch.randperm(len(x), generator=gen), []
        for idx in perm.split(BATCH):
            for group in optimizer.param_groups:
                group["lr"] = 5e-4 * 0.5 * (1 + math.cos(math.pi * step / total))
            loss = F.smooth_l1_loss(forward(x[idx]), y[idx], beta=0.5)
            optimizer.zero_grad()
            loss.backward()
            t0 = time.perf_counter()
            opt_step()
            in_opt += time.perf_counter() - t0
            losses.append(loss.detach())
            step += 1
        model.eval()
        with torch.no_grad():
            pred = forward(xv)
        r2 = 1 - ((pred - yv) ** 2).sum(0) / ((yv - yv.mean(0)) ** 2).sum(0)
        print(
            f"epoch {epoch}  loss {torch.stack(losses).mean():.4f}  R2 "
            + "  ".join(f"{n} {v:.3f}" for n, v in zip(TARGETS, r2.tolist()))
            + f"  {time.perf_counter() - start:5.1f} s (optimizer {in_opt:.1f} s)"
        )
    rpd = yv.std(0) / (pred - yv).std(0)
    print("RPD", [f"{v:.2f}" for v in rpd.tolist()])


if __name__ == "__main__":
    main()
