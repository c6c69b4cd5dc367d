"""Propagate an ensemble of noisy pulses along an amplifying optical fibre.

Symmetric split-step Fourier integration of the generalised nonlinear Schroedinger
equation with saturable gain; the ensemble is used for timing-jitter statistics.
"""

import math
import os
import time

import torch

SMOKE = os.environ.get("SMOKE") == "1"
DEV = "cpu" if SMOKE else "cuda"
PULSES, NT = (4, 256) if SMOKE else (768, 16384)
SEGMENTS = 2 if SMOKE else 150
WARM = 1 if SMOKE else 3
STEPS_PER_SEGMENT = 2 if SMOKE else 10


class Fibre:
    def __init__(self, beta2, beta3, gamma, g0, esat, length, steps, t_window, nt, device):
        self.gamma, self.g0, self.esat = gamma, g0, esat
        self.dz = length / steps
        self.steps = steps
        self.dt = t_window / nt
        w = 2 * math.pi * torch.fft.fftfreq(nt, d=self.dt, device=device)
        self.w = w
        disp = 0.5 * beta2 * w**2 + beta3 / 6 * w**3
        self.half_disp = torch.exp(1j * disp * (self.dz / 2)).to(torch.complex64)
        self.gain_line = 1.0 / (1.0 + (w / 60.0) ** 2)
        self.advance = torch.compile(self._advance)

    def _linear_half(self, u, energy):
        gain = self.g0 / (1.0 + energy / self.esat)
        amp = torch.exp(0.25 * self.dz * gain * self.gain_line)
        spec = torch.fft.fft(u, dim=-1)
        spec = spec * self.half_disp * amp
        return torch.fft.ifft(spec, dim=-1)

    def _kerr(self, u, loss):
        power = u.abs() ** 2
        phase = self.gamma * self.dz * power
        return u * torch.exp(1j * phase - 0.5 * loss * self.dz)

    def _advance(self, u, loss):
        for _ in range(self.steps):
            energy = (u.abs() ** 2).sum(dim=-1, keepdim=True) * self.dt
            u = self._linear_half(u, energy)
            u = self._kerr(u, loss)
            u = self._linear_half(u, energy)
        return u


def initial_pulses(t, device):
    g = torch.Generator(device=device).manual_seed(3)
    n = t.numel()
    shift = 0.05 * torch.randn(PULSES, 1, device=device, generator=g)
    chirp = 0.2 * torch.randn(PULSES, 1, device=device, generator=g)
    env = 1.0 / torch.cosh(t[None] - shift)
    phase = 0.5 * chirp * (t[None] - shift) ** 2
    noise = 1e-3 * torch.randn(PULSES, n, 2, device=device, generator=g)
    return torch.polar(env, phase.expand_as(env).contiguous()) + torch.view_as_complex(noise)


def timing(u, t):
    p = u.abs() ** 2
    e = p.sum(-1)
    return (p * t).sum(-1) / e, e


def sync():
    if DEV == "cuda":
        torch.cuda.synchronize()


@torch.no_grad()
def main():
    window = 80.0
    t = (torch.arange(NT, device=DEV) - NT // 2) * (window / NT)
    fibre = Fibre(
        beta2=-1.0,
        beta3=0.02,
        gamma=1.0,
        g0=0.08,
        esat=4.0,
        length=0.02,
        steps=STEPS_PER_SEGMENT,
        t_window=window,
        nt=NT,
        device=DEV,
    )
    loss = torch.full((PULSES, 1), 0.05, device=DEV)
    u = initial_pulses(t, DEV)
    _, e0 = timing(u, t)
    for _ in range(WARM):
        u = fibre.advance(u, loss)
    sync()
    t0 = time.perf_counter()
    for _ in range(SEGMENTS):
        u = fibre.advance(u, loss)
    sync()
    dt = (time.perf_counter() - t0) / SEGMENTS
    centre, e1 = timing(u, t)
    ok = bool(torch.isfinite(centre).all()) and bool((e1 / e0 < 3).all() and (e1 / e0 > 0.3).all())
    print(f"ok={ok} energy {e0.mean().item():.4f} -> {e1.mean().item():.4f} jitter={centre.std().item():.5f}")
    print(f"time per call: {dt * 1e3:.3f} ms")
    assert ok


if __name__ == "__main__":
    main()
