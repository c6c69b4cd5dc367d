"""Neural gravity-anomaly field with coarse-to-fine positional encoding.

Fits potential anomalies sampled along satellite ground tracks; high frequency
bands of the encoding are faded in over the first part of training.
"""

import math
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
DEVICE = "cpu" if SMOKE else "cuda"
BATCH = 512 if SMOKE else 262_144
STEPS = 10 if SMOKE else 360
HIDDEN = 32 if SMOKE else 256
N_SAMPLES = 4096 if SMOKE else 8_000_000

torch.set_float32_matmul_precision("high")


class CoarseToFineEncoding(nn.Module):
    def __init__(self, n_bands, fade_steps):
        super().__init__()
        self.n_bands = n_bands
        self.fade_steps = fade_steps
        self.step = 0
        self.register_buffer("bands", math.pi * 2.0 ** torch.arange(n_bands))
        self.register_buffer("order", torch.arange(n_bands).float())

    def forward(self, x):
        if self.training:
            self.step += 1
        progress = min(1.0, self.step / self.fade_steps)
        alpha = 2.0 + (self.n_bands - 2.0) * progress
        weight = 0.5 * (1.0 - torch.cos(math.pi * (alpha - self.order).clamp(0, 1)))
        phase = x[..., None] * self.bands
        enc = torch.cat([phase.sin() * weight, phase.cos() * weight], -1)
        return torch.cat([x, enc.flatten(-2)], -1)


class ResidualLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc = nn.Linear(dim, dim)

    def forward(self, x):
        return x + F.silu(self.fc(self.norm(x)))


class GravityField(nn.Module):
    def __init__(self, n_bands=8, depth=4, fade_steps=200):
        super().__init__()
        self.encode = CoarseToFineEncoding(n_bands, fade_steps)
        self.inp = nn.Linear(4 + 4 * 2 * n_bands, HIDDEN)
        self.layers = nn.Sequential(*[ResidualLayer(HIDDEN) for _ in range(depth)])
        self.out = nn.Linear(HIDDEN, 1)

    def forward(self, pos):
        h = F.silu(self.inp(self.encode(pos)))
        return self.out(self.layers(h)).squeeze(-1)


def ground_tracks():
    g = torch.Generator(device=DEVICE).manual_seed(5)
    t = torch.rand(N_SAMPLES, device=DEVICE, generator=g) * 2000.0
    incl = math.radians(89.0)
    u, lon = 2 * math.pi * t, -0.41 * t
    x = u.cos() * lon.cos() - u.sin() * math.cos(incl) * lon.sin()
    y = u.cos() * lon.sin() + u.sin() * math.cos(incl) * lon.cos()
    z = u.sin() * math.sin(incl)
    alt = 0.08 * torch.rand(N_SAMPLES, device=DEVICE, generator=g)
    pos = torch.stack([x, y, z, alt], -1)
    value = torch.zeros(N_SAMPLES, device=DEVICE)
    for deg in (3, 7, 19, 41):
        d = torch.randn(3, device=DEVICE, generator=g)
        d = deg * d / d.norm()
        value += (pos[:, :3] @ d).sin() * (1 + alt) ** -(deg + 1) / deg**0.5
    value += 0.01 * torch.randn(N_SAMPLES, device=DEVICE, generator=g)
    return pos, value


def main():
    torch.manual_seed(0)
    pos, value = ground_tracks()
    field = GravityField().to(DEVICE)
    opt = torch.optim.AdamW(field.parameters(), lr=2e-3, fused=not SMOKE)
    model = torch.compile(field)
    model.train()

    t0 = time.perf_counter()
    for it in range(STEPS):
        idx = torch.randint(N_SAMPLES, (BATCH,), device=DEVICE)
        pred = model(pos[idx])
        loss = F.smooth_l1_loss(pred, value[idx], beta=0.1)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if (it + 1) % max(1, STEPS // 8) == 0:
            rms = (pred.detach() - value[idx]).square().mean().sqrt().item()
            print(f"it {it + 1:4d}  loss {loss.item():.5f}  rms {rms:.4f}  {time.perf_counter() - t0:.2f} s")


if __name__ == "__main__":
    main()
