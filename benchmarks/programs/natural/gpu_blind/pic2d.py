#!/usr/bin/env python
# 2D electrostatic particle-in-cell: counter-streaming electron beams in a periodic box.
# Cloud-in-cell weighting, spectral Poisson solver, leapfrog. Normalised to w_p = 1, v_th units of c/10.
import math
import os
import time
from dataclasses import dataclass

import torch

SMOKE = os.environ.get("SMOKE") == "1"
dev = torch.device("cpu" if SMOKE else "cuda")


@dataclass(frozen=True)
class Setup:
    nx: int = 512
    ny: int = 256
    lx: float = 8 * math.pi
    ly: float = 4 * math.pi
    per_cell: int = 96
    dt: float = 0.1
    v_beam: float = 1.0
    v_th: float = 0.05
    dumps: int = 40
    substeps: int = 5


S = Setup(nx=32, ny=16, per_cell=8, dumps=3, substeps=2) if SMOKE else Setup()
DX, DY = S.lx / S.nx, S.ly / S.ny
NP = S.nx * S.ny * S.per_cell
WEIGHT = 1.0 / S.per_cell  # each particle's share of the mean density
QM = -1.0  # charge-to-mass of electrons


def load_particles():
    g = torch.Generator(device=dev).manual_seed(2024)
    x = torch.rand(NP, device=dev, generator=g) * S.lx
    y = torch.rand(NP, device=dev, generator=g) * S.ly
    sign = torch.where(torch.arange(NP, device=dev) % 2 == 0, 1.0, -1.0)
    vx = sign * S.v_beam + S.v_th * torch.randn(NP, device=dev, generator=g)
    vy = S.v_th * torch.randn(NP, device=dev, generator=g)
    # seed the most unstable mode
    k = 2 * math.pi / S.lx * 2
    x = torch.remainder(x + 1e-3 * torch.sin(k * x), S.lx)
    return x, y, vx, vy


def spectral_tables():
    kx = 2 * math.pi * torch.fft.fftfreq(S.nx, d=DX, device=dev)
    ky = 2 * math.pi * torch.fft.rfftfreq(S.ny, d=DY, device=dev)
    kx, ky = torch.meshgrid(kx, ky, indexing="ij")
    k2 = kx**2 + ky**2
    inv = torch.where(k2 > 0, 1.0 / k2.clamp_min(1e-12), torch.zeros_like(k2))
    return torch.complex(torch.zeros_like(kx), -kx * inv), torch.complex(torch.zeros_like(ky), -ky * inv)


def cic(x, y):
    fx, fy = x / DX, y / DY
    i, j = fx.floor(), fy.floor()
    wx, wy = fx - i, fy - j
    i0, j0 = i.long() % S.nx, j.long() % S.ny
    i1, j1 = (i0 + 1) % S.nx, (j0 + 1) % S.ny
    cells = (i0 * S.ny + j0, i1 * S.ny + j0, i0 * S.ny + j1, i1 * S.ny + j1)
    weights = ((1 - wx) * (1 - wy), wx * (1 - wy), (1 - wx) * wy, wx * wy)
    return cells, weights


def deposit(x, y):
    rho = torch.zeros(S.nx * S.ny, device=x.device)
    cells, weights = cic(x, y)
    for c, w in zip(cells, weights):
        rho = rho.index_add(0, c, w)
    # electrons are negative, immobile ions neutralise
    return (1.0 - rho * WEIGHT).view(S.nx, S.ny)


def field(rho, gx, gy):
    rk = torch.fft.rfft2(rho)
    ex = torch.fft.irfft2(gx * rk, s=(S.nx, S.ny))
    ey = torch.fft.irfft2(gy * rk, s=(S.nx, S.ny))
    return ex, ey


def push(x, y, vx, vy, ex, ey):
    cells, weights = cic(x, y)
    ex, ey = ex.reshape(-1), ey.reshape(-1)
    px = torch.zeros_like(x)
    py = torch.zeros_like(y)
    for c, w in zip(cells, weights):
        px = px + w * ex[c]
        py = py + w * ey[c]
    vx = vx + QM * S.dt * px
    vy = vy + QM * S.dt * py
    x = torch.remainder(x + S.dt * vx, S.lx)
    y = torch.remainder(y + S.dt * vy, S.ly)
    return x, y, vx, vy


@torch.compile
def step(x, y, vx, vy, gx, gy):
    ex, ey = field(deposit(x, y), gx, gy)
    x, y, vx, vy = push(x, y, vx, vy, ex, ey)
    return x, y, vx, vy, ex, ey


@torch.no_grad()
def main():
    x, y, vx, vy = load_particles()
    gx, gy = spectral_tables()
    print(f"{NP / 1e6:.2f} M particles on {S.nx} x {S.ny}, dt = {S.dt}")
    history = []
    start = time.perf_counter()
    for d in range(S.dumps):
        for _ in range(S.substeps):
            x, y, vx, vy, ex, ey = step(x, y, vx, vy, gx, gy)
        w_field = 0.5 * (ex.square() + ey.square()).sum() * DX * DY
        w_kin = 0.5 * (vx.square() + vy.square()).mean() * S.lx * S.ly
        history.append((w_field.item(), w_kin.item()))
        if d % 5 == 4 or d == S.dumps - 1:
            t = (d + 1) * S.substeps * S.dt
            print(
                f"t = {t:6.2f}  W_E = {history[-1][0]:.4e}  W_K = {history[-1][1]:.4f}"
                f"  [{time.perf_counter() - start:.1f} s]"
            )
    tot0, tot1 = sum(history[0]), sum(history[-1])
    print(f"energy drift {(tot1 - tot0) / tot0:+.2e}, field growth x{history[-1][0] / history[0][0]:.1f}")


if __name__ == "__main__":
    main()
