"""Class-conditional flow sampler (Heun) for calorimeter-like shower vectors; reports the
number of function evaluations per sample as is usual for continuous flows."""

import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(21)

N_SAMPLES = 12288
FEATURES = 18
HIDDEN = 64
CLASSES = 6


class TimeEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        half = dim // 2
        self.register_buffer("freqs", torch.exp(-math.log(1000.0) * torch.arange(half) / half))
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, t):
        ang = 100.0 * t * self.freqs
        return self.mlp(torch.cat((ang.sin(), ang.cos())).unsqueeze(0))


class GatedBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim, elementwise_affine=False)
        self.mod = nn.Linear(dim, 3 * dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(dim, dim)

    def forward(self, h, cond):
        shift, scale, gate = self.mod(F.silu(cond)).chunk(3, dim=-1)
        z = self.norm(h) * (1 + scale) + shift
        a, b = self.up(z).chunk(2, dim=-1)
        z = torch.tanh(a) * torch.sigmoid(b)
        return h + torch.sigmoid(gate) * self.down(z)


class VelocityField(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(FEATURES, HIDDEN)
        self.label = nn.Embedding(CLASSES, HIDDEN)
        self.temb = TimeEmbedding(HIDDEN)
        self.blocks = nn.ModuleList(GatedBlock(HIDDEN) for _ in range(3))
        self.norm = nn.LayerNorm(HIDDEN)
        self.out = nn.Linear(HIDDEN, FEATURES)
        self.nfe = 0

    def forward(self, t, x, y):
        self.nfe += 1
        cond = self.label(y) + self.temb(t)
        h = self.inp(x)
        for blk in self.blocks:
            h = blk(h, cond)
        v = self.out(F.silu(self.norm(h)))
        return v - 0.1 * x


class HeunSolver:
    def __init__(self, field, steps):
        self.field = field
        self.ts = torch.linspace(0.0, 1.0, steps + 1)
        self.step_times = []

    @torch.no_grad()
    def sample(self, x, y):
        for i in range(len(self.ts) - 1):
            t0 = time.perf_counter()
            t, t_next = self.ts[i], self.ts[i + 1]
            dt = t_next - t
            k1 = self.field(t, x, y)
            k2 = self.field(t_next, x + dt * k1, y)
            x = x + 0.5 * dt * (k1 + k2)
            self.step_times.append(time.perf_counter() - t0)
        return x


def main():
    field = VelocityField().eval()
    for p in field.parameters():
        p.requires_grad_(False)
    fast_field = torch.compile(field)
    labels = torch.randint(0, CLASSES, (N_SAMPLES,))

    solver = HeunSolver(fast_field, steps=8)
    solver.sample(torch.randn(N_SAMPLES, FEATURES), labels)  # warm-up

    solver = HeunSolver(fast_field, steps=10)
    before = field.nfe
    for rnd in range(2):
        x = solver.sample(torch.randn(N_SAMPLES, FEATURES), labels)
        energy = F.softplus(x).sum(1)
        print(f"round {rnd}: mean energy {energy.mean():.4f}  spread {energy.std():.4f}")
    print(f"nfe per sample {(field.nfe - before) // 2}")
    ts = solver.step_times
    print(f"{1e3 * sum(ts) / len(ts):.2f} ms per solver step")


if __name__ == "__main__":
    main()
