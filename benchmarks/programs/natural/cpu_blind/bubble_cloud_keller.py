"""Polydisperse cloud of coated contrast-agent microbubbles under an ultrasound pulse.

Every bubble follows the Keller-Miksis equation; the bubbles feel each other through the mean field that the whole
cloud radiates.  Classical RK4 with a fixed step.  Output: the scattered pressure and its harmonic content.
"""

import math

import torch

torch.manual_seed(3)
torch.set_default_dtype(torch.float64)

N = 60_000  # bubbles
RHO, C = 998.0, 1482.0  # water
SIGMA, MU = 0.0725, 1.0e-3  # surface tension, viscosity
P0, PV = 101.3e3, 2.3e3
KAPPA = 1.07  # polytropic exponent of C4F10
CHI, KAPPA_S = 0.35, 4.0e-9  # shell elasticity, shell viscosity
FREQ, AMP = 1.5e6, 45.0e3
CYCLES, STEPS_PER_CYCLE = 3, 110
DT = 1.0 / (FREQ * STEPS_PER_CYCLE)
OMEGA = 2 * math.pi * FREQ
COUPLING = 2.0e-5  # bubbles' summed monopoles at the typical distance


def drive(t):
    """Pressure of the pulse: a Hann window over CYCLES periods."""
    length = CYCLES / FREQ
    envelope = 0.5 * (1 - math.cos(2 * math.pi * min(t / length, 1.0)))
    return -AMP * envelope * math.sin(OMEGA * t)


def acceleration(r, v, r0, p_drive, p_cloud):
    gas = (P0 - PV + 2 * SIGMA / r0) * (r0 / r) ** (3 * KAPPA)
    shell = 4 * CHI * (1 / r0 - 1 / r) / 1.0 + 4 * KAPPA_S * v / r**2
    wall = gas + PV - 2 * SIGMA / r - 4 * MU * v / r - shell
    dgas = -3 * KAPPA * gas * v / r
    dwall = dgas + 2 * SIGMA * v / r**2 + 4 * MU * v**2 / r**2
    mach = v / C
    outside = P0 + p_drive + p_cloud
    num = (1 + mach) * (wall - outside) / RHO + r * dwall / (RHO * C) - 1.5 * v**2 * (1 - mach / 3)
    den = (1 - mach) * r + 4 * MU / (RHO * C)
    return num / den


def radiated(r, v, a):
    """Monopole of the cloud, from the mean second derivative of the bubbles' volume."""
    return RHO * COUPLING * (r * (2 * v**2 + r * a)).mean() / 1e-6


@torch.compile
def rk4_step(r, v, r0, p_cloud, p_a, p_mid, p_b):
    a1 = acceleration(r, v, r0, p_a, p_cloud)
    r2, v2 = r + 0.5 * DT * v, v + 0.5 * DT * a1
    a2 = acceleration(r2, v2, r0, p_mid, p_cloud)
    r3, v3 = r + 0.5 * DT * v2, v + 0.5 * DT * a2
    a3 = acceleration(r3, v3, r0, p_mid, p_cloud)
    r4, v4 = r + DT * v3, v + DT * a3
    a4 = acceleration(r4, v4, r0, p_b, p_cloud)
    r_new = r + DT / 6 * (v + 2 * v2 + 2 * v3 + v4)
    v_new = v + DT / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
    r_new = torch.maximum(r_new, 0.1 * r0)
    return r_new, v_new, radiated(r_new, v_new, a4)


def main():
    r0 = torch.exp(torch.randn(N) * 0.3 + math.log(1.6e-6)).clamp(0.7e-6, 5e-6)
    r, v = r0.clone(), torch.zeros(N)
    p_cloud = torch.zeros(())
    steps = CYCLES * STEPS_PER_CYCLE
    # the pulse's pressures as tensors, so that the step takes no Python numbers
    pulse = torch.tensor([drive(0.5 * k * DT) for k in range(2 * steps + 3)])
    scattered = []
    largest = torch.ones(N)
    for k in range(steps):
        r, v, p_cloud = rk4_step(r, v, r0, p_cloud, pulse[2 * k], pulse[2 * k + 1], pulse[2 * k + 2])
        scattered.append(p_cloud)
        largest = torch.maximum(largest, r / r0)
    signal = torch.stack(scattered)
    assert torch.isfinite(signal).all(), "a bubble blew up: smaller time step needed"
    spectrum = torch.fft.rfft(signal * torch.hann_window(len(signal), periodic=False)).abs()
    bin_of = lambda f: round(f * len(signal) * DT)
    fundamental = spectrum[bin_of(FREQ)]
    second = spectrum[bin_of(2 * FREQ)]
    print(f"bubbles {N}, steps {steps}, dt {DT * 1e9:.2f} ns")
    print(f"largest expansion: mean {largest.mean():.3f}, max {largest.max():.3f}")
    print(f"scattered pressure rms {signal.pow(2).mean().sqrt():.4g} Pa")
    print(f"second harmonic {20 * torch.log10(second / fundamental):.1f} dB below/above the fundamental")


if __name__ == "__main__":
    main()
