"""Line-by-line forward model for an FTIR gas cell: sum of Voigt lines on a wavenumber
grid, convolved with the instrument line shape. Scans a set of temperatures/pressures."""

import math
import time

import numpy as np
import torch

torch.set_num_threads(2)
torch.set_default_dtype(torch.float64)

N_LINES = 160
N_GRID = 1500
C2 = 1.4387769  # cm K
T_REF = 296.0
MOLAR_MASS = 28.01


def synth_linelist(seed):
    rng = np.random.default_rng(seed)
    return {
        "nu0": torch.from_numpy(np.sort(rng.uniform(2095.0, 2175.0, N_LINES))),
        "s_ref": torch.from_numpy(10.0 ** rng.uniform(-3.0, 0.0, N_LINES)),
        "e_low": torch.from_numpy(rng.uniform(0.0, 1800.0, N_LINES)),
        "g_air": torch.from_numpy(rng.uniform(0.04, 0.09, N_LINES)),
        "n_air": torch.from_numpy(rng.uniform(0.5, 0.8, N_LINES)),
        "shift": torch.from_numpy(rng.normal(-0.003, 0.001, N_LINES)),
    }


def line_strength(lines, T):
    boltz = torch.exp(-C2 * lines["e_low"] * (1.0 / T - 1.0 / T_REF))
    stim = (1 - torch.exp(-C2 * lines["nu0"] / T)) / (1 - torch.exp(-C2 * lines["nu0"] / T_REF))
    return lines["s_ref"] * boltz * stim * (T_REF / T)


def pseudo_voigt(nu, centre, sigma, gamma):
    """Thompson-Cox-Hastings pseudo-Voigt, good to ~1 %."""
    fg = 2.0 * sigma * math.sqrt(2.0 * math.log(2.0))
    fl = 2.0 * gamma
    f = (
        fg**5
        + 2.69269 * fg**4 * fl
        + 2.42843 * fg**3 * fl**2
        + 4.47163 * fg**2 * fl**3
        + 0.07842 * fg * fl**4
        + fl**5
    ) ** 0.2
    r = fl / f
    eta = 1.36603 * r - 0.47719 * r**2 + 0.11116 * r**3
    x = nu[None, :] - centre[:, None]
    half = 0.5 * f[:, None]
    lor = half / math.pi / (x**2 + half**2)
    sg = f[:, None] / (2.0 * math.sqrt(2.0 * math.log(2.0)))
    gau = torch.exp(-0.5 * (x / sg) ** 2) / (sg * math.sqrt(2.0 * math.pi))
    return eta[:, None] * lor + (1.0 - eta[:, None]) * gau


def transmittance(nu, lines, T, P, column, ils):
    centre = lines["nu0"] + lines["shift"] * P
    sigma = centre * 3.581163e-7 * torch.sqrt(T / MOLAR_MASS) / math.sqrt(2 * math.log(2.0))
    gamma = lines["g_air"] * P * (T_REF / T) ** lines["n_air"]
    profile = pseudo_voigt(nu, centre, sigma, gamma)
    absorb = (line_strength(lines, T)[:, None] * profile).sum(0)
    trans = torch.exp(-column * absorb)
    return torch.nn.functional.conv1d(trans[None, None], ils[None, None], padding="same")[0, 0]


def main():
    lines = synth_linelist(3)
    nu = torch.linspace(2100.0, 2170.0, N_GRID)
    k = torch.arange(-20, 21, dtype=torch.float64)
    ils = torch.sinc(k / 4.0) * torch.hann_window(43, periodic=False)[1:-1]
    ils = ils / ils.sum()

    model = torch.compile(transmittance)
    gen = torch.Generator().manual_seed(11)
    n_scan = 60
    temps = 250 + 120 * torch.rand(n_scan, generator=gen)
    press = 0.1 + 0.9 * torch.rand(n_scan, generator=gen)
    column = torch.tensor(0.4)

    with torch.no_grad():
        for i in range(3):
            model(nu, lines, temps[i], press[i], column, ils)
        spectra = []
        t0 = time.perf_counter()
        for T, P in zip(temps, press):
            spectra.append(model(nu, lines, T, P, column, ils))
        dt = time.perf_counter() - t0

    spectra = torch.stack(spectra)
    print(f"mean transmittance {spectra.mean():.5f}  min {spectra.min():.5f}")
    print(f"{n_scan} spectra in {dt:.2f} s, {1e3 * dt / n_scan:.2f} ms each")


if __name__ == "__main__":
    main()
