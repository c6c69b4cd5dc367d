"""Forecast-error anomaly detector on satellite telemetry with S4D layers."""

import math
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1.0"))

CHANNELS = 24
LENGTH = max(128, int(2048 * SCALE))
WIDTH = max(32, int(256 * min(1.0, SCALE * 4)))
BATCH = max(2, int(16 * SCALE))
STATE = 64
LAYERS = 4
STEPS = 40


class S4DKernel(nn.Module):
    def __init__(self, width, state=64, dt_min=1e-3, dt_max=1e-1):
        super().__init__()
        log_dt = torch.rand(width) * (math.log(dt_max) - math.log(dt_min)) + math.log(dt_min)
        self.log_dt = nn.Parameter(log_dt)
        c = torch.randn(width, state // 2, dtype=torch.cfloat)
        self.C = nn.Parameter(torch.view_as_real(c).clone())
        self.log_A_real = nn.Parameter(torch.log(0.5 * torch.ones(width, state // 2)))
        self.A_imag = nn.Parameter(math.pi * torch.arange(state // 2).float().repeat(width, 1))

    def forward(self, length):
        dt = torch.exp(self.log_dt)
        C = torch.view_as_complex(self.C)
        A = -torch.exp(self.log_A_real) + 1j * self.A_imag
        dtA = A * dt.unsqueeze(-1)
        K = dtA.unsqueeze(-1) * torch.arange(length, device=A.device)
        C = C * (torch.exp(dtA) - 1.0) / A
        return 2 * torch.einsum("hn,hnl->hl", C, torch.exp(K)).real


class S4DBlock(nn.Module):
    def __init__(self, width, state):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.kernel = S4DKernel(width, state)
        self.D = nn.Parameter(torch.randn(width))
        self.out = nn.Linear(width, 2 * width)

    def forward(self, x):
        L = x.size(1)
        u = self.norm(x).transpose(1, 2)
        k = self.kernel(L)
        k_f = torch.fft.rfft(k, n=2 * L)
        u_f = torch.fft.rfft(u, n=2 * L)
        y = torch.fft.irfft(u_f * k_f, n=2 * L)[..., :L]
        y = y + u * self.D.unsqueeze(-1)
        y = F.gelu(y).transpose(1, 2)
        return x + F.glu(self.out(y), dim=-1)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(CHANNELS, WIDTH)
        self.blocks = nn.ModuleList([S4DBlock(WIDTH, STATE) for _ in range(LAYERS)])
        self.head = nn.Linear(WIDTH, CHANNELS)

    def forward(self, x):
        h = self.embed(x)
        for b in self.blocks:
            h = b(h)
        return self.head(h)


def telemetry(batch, length, gen):
    t = torch.arange(length + 1).float()
    freq = torch.rand(batch, 1, CHANNELS, generator=gen) * 0.08 + 0.002
    phase = torch.rand(batch, 1, CHANNELS, generator=gen) * 6.28
    x = torch.sin(freq * t[None, :, None] + phase)
    drift = torch.cumsum(torch.randn(batch, length + 1, CHANNELS, generator=gen) * 0.01, dim=1)
    return x + drift + 0.02 * torch.randn(batch, length + 1, CHANNELS, generator=gen)


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    model = Forecaster().to(DEVICE)
    compiled = torch.compile(model)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    pool = [telemetry(BATCH, LENGTH, gen).to(DEVICE) for _ in range(4)]

    for step in range(STEPS):
        if step == 10:
            if DEVICE == "cuda":
                torch.cuda.synchronize()
            t0 = time.perf_counter()
        seq = pool[step % len(pool)]
        pred = compiled(seq[:, :-1])
        loss = F.smooth_l1_loss(pred, seq[:, 1:])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    print(f"step {(time.perf_counter() - t0) / (STEPS - 10) * 1e3:.2f} ms")

    residual = (pred.detach() - seq[:, 1:]).abs()
    threshold = residual.mean() + 3 * residual.std()
    print(f"loss {loss.item():.5f}  flagged {(residual > threshold).float().mean().item():.4%}")


if __name__ == "__main__":
    main()
