#!/usr/bin/env python3
"""Whole-pattern fit of a tetragonal powder diffractogram (rutile-like phase).

All reflections up to 2theta_max contribute a pseudo-Voigt profile whose width
follows the Caglioti relation.  Lattice constants, profile parameters, phase
scale, individual structure-factor multipliers and a Chebyshev background are
refined together with Adam on the weighted residual.
"""

import argparse
import math
import time

import torch

WAVELENGTH = 1.540593  # Cu K-alpha1, Angstrom
TT_MIN, TT_MAX = 18.0, 120.0


def reflection_list(a, c, hmax=7):
    """Unique (h,k,l) with h>=k for a tetragonal cell, inside the angular range."""
    hkl, mult = [], []
    for h in range(hmax + 1):
        for k in range(h + 1):
            for l in range(hmax + 1):
                if h + k + l == 0:
                    continue
                inv_d2 = (h * h + k * k) / a**2 + l * l / c**2
                s = WAVELENGTH * math.sqrt(inv_d2) / 2
                if s >= math.sin(math.radians(TT_MAX / 2)):
                    continue
                if 2 * math.degrees(math.asin(s)) < TT_MIN:
                    continue
                m = 16
                if h == k or k == 0:
                    m //= 2
                if l == 0:
                    m //= 2
                hkl.append((h, k, l))
                mult.append(m)
    return torch.tensor(hkl, dtype=torch.float64), torch.tensor(mult, dtype=torch.float64)


def chebyshev_basis(x, order):
    cols = [torch.ones_like(x), x]
    for _ in range(order - 1):
        cols.append(2 * x * cols[-1] - cols[-2])
    return torch.stack(cols[: order + 1], dim=1)


def calc_pattern(p, hkl, mult, f2, two_theta, cheb):
    h, k, l = hkl.unbind(1)
    inv_d2 = (h * h + k * k) / p["a"] ** 2 + l * l / p["c"] ** 2
    s = (WAVELENGTH * torch.sqrt(inv_d2) / 2).clamp(max=0.9999)
    theta = torch.asin(s)
    centre = torch.rad2deg(2 * theta) + p["zero"]

    tan_t = torch.tan(theta)
    fwhm = torch.sqrt((p["u"] * tan_t**2 + p["v"] * tan_t + p["w"]).clamp(min=1e-5))
    lp = (1 + torch.cos(2 * theta) ** 2) / (torch.sin(theta) ** 2 * torch.cos(theta))
    debye = torch.exp(-2 * p["biso"] * (s / WAVELENGTH) ** 2)
    intensity = p["scale"] * mult * f2 * torch.exp(p["log_mult"]) * lp * debye

    dx = (two_theta[:, None] - centre[None, :]) / fwhm[None, :]
    gauss = (2 * math.sqrt(math.log(2) / math.pi)) * torch.exp(-4 * math.log(2) * dx**2)
    lorentz = (2 / math.pi) / (1 + 4 * dx**2)
    eta = (p["eta0"] + p["eta1"] * two_theta).clamp(0, 1)[:, None]
    profile = (eta * lorentz + (1 - eta) * gauss) / fwhm[None, :]
    return profile @ intensity + cheb @ p["bkg"]


def weighted_residual(p, hkl, mult, f2, two_theta, cheb, y_obs, weight):
    y = calc_pattern(p, hkl, mult, f2, two_theta, cheb)
    return (weight * (y_obs - y) ** 2).sum() / (weight * y_obs**2).sum()


def start_params(n_ref, order, perturb, gen):
    def par(v, rel):
        v = torch.tensor(v, dtype=torch.float64)
        if perturb:
            v = v * (1 + rel * torch.randn((), generator=gen, dtype=torch.float64))
        return v

    p = {
        "a": par(4.5937, 2e-4),
        "c": par(2.9587, 2e-4),
        "zero": par(0.02, 0.1),
        "u": par(0.030, 0.1),
        "v": par(-0.012, 0.1),
        "w": par(0.014, 0.1),
        "eta0": par(0.45, 0.1),
        "eta1": par(0.001, 0.1),
        "scale": par(1.0, 0.1),
        "biso": par(0.5, 0.1),
        "log_mult": torch.zeros(n_ref, dtype=torch.float64),
        "bkg": torch.tensor([180.0, -60.0, 25.0] + [0.0] * (order - 2), dtype=torch.float64),
    }
    return {k: v.clone().requires_grad_(perturb) for k, v in p.items()}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--step", type=float, default=0.02, help="2theta step in degrees")
    ap.add_argument("--cycles", type=int, default=60)
    ap.add_argument("--order", type=int, default=8)
    ap.add_argument("--seed", type=int, default=11)
    args = ap.parse_args()
    gen = torch.Generator().manual_seed(args.seed)

    two_theta = torch.arange(TT_MIN, TT_MAX, args.step, dtype=torch.float64)
    cheb = chebyshev_basis((two_theta - TT_MIN) / (TT_MAX - TT_MIN) * 2 - 1, args.order)
    hkl, mult = reflection_list(4.5937, 2.9587)
    f2 = torch.rand(len(mult), generator=gen, dtype=torch.float64) * 30 + 2

    truth = start_params(len(mult), args.order, False, gen)
    with torch.no_grad():
        y_true = calc_pattern(truth, hkl, mult, f2, two_theta, cheb)
    y_obs = torch.poisson(y_true.clamp(min=1), generator=gen)
    weight = 1 / y_obs.clamp(min=1)

    params = start_params(len(mult), args.order, True, gen)
    opt = torch.optim.Adam(
        [
            {"params": [params["a"], params["c"]], "lr": 1e-5},
            {"params": [params["bkg"]], "lr": 1.0},
            {"params": [v for k, v in params.items() if k not in ("a", "c", "bkg")], "lr": 2e-3},
        ]
    )

    objective = torch.compile(weighted_residual, fullgraph=True)

    def cycle():
        opt.zero_grad()
        loss = objective(params, hkl, mult, f2, two_theta, cheb, y_obs, weight)
        loss.backward()
        opt.step()
        return loss

    for _ in range(3):
        loss = cycle()
    print(f"{len(two_theta)} points, {len(mult)} reflections, start Rwp {100 * loss.item() ** 0.5:.2f} %")

    t0 = time.perf_counter()
    for _ in range(args.cycles):
        loss = cycle()
    dt = time.perf_counter() - t0
    print(f"Rwp {100 * loss.item() ** 0.5:.2f} %  a={params['a'].item():.5f}  c={params['c'].item():.5f}")
    print(f"{args.cycles} cycles, {dt:.2f} s, {1e3 * dt / args.cycles:.1f} ms per cycle")


if __name__ == "__main__":
    main()
