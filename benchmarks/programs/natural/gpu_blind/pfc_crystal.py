"""Polycrystal growth with the phase-field-crystal model, pseudo-spectral in 2-D.

  d psi/dt = lap[ (r + (1 + lap)^2) psi + psi^3 ]
Semi-implicit in the linear part, 2/3-rule dealiasing of the cubic term.
"""

import argparse
import math
import os
import time

import torch

SMOKE = os.environ.get("SMOKE") == "1"


class PhaseFieldCrystal:
    def __init__(self, n, dx, r, dt, device):
        self.n, self.dx, self.r, self.dt = n, dx, r, dt
        kx = 2 * math.pi * torch.fft.fftfreq(n, d=dx, device=device)
        ky = 2 * math.pi * torch.fft.rfftfreq(n, d=dx, device=device)
        self.k2 = kx[:, None] ** 2 + ky[None, :] ** 2
        self.lin = r + (1.0 - self.k2) ** 2
        kmax = math.pi / dx
        self.dealias = ((kx.abs()[:, None] < 2 / 3 * kmax) & (ky.abs()[None] < 2 / 3 * kmax)).float()
        self.denom = 1.0 + dt * self.k2 * self.lin

    def step(self, psi):
        psi_hat = torch.fft.rfft2(psi)
        nl_hat = torch.fft.rfft2(psi**3) * self.dealias
        psi_hat = (psi_hat - self.dt * self.k2 * nl_hat) / self.denom
        return torch.fft.irfft2(psi_hat, s=psi.shape)

    def advance(self, psi, substeps):
        for _ in range(substeps):
            psi = self.step(psi)
        return psi

    def free_energy(self, psi):
        lin_psi = torch.fft.irfft2(torch.fft.rfft2(psi) * self.lin, s=psi.shape)
        return (0.5 * psi * lin_psi + 0.25 * psi**4).mean()


def seeds(n, dx, mean, count, device, gen):
    """Liquid with a few rotated hexagonal nuclei."""
    x = torch.arange(n, device=device) * dx
    X, Y = torch.meshgrid(x, x, indexing="ij")
    psi = mean + 0.002 * torch.randn(n, n, device=device, generator=gen)
    q = math.sqrt(3) / 2
    for _ in range(count):
        cx, cy, ang = torch.rand(3, device=device, generator=gen).tolist()
        cx, cy, ang = cx * n * dx, cy * n * dx, ang * math.pi / 3
        u = (X - cx) * math.cos(ang) + (Y - cy) * math.sin(ang)
        v = -(X - cx) * math.sin(ang) + (Y - cy) * math.cos(ang)
        hexa = torch.cos(q * u) * torch.cos(q * v / math.sqrt(3)) - 0.5 * torch.cos(2 * q * v / math.sqrt(3))
        rad = ((X - cx) ** 2 + (Y - cy) ** 2).sqrt()
        psi = psi + 0.45 * hexa * torch.sigmoid((24.0 - rad) / 3.0)
    return psi + (mean - psi.mean())


def solid_fraction(psi, dx):
    """Share of cells whose local variance says 'crystal'."""
    w = 2 * int(round(4.0 / dx)) + 1
    p = psi[None, None]
    m = torch.nn.functional.avg_pool2d(p, w, stride=w)
    m2 = torch.nn.functional.avg_pool2d(p * p, w, stride=w)
    return ((m2 - m * m) > 0.01).float().mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--n", type=int, default=64 if SMOKE else 4096)
    ap.add_argument("--calls", type=int, default=3 if SMOKE else 300)
    ap.add_argument("--substeps", type=int, default=4)
    ap.add_argument("--nuclei", type=int, default=2 if SMOKE else 40)
    ap.add_argument("--r", type=float, default=-0.25)
    ap.add_argument("--mean", type=float, default=-0.285)
    args = ap.parse_args()
    device = "cpu" if SMOKE else "cuda"
    gen = torch.Generator(device=device).manual_seed(8)
    model = PhaseFieldCrystal(args.n, math.pi / 4, args.r, 0.5, device)
    advance = torch.compile(model.advance)
    psi = seeds(args.n, model.dx, args.mean, args.nuclei, device, gen)
    mass0 = psi.mean().item()
    print(f"grid {args.n}^2, {args.calls * args.substeps} time steps of {model.dt}")
    print(f"{'time':>8} {'F':>12} {'solid':>8} {'steps/s':>9}")
    history = []
    tick = time.perf_counter()
    every = max(1, args.calls // 10)
    for c in range(args.calls):
        psi = advance(psi, args.substeps)
        if (c + 1) % every == 0:
            f = model.free_energy(psi).item()
            sol = solid_fraction(psi, model.dx).item()
            now = time.perf_counter()
            rate = every * args.substeps / (now - tick)
            tick = now
            history.append(f)
            print(f"{(c + 1) * args.substeps * model.dt:8.1f} {f:12.7f} {sol:8.3f} {rate:9.1f}", flush=True)
    drift = abs(psi.mean().item() - mass0)
    assert math.isfinite(history[-1]) and drift < 1e-3
    print(f"energy change {history[-1] - history[0]:+.3e}, mass drift {drift:.2e}")


if __name__ == "__main__":
    main()
