"""Shortwave two-stream radiation for a limited-area cloud model.

State arrays are stored as [column, level], level 0 on top.  Each time step computes
layer reflectance / transmittance (delta-Eddington), combines the layers with the
adding method, and warms the columns with the resulting flux convergence.
"""

import math
import time

import torch

NCOL, NLEV = 6144, 24
DT = 120.0
S0 = 1361.0
CP, GRAV = 1004.0, 9.81
DP = 1.0e5 / NLEV


def layer_optics(qc, qv):
    path = DP / GRAV
    tau_c = 1.5 * qc * path / (1000.0 * 10e-6)
    tau_g = 0.02 * qv * path
    tau = tau_c + tau_g + 0.01
    ssa = (0.9995 * tau_c + 0.0095) / tau
    asym = 0.85 * tau_c / (tau_c + 0.01)
    f = asym * asym
    tau_s = (1 - ssa * f) * tau
    ssa_s = ((1 - f) * ssa / (1 - ssa * f)).clamp(max=0.99999)
    return tau_s, ssa_s, asym / (1 + asym)


def two_stream(tau, ssa, g):
    g1 = (7 - ssa * (4 + 3 * g)) / 4
    g2 = -(1 - ssa * (4 - 3 * g)) / 4
    k = torch.sqrt((g1 * g1 - g2 * g2).clamp(min=1e-8))
    e = torch.exp(-2 * k * tau)
    den = k + g1 + (k - g1) * e
    refl = g2 * (1 - e) / den
    trans = 2 * k * torch.exp(-k * tau) / den
    return refl, trans


def radiation_step(temp, qc, qv, albedo, mu0):
    refl, trans = two_stream(*layer_optics(qc, qv))

    # albedo of everything below each interface, from the ground upwards
    below = [albedo]
    for k in range(NLEV - 1, -1, -1):
        r, t = refl[:, k], trans[:, k]
        below.append(r + t * t * below[-1] / (1 - r * below[-1]))
    below.reverse()

    # march downwards through each layer
    down = [S0 * mu0]
    for k in range(NLEV):
        r, t = refl[:, k], trans[:, k]
        down.append(down[-1] * t / (1 - r * below[k + 1]))

    down = torch.stack(down, dim=1)
    up = down * torch.stack(below, dim=1)
    net = down - up
    heating = (net[:, :-1] - net[:, 1:]) * GRAV / (CP * DP)
    temp = temp + DT * (heating - 2.0 / 86400)

    # crude saturation adjustment
    p = torch.arange(NLEV) * DP + 0.5 * DP
    es = 611.0 * torch.exp(17.27 * (temp - 273.15) / (temp - 35.86).clamp(min=60.0))
    qs = 0.622 * es / (p - 0.378 * es).clamp(min=100.0)
    total = qc + qv
    qc_new = (total - qs).clamp(min=0).clamp(max=1e-3)
    qc = qc + 0.2 * (qc_new - qc)
    return temp, qc, total - qc, up[:, 0], down[:, -1]


def initial_columns(gen):
    p = (torch.arange(NLEV) + 0.5) * DP
    z = 7500 * torch.log(1.0e5 / p)
    temp = (296 - 6.5e-3 * z).clamp(min=210).expand(NCOL, NLEV).clone()
    temp += 0.5 * torch.randn(NCOL, 1, generator=gen)
    qv = 0.014 * torch.exp(-z / 2200) * (0.7 + 0.6 * torch.rand(NCOL, 1, generator=gen))
    qc = torch.where((z > 900) & (z < 2500), 2e-4, 0.0) * (torch.rand(NCOL, 1, generator=gen) < 0.4)
    albedo = 0.07 + 0.2 * torch.rand(NCOL, generator=gen)
    return temp, qc, qv, albedo


@torch.no_grad()
def main(hours=3):
    gen = torch.Generator().manual_seed(1)
    temp, qc, qv, albedo = initial_columns(gen)
    step = torch.compile(radiation_step)

    n = int(hours * 3600 / DT)
    times = []
    for i in range(n):
        hour = 10.5 + i * DT / 3600
        mu0 = torch.full((NCOL,), max(0.05, math.cos((hour - 12) * math.pi / 12) * 0.9))
        t0 = time.perf_counter()
        temp, qc, qv, toa_up, sfc_down = step(temp, qc, qv, albedo, mu0)
        times.append(time.perf_counter() - t0)
        if i % 30 == 0:
            print(f"{hour:5.2f} h  TOA up {toa_up.mean():7.2f}  surface down {sfc_down.mean():7.2f} W/m2")
    print(f"mean T {temp.mean():.3f} K, cloud water path {1e3 * (qc.sum(1) * DP / GRAV).mean():.2f} g/m2")
    print(f"{1e3 * sum(times[5:]) / len(times[5:]):.2f} ms per step")


if __name__ == "__main__":
    main()
