"""3-D acoustic wave propagation of one seismic shot (8th order in space).

Constant-density wave equation with sponge boundaries; records a receiver line.
"""

import math
import os
import time

import torch

device = os.environ.get("DEVICE", "cuda")
SCALE = float(os.environ.get("SCALE", "1"))

N = max(40, int(288 * SCALE ** (1 / 3)))
STEPS = 60
SUB = 2
DX = 10.0
HALF = 4
COEF = [-205.0 / 72.0, 8.0 / 5.0, -1.0 / 5.0, 8.0 / 315.0, -1.0 / 560.0]


def sync():
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def velocity_model():
    z = torch.linspace(0, 1, N, device=device)
    v = 1500.0 + 2000.0 * z[:, None, None].expand(N, N, N)
    x = torch.linspace(-1, 1, N, device=device)
    r2 = (z - 0.6)[:, None, None] ** 2 * 4 + x[None, :, None] ** 2 + x[None, None, :] ** 2
    return torch.where(r2 < 0.15, torch.full_like(v, 4500.0), v).contiguous()


def sponge(width):
    i = torch.arange(N, device=device, dtype=torch.float32)
    edge = torch.minimum(i, N - 1 - i)
    line = torch.exp(-((0.015 * (width - edge).clamp_min(0)) ** 2))
    return line[:, None, None] * line[None, :, None] * line[None, None, :]


def laplacian(p):
    h, m = HALF, p.shape[0] - HALF
    out = 3.0 * COEF[0] * p[h:m, h:m, h:m]
    for k in range(1, HALF + 1):
        out = out + COEF[k] * (
            p[h - k : m - k, h:m, h:m]
            + p[h + k : m + k, h:m, h:m]
            + p[h:m, h - k : m - k, h:m]
            + p[h:m, h + k : m + k, h:m]
            + p[h:m, h:m, h - k : m - k]
            + p[h:m, h:m, h + k : m + k]
        )
    return out


@torch.compile
def advance(p, p_old, c2, damp):
    h, m = HALF, p.shape[0] - HALF
    lap = laplacian(p)
    inner = 2.0 * p[h:m, h:m, h:m] - p_old[h:m, h:m, h:m] + c2[h:m, h:m, h:m] * lap
    new = torch.nn.functional.pad(inner, (h, h, h, h, h, h)) * damp
    return new, p * damp


def ricker(t, freq=18.0):
    a = (math.pi * freq * (t - 1.0 / freq)) ** 2
    return (1 - 2 * a) * math.exp(-a)


@torch.no_grad()
def main():
    v = velocity_model()
    dt = 0.4 * DX / v.max().item()
    c2 = (v * dt / DX) ** 2
    damp = sponge(max(6, N // 12))
    p = torch.zeros(N, N, N, device=device)
    p_old = torch.zeros_like(p)
    wavelet = torch.tensor([ricker(i * dt) for i in range(STEPS * SUB)], device=device)
    src = (HALF + 2, N // 2, N // 2)
    record = torch.zeros(STEPS, N, device=device)
    times = []
    for step in range(STEPS):
        sync()
        t0 = time.perf_counter()
        for s in range(SUB):
            p, p_old = advance(p, p_old, c2, damp)
            p[src] += wavelet[step * SUB + s]
        record[step] = p[HALF + 1, N // 2]
        sync()
        times.append(time.perf_counter() - t0)
        if step % 15 == 0:
            print(
                f"step {step:3d}  max |p| {p.abs().max().item():.4e}"
                f"  record energy {record.square().sum().item():.4e}"
            )
    tail = times[len(times) // 2 :]
    cells = SUB * N**3 / (sum(tail) / len(tail)) / 1e9
    print(f"time per step: {1e3 * sum(tail) / len(tail):.2f} ms  ({cells:.2f} Gcells/s)")


if __name__ == "__main__":
    main()
