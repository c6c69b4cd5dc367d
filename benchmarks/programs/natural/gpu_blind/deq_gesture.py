"""Deep-equilibrium classifier for wearable-sensor gesture windows.

The hidden state is the fixed point of one weight-tied cell, found by damped
iteration to a tolerance; gradients use the one-step (Jacobian-free) estimate.
"""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
DEV = "cpu" if SMOKE else "cuda"
BATCH = 16 if SMOKE else 256
DIM = 32 if SMOKE else 384
STEPS = 2 if SMOKE else 400
WARM = 1 if SMOKE else 10
SENSORS, LENGTH, CLASSES = 9, 64, 12


class Cell(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.w1 = nn.Linear(dim, dim)
        self.w2 = nn.Linear(dim, dim)
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        for lin in (self.w1, self.w2):
            nn.init.normal_(lin.weight, std=0.5 / dim**0.5)
            nn.init.zeros_(lin.bias)

    def forward(self, z, x):
        h = self.norm1(F.relu(self.w1(z)))
        return self.norm2(F.relu(x + 0.4 * self.w2(h) + 0.5 * z))


class GestureDEQ(nn.Module):
    def __init__(self, dim, max_iter=40, tol=1e-4, damping=0.8):
        super().__init__()
        self.encode = nn.Sequential(
            nn.Conv1d(SENSORS, 64, 5, stride=2, padding=2),
            nn.GELU(),
            nn.Conv1d(64, 128, 5, stride=2, padding=2),
            nn.GELU(),
            nn.Flatten(),
            nn.Linear(128 * LENGTH // 4, dim),
            nn.LayerNorm(dim),
        )
        self.cell = Cell(dim)
        self.head = nn.Linear(dim, CLASSES)
        self.max_iter, self.tol, self.damping = max_iter, tol, damping

    @torch.no_grad()
    def solve(self, x):
        z = torch.zeros_like(x)
        for _ in range(self.max_iter):
            z_new = (1 - self.damping) * z + self.damping * self.cell(z, x)
            rel = (z_new - z).norm() / (z_new.norm() + 1e-8)
            z = z_new
            if rel.item() < self.tol:
                break
        return z

    def forward(self, window):
        x = self.encode(window)
        z = self.solve(x)
        z = self.cell(z, x)
        return self.head(z), z


class GestureStream:
    """Random smooth templates per class plus jitter and noise."""

    def __init__(self):
        self.gen = torch.Generator(device=DEV).manual_seed(2)
        base = torch.randn(CLASSES, SENSORS, LENGTH, device=DEV, generator=self.gen)
        self.templates = F.avg_pool1d(base, 9, stride=1, padding=4) * 3

    def batch(self):
        y = torch.randint(0, CLASSES, (BATCH,), device=DEV, generator=self.gen)
        gain = 0.7 + 0.6 * torch.rand(BATCH, 1, 1, device=DEV, generator=self.gen)
        noise = torch.randn(BATCH, SENSORS, LENGTH, device=DEV, generator=self.gen)
        return self.templates[y] * gain + noise, y


def residual(net, window):
    with torch.no_grad():
        x = net.encode(window)
        z = net.solve(x)
        return ((net.cell(z, x) - z).norm() / z.norm()).item()


def sync():
    if DEV == "cuda":
        torch.cuda.synchronize()


def main():
    torch.manual_seed(0)
    stream = GestureStream()
    net = GestureDEQ(DIM).to(DEV)
    model = torch.compile(net)
    opt = torch.optim.Adam(net.parameters(), lr=3e-4, fused=not SMOKE)

    def train_step():
        window, y = stream.batch()
        logits, z = model(window)
        loss = F.cross_entropy(logits, y) + 1e-4 * z.square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return loss.detach(), (logits.detach().argmax(1) == y).float().mean()

    hist = [train_step() for _ in range(WARM)]
    sync()
    t0 = time.perf_counter()
    for _ in range(STEPS):
        hist.append(train_step())
    sync()
    dt = (time.perf_counter() - t0) / STEPS
    first, last = hist[0][0].item(), hist[-1][0].item()
    acc = torch.stack([a for _, a in hist[-20:]]).mean().item()
    res = residual(net, stream.batch()[0])
    ok = last == last and res < 5e-2 and (SMOKE or last < first)
    print(f"ok={ok} loss {first:.3f} -> {last:.3f} acc={acc:.3f} fixed-point residual={res:.2e}")
    print(f"time per call: {dt * 1e3:.3f} ms")
    assert ok


if __name__ == "__main__":
    main()
