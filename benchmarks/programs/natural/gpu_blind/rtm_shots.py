"""Forward modelling of a group of shots for reverse-time migration (2-D acoustic)."""

import math
import os
import time

import torch

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1.0"))

SHOTS = max(2, int(24 * SCALE))
NZ = max(96, int(640 * min(1.0, SCALE**0.5)))
NX = max(128, int(1024 * min(1.0, SCALE**0.5)))
DH = 8.0
DT = 8e-4
SUB = 5
BLOCKS = 60
BORDER = 30
RECEIVER_DEPTH = 6

W = (-205.0 / 72.0, 8.0 / 5.0, -1.0 / 5.0, 8.0 / 315.0, -1.0 / 560.0)


def velocity_model():
    z = torch.arange(NZ).float()[:, None] / NZ
    x = torch.arange(NX).float()[None, :] / NX
    v = 1600.0 + 1400.0 * z + 0.0 * x
    dip = 0.45 + 0.12 * torch.sin(2 * math.pi * x)
    v = torch.where(z > dip, v + 500.0, v)
    salt = ((z - 0.55) / 0.12) ** 2 + ((x - 0.6) / 0.15) ** 2 < 1
    return torch.where(salt, torch.full_like(v, 4300.0), v)


def sponge():
    def ramp(n):
        i = torch.arange(n).float()
        edge = torch.minimum(i, n - 1 - i)
        d = (BORDER - edge).clamp(min=0)
        return torch.exp(-((0.012 * d) ** 2))

    return ramp(NZ)[:, None] * ramp(NX)[None, :]


def ricker(n, f0=12.0):
    t = torch.arange(n).float() * DT - 1.0 / f0
    a = (math.pi * f0 * t) ** 2
    return (1 - 2 * a) * torch.exp(-a)


def laplacian(p):
    lap = 2 * W[0] * p
    for k in range(1, 5):
        lap = lap + W[k] * (
            torch.roll(p, k, 1) + torch.roll(p, -k, 1) + torch.roll(p, k, 2) + torch.roll(p, -k, 2)
        )
    return lap / (DH * DH)


@torch.compile
def advance(p, p_old, v2dt2, taper, amp, shot, src_z, src_x):
    rec = []
    for k in range(SUB):
        p_new = (2.0 * p - taper * p_old + v2dt2 * laplacian(p)) * taper
        p_new[shot, src_z, src_x] += amp[k]
        rec.append(p_new[:, RECEIVER_DEPTH, BORDER:-BORDER])
        p_old, p = p, p_new
    return p, p_old, torch.stack(rec, dim=1)


def main():
    v = velocity_model().to(DEVICE)
    taper = sponge().to(DEVICE)
    v2dt2 = (v * DT) ** 2
    wavelet = ricker(SUB * BLOCKS).to(DEVICE) * 10.0
    shot = torch.arange(SHOTS, device=DEVICE)
    src_x = torch.linspace(BORDER + 4, NX - BORDER - 5, SHOTS).long().to(DEVICE)
    src_z = torch.full((SHOTS,), 5, device=DEVICE)

    p = torch.zeros(SHOTS, NZ, NX, device=DEVICE)
    p_old = torch.zeros_like(p)
    illum = torch.zeros(NZ, NX, device=DEVICE)
    gather = []
    with torch.no_grad():
        for b in range(BLOCKS):
            if b == 10:
                if DEVICE == "cuda":
                    torch.cuda.synchronize()
                t0 = time.perf_counter()
            amp = wavelet[b * SUB : (b + 1) * SUB]
            p, p_old, rec = advance(p, p_old, v2dt2, taper, amp, shot, src_z, src_x)
            gather.append(rec)
            if b % 10 == 9:
                illum += p.square().sum(dim=0)
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    ms = (time.perf_counter() - t0) / (BLOCKS - 10) * 1e3

    section = torch.cat(gather, dim=1)
    print(f"{SHOTS} shots {NZ}x{NX}: {ms:.3f} ms per {SUB} time steps")
    print(f"trace energy {section.square().mean().item():.6e}  illumination {illum.sum().item():.6e}")


if __name__ == "__main__":
    main()
