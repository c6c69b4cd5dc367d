"""Two-component Bose-Einstein condensate in a rotating-wave Rabi drive.

Split-step Fourier integration of the coupled 2-D Gross-Pitaevskii equations
for an ensemble of noisy initial states (truncated Wigner).
"""

import math
import os
import time

import torch

SMOKE = os.environ.get("SMOKE") == "1"
DEVICE = "cpu" if SMOKE else "cuda"
N = 64 if SMOKE else 1024
ENSEMBLE = 2 if SMOKE else 8
CALLS = 4 if SMOKE else 200
SUBSTEPS = 2 if SMOKE else 8

L = 24.0
DT = 1e-3
G_AA, G_BB, G_AB = 900.0, 870.0, 840.0
RABI = 2.0 * math.pi * 1.5
DETUNING = 0.4


def setup():
    g = torch.Generator(device=DEVICE).manual_seed(3)
    x = (torch.arange(N, device=DEVICE) - N / 2) * (L / N)
    k = 2 * math.pi * torch.fft.fftfreq(N, d=L / N).to(DEVICE)
    xx, yy = torch.meshgrid(x, x, indexing="ij")
    kx, ky = torch.meshgrid(k, k, indexing="ij")
    trap = 0.5 * (xx**2 + 1.1 * yy**2)
    kinetic = torch.exp(-0.5j * DT * (kx**2 + ky**2))

    mu = 14.0
    profile = ((mu - trap).clamp_min(0) / G_AA).sqrt()
    noise = torch.randn(2, ENSEMBLE, N, N, 2, device=DEVICE, generator=g) * 2e-3
    psi = torch.view_as_complex(noise)
    psi[0] += profile
    dx2 = (L / N) ** 2
    norm = (psi.abs() ** 2).sum((0, 2, 3), keepdim=True) * dx2
    psi = psi / norm.sqrt()
    return psi[0].clone(), psi[1].clone(), trap, kinetic


def interaction_step(a, b, trap, dt):
    na = a.real**2 + a.imag**2
    nb = b.real**2 + b.imag**2
    va = trap + G_AA * na + G_AB * nb + 0.5 * DETUNING
    vb = trap + G_BB * nb + G_AB * na - 0.5 * DETUNING
    a = a * torch.exp(-1j * dt * va)
    b = b * torch.exp(-1j * dt * vb)
    return a, b


def rabi_step(a, b, dt):
    c = math.cos(0.5 * RABI * dt)
    s = math.sin(0.5 * RABI * dt)
    return c * a - 1j * s * b, c * b - 1j * s * a


def kinetic_step(a, kinetic):
    return torch.fft.ifft2(torch.fft.fft2(a) * kinetic)


@torch.compile
def evolve(a, b, trap, kinetic):
    for _ in range(SUBSTEPS):
        a, b = interaction_step(a, b, trap, 0.5 * DT)
        a, b = rabi_step(a, b, 0.5 * DT)
        a = kinetic_step(a, kinetic)
        b = kinetic_step(b, kinetic)
        a, b = rabi_step(a, b, 0.5 * DT)
        a, b = interaction_step(a, b, trap, 0.5 * DT)
    return a, b


def observables(a, b):
    dx2 = (L / N) ** 2
    na = (a.abs() ** 2).sum((1, 2)) * dx2
    nb = (b.abs() ** 2).sum((1, 2)) * dx2
    return (na + nb).mean().item(), ((na - nb) / (na + nb)).mean().item()


@torch.no_grad()
def main():
    a, b, trap, kinetic = setup()
    norm, pol = observables(a, b)
    print(f"t=0.000  norm {norm:.5f}  polarisation {pol:+.4f}")
    report = max(1, CALLS // 8)
    t0 = time.perf_counter()
    for call in range(1, CALLS + 1):
        a, b = evolve(a, b, trap, kinetic)
        if call % report == 0:
            norm, pol = observables(a, b)
            print(
                f"t={call * SUBSTEPS * DT:.3f}  norm {norm:.5f}  polarisation {pol:+.4f}  "
                f"wall {time.perf_counter() - t0:.2f} s"
            )


if __name__ == "__main__":
    main()
