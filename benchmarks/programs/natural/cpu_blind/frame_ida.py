"""Incremental dynamic analysis of a hysteretic shear frame (Bouc-Wen storeys).

Many (ground motion, intensity, sampled structure) combinations are marched together
with RK4; the outcome is a fragility table: P(max drift > limit | intensity).
"""

import time
from dataclasses import dataclass

import torch

G = 9.81


@dataclass
class Frame:
    mass: torch.Tensor  # [B, S]
    k: torch.Tensor  # initial stiffness [B, S]
    c: torch.Tensor  # viscous damping [B, S]
    uy: torch.Tensor  # yield drift [B, S]
    alpha: torch.Tensor  # post-yield ratio [B, 1]
    n: torch.Tensor  # smoothness exponent [B, 1]
    beta: float = 0.5
    gamma: float = 0.5


def sample_frames(B, S, gen):
    ln = lambda mean, cov, *s: mean * torch.exp(cov * torch.randn(*s, generator=gen))
    mass = ln(60e3, 0.05, B, 1).expand(B, S).contiguous()
    taper = torch.linspace(1.0, 0.55, S)
    k = ln(9.0e7, 0.15, B, 1) * taper
    c = 0.0025 * k * ln(1.0, 0.3, B, 1)
    uy = ln(0.012, 0.2, B, 1).expand(B, S).contiguous()
    alpha = (0.05 + 0.01 * torch.randn(B, 1, generator=gen)).clamp(0.01, 0.1)
    n = 1.2 + 1.5 * torch.rand(B, 1, generator=gen)
    return Frame(mass, k, c, uy, alpha, n)


def ground_motions(count, steps, dt, gen):
    """Filtered-noise records with a trapezoid envelope, unit PGA."""
    t = torch.arange(steps) * dt
    env = (t / 2.0).clamp(max=1.0) * torch.exp(-0.25 * (t - 6.0).clamp(min=0))
    f = torch.fft.rfftfreq(steps, dt)
    fg = 1.5 + 2.5 * torch.rand(count, 1, generator=gen)
    r = f / fg
    kt = ((1 + (1.2 * r) ** 2) / ((1 - r * r) ** 2 + (1.2 * r) ** 2)).sqrt() * (f / (f + 0.25))
    noise = torch.fft.rfft(torch.randn(count, steps, generator=gen))
    a = torch.fft.irfft(noise * kt, n=steps) * env
    return a / a.abs().amax(1, keepdim=True)


class IDA:
    def __init__(self, frame, dt):
        self.f = frame
        self.dt = dt

    def rates(self, u, v, z, ag):
        f = self.f
        drift = torch.diff(u, dim=1, prepend=torch.zeros_like(u[:, :1]))
        rate = torch.diff(v, dim=1, prepend=torch.zeros_like(v[:, :1]))
        force = f.k * (f.alpha * drift + (1 - f.alpha) * f.uy * z) + f.c * rate
        above = torch.cat([force[:, 1:], torch.zeros_like(force[:, :1])], dim=1)
        acc = (above - force) / f.mass - ag.unsqueeze(1)
        za = z.abs().clamp(min=1e-6)
        zn = za.pow(f.n)
        dz = (rate - (f.beta * rate.abs() * torch.sign(z) + f.gamma * rate) * zn) / f.uy
        return v, acc, dz

    @torch.compile
    def step(self, u, v, z, peak, a0, a1):
        h = self.dt
        am = 0.5 * (a0 + a1)
        k1 = self.rates(u, v, z, a0)
        k2 = self.rates(u + 0.5 * h * k1[0], v + 0.5 * h * k1[1], z + 0.5 * h * k1[2], am)
        k3 = self.rates(u + 0.5 * h * k2[0], v + 0.5 * h * k2[1], z + 0.5 * h * k2[2], am)
        k4 = self.rates(u + h * k3[0], v + h * k3[1], z + h * k3[2], a1)
        u = u + h / 6 * (k1[0] + 2 * k2[0] + 2 * k3[0] + k4[0])
        v = v + h / 6 * (k1[1] + 2 * k2[1] + 2 * k3[1] + k4[1])
        z = z + h / 6 * (k1[2] + 2 * k2[2] + 2 * k3[2] + k4[2])
        drift = torch.diff(u, dim=1, prepend=torch.zeros_like(u[:, :1]))
        peak = torch.maximum(peak, drift.abs().amax(1))
        return u, v, z, peak


def main():
    gen = torch.Generator().manual_seed(11)
    S, dt, steps = 8, 0.005, 2600
    levels = torch.tensor([0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.3])
    n_gm, n_struct = 40, 16
    gm = ground_motions(n_gm, steps, dt, gen)
    B = n_gm * len(levels) * n_struct
    scale = levels.repeat_interleave(n_gm * n_struct) * G
    record = torch.arange(n_gm).repeat_interleave(n_struct).repeat(len(levels))
    ag = (gm[record] * scale.unsqueeze(1)).t().contiguous()  # [steps, B]

    ida = IDA(sample_frames(B, S, gen), dt)
    u, v, z = (torch.zeros(B, S) for _ in range(3))
    peak = torch.zeros(B)
    t0 = time.time()
    with torch.no_grad():
        for i in range(steps - 1):
            u, v, z, peak = ida.step(u, v, z, peak, ag[i], ag[i + 1])
            if (i + 1) % 650 == 0:
                print(
                    f"t={i * dt:5.2f}s  mean peak drift {peak.mean() * 1e3:.2f} mm  [{time.time() - t0:.1f}s]"
                )
    ratio = peak.view(len(levels), -1) / 3.2
    for name, lim in (("IO", 0.005), ("LS", 0.015), ("CP", 0.03)):
        p = (ratio > lim).float().mean(1)
        print(name, " ".join(f"{x:.2f}" for x in p.tolist()))


if __name__ == "__main__":
    main()
