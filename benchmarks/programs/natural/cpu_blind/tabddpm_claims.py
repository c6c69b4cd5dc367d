"""Diffusion model for synthetic insurance-claims tables (TabDDPM-like).

Numerical columns are quantile-normalised upstream; the denoiser is a residual
MLP with time/label conditioning. Trains, then samples a few rows for a sanity
check of the column means.
"""

import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

N_COLS, N_CLASSES, T_MAX = 48, 5, 200


def cosine_alphas(n, s=0.008):
    t = torch.linspace(0, 1, n + 1, dtype=torch.float64)
    bar = torch.cos((t + s) / (1 + s) * math.pi / 2) ** 2
    betas = (1 - bar[1:] / bar[:-1]).clamp(max=0.999)
    return torch.cumprod(1 - betas, 0).float(), betas.float()


class TimeTable(nn.Module):
    def __init__(self, dim, n=T_MAX):
        super().__init__()
        freqs = torch.exp(-math.log(10000) * torch.arange(dim // 2) / (dim // 2))
        arg = torch.arange(n)[:, None] * freqs[None]
        self.register_buffer("table", torch.cat([arg.cos(), arg.sin()], -1))

    def forward(self, t):
        return self.table[t]


class ResBlock(nn.Module):
    def __init__(self, dim, cond):
        super().__init__()
        self.norm = nn.LayerNorm(dim, elementwise_affine=False)
        self.film = nn.Linear(cond, 2 * dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(dim, dim)

    def forward(self, x, c):
        scale, shift = self.film(c).chunk(2, -1)
        h = self.norm(x) * (1 + scale) + shift
        a, b = self.up(h).chunk(2, -1)
        return x + self.down(F.silu(a) * b)


class Denoiser(nn.Module):
    def __init__(self, dim=160, cond=48, depth=4):
        super().__init__()
        self.time = nn.Sequential(TimeTable(cond), nn.Linear(cond, cond), nn.SiLU(), nn.Linear(cond, cond))
        self.label = nn.Embedding(N_CLASSES, cond)
        self.inp = nn.Linear(N_COLS, dim)
        self.blocks = nn.ModuleList(ResBlock(dim, cond) for _ in range(depth))
        self.out = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, N_COLS))

    def forward(self, x, t, y):
        c = F.silu(self.time(t) + self.label(y))
        h = self.inp(x)
        for block in self.blocks:
            h = block(h, c)
        return self.out(h)


class GaussianDiffusion(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
        bar, betas = cosine_alphas(T_MAX)
        self.register_buffer("bar", bar)
        self.register_buffer("betas", betas)

    def forward(self, x0, t, y, noise):
        bar = self.bar[t][:, None]
        xt = bar.sqrt() * x0 + (1 - bar).sqrt() * noise
        snr = bar / (1 - bar)
        weight = snr.clamp(max=5.0) / snr
        return (weight * F.smooth_l1_loss(self.net(xt, t, y), noise, reduction="none")).mean()

    @torch.no_grad()
    def sample(self, n, y):
        x = torch.randn(n, N_COLS)
        for i in reversed(range(T_MAX)):
            t = torch.full((n,), i)
            eps = self.net(x, t, y)
            bar, beta = self.bar[i], self.betas[i]
            prev = self.bar[i - 1] if i else torch.ones(())
            x0 = ((x - (1 - bar).sqrt() * eps) / bar.sqrt()).clamp(-4, 4)
            x = (prev.sqrt() * beta * x0 + (1 - beta).sqrt() * (1 - prev) * x) / (1 - bar)
            if i:
                x = x + (beta * (1 - prev) / (1 - bar)).sqrt() * torch.randn_like(x)
        return x


def claims_table(n, g):
    y = torch.randint(0, N_CLASSES, (n,), generator=g)
    mix = torch.randn(12, N_COLS, generator=g) / 3
    centre = torch.randn(N_CLASSES, N_COLS, generator=g)
    x = centre[y] + torch.randn(n, 12, generator=g) @ mix + 0.3 * torch.randn(n, N_COLS, generator=g)
    return (x - x.mean(0)) / x.std(0), y


def main():
    torch.manual_seed(5)
    g = torch.Generator().manual_seed(5)
    x, y = claims_table(60000, g)
    model = GaussianDiffusion(Denoiser())
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4, fused=True)
    step_loss = torch.compile(model)
    batch, times, running = 4096, [], 0.0
    for step in range(120):
        idx = torch.randint(0, len(x), (batch,))
        x0, lab = x[idx], y[idx]
        t = torch.randint(0, T_MAX, (batch,))
        noise = torch.randn(batch, N_COLS)
        t0 = time.perf_counter()
        loss = step_loss(x0, t, lab, noise)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        times.append(time.perf_counter() - t0)
        running = loss.item() if step == 0 else 0.95 * running + 0.05 * loss.item()
        if (step + 1) % 40 == 0:
            print(f"step {step + 1}: loss {running:.4f}")
    lab = torch.arange(N_CLASSES).repeat_interleave(40)
    fake = model.sample(len(lab), lab)
    gap = max((fake[lab == k].mean(0) - x[y == k].mean(0)).abs().mean().item() for k in range(N_CLASSES))
    times = sorted(times[10:])
    print(f"worst class-mean gap {gap:.3f}; {times[len(times) // 2] * 1e3:.1f} ms/step")


if __name__ == "__main__":
    main()
