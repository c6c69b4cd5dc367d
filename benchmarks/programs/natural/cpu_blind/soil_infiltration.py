"""Rain infiltration into a heterogeneous hillslope cross-section.

Two-dimensional Richards equation in saturation form with Brooks-Corey
retention and conductivity curves, cell-centred finite volumes, explicit
time stepping.  The slab is 9 m deep and 14 m wide at 1 cm resolution, the
saturated conductivity is a log-normal random field with layering.
"""

import time

import numpy as np
import torch

NZ, NX = 900, 1400  # cells, including one ghost layer on each side
DX = 0.01  # m
DT = 0.25  # s
POROSITY = 0.41
AIR_ENTRY = 0.22  # m
LAM = 0.58  # pore size distribution index (loam)
RAIN_SAT = 0.93  # saturation held at the surface during the storm
S_RES = 0.03


def conductivity_field(seed=11):
    """Layered log-normal saturated conductivity, m/s."""
    rng = np.random.default_rng(seed)
    white = rng.standard_normal((NZ // 10, NX // 20))
    kern = np.ones(7) / 7.0
    for axis in (0, 1):
        white = np.apply_along_axis(lambda v: np.convolve(v, kern, mode="same"), axis, white)
    white = white / white.std()
    fine = np.kron(white, np.ones((10, 20)))
    depth = np.arange(NZ)[:, None] * DX
    layer = np.where(depth < 1.2, 0.8, np.where(depth < 4.0, 0.0, -1.0))
    return torch.from_numpy((6e-6 * np.exp(0.5 * fine + layer)).astype(np.float32))


def hydraulic_conductivity(sat, ks):
    # Burdine: K = Ks * S^(3 + 2/lambda)
    return ks * sat.pow(3.0 + 2.0 / LAM)


def suction_head(sat):
    # Brooks-Corey: psi = -h_b * S^(-1/lambda)
    return -AIR_ENTRY * sat.pow(-1.0 / LAM)


@torch.compile
def storage_rate(sat, ks):
    """dS/dt in the interior cells from Darcy fluxes through the four faces."""
    k = hydraulic_conductivity(sat, ks)
    psi = suction_head(sat)

    kx, px = k[1:-1, :], psi[1:-1, :]
    qx = -0.5 * (kx[:, 1:] + kx[:, :-1]) * (px[:, 1:] - px[:, :-1]) / DX

    # z is counted downwards, so gravity drives a positive flux
    kz, pz = k[:, 1:-1], psi[:, 1:-1]
    qz = -0.5 * (kz[1:, :] + kz[:-1, :]) * ((pz[1:, :] - pz[:-1, :]) / DX - 1.0)

    div = (qx[:, 1:] - qx[:, :-1]) + (qz[1:, :] - qz[:-1, :])
    return -div / (DX * POROSITY)


def apply_boundaries(sat):
    sat[0, :] = RAIN_SAT  # ponded surface
    sat[-1, :] = sat[-2, :]  # free drainage
    sat[:, 0] = sat[:, 1]  # symmetric sides
    sat[:, -1] = sat[:, -2]


def advance(sat, ks):
    rate = storage_rate(sat, ks)
    core = sat[1:-1, 1:-1]
    core.add_(rate, alpha=DT).clamp_(S_RES, 1.0)
    apply_boundaries(sat)


@torch.no_grad()
def main():
    torch.manual_seed(0)
    ks = conductivity_field()
    # antecedent moisture: dry top soil, wetter with depth
    depth = torch.linspace(0.0, 1.0, NZ)[:, None]
    sat = (0.28 + 0.25 * depth).expand(NZ, NX).clone()
    sat += 0.02 * torch.rand(NZ, NX)
    apply_boundaries(sat)
    start_water = float(sat[1:-1, 1:-1].double().sum()) * POROSITY * DX * DX

    t0 = time.perf_counter()
    advance(sat, ks)
    print(f"first step {time.perf_counter() - t0:.2f} s")

    for step in range(1, 31):
        t0 = time.perf_counter()
        advance(sat, ks)
        ms = (time.perf_counter() - t0) * 1e3
        print(f"step {step:3d}  t={step * DT:6.2f} s   {ms:7.2f} ms")

    water = float(sat[1:-1, 1:-1].double().sum()) * POROSITY * DX * DX
    print(f"infiltrated water {1e3 * (water - start_water):.4f} l per m width")


if __name__ == "__main__":
    main()
