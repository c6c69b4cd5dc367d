"""Brownian coagulation of aerosol in a set of air parcels (sectional method, Heun steps).

The size distribution uses geometrically spaced volume bins. Particles from bins i and j merge into
volume v_i + v_j, which is split between the two enclosing bins so that number and volume are conserved
(fixed pivot). Parcels differ in temperature, pressure and initial spectrum.
"""

import argparse
import logging
import time

import torch

KB = 1.380649e-23


class CoagulationSolver:
    def __init__(self, parcels, bins, seed):
        g = torch.Generator().manual_seed(seed)
        self.diam = torch.logspace(-8.5, -5.3, bins, dtype=torch.float64)
        vol = torch.pi / 6 * self.diam**3
        self.vol = vol
        self.temp = 230 + 70 * torch.rand(parcels, 1, generator=g, dtype=torch.float64)
        self.press = 3e4 + 7e4 * torch.rand(parcels, 1, generator=g, dtype=torch.float64)

        i, j = torch.triu_indices(bins, bins)
        merged = vol[i] + vol[j]
        lower = torch.searchsorted(vol, merged, right=True) - 1
        inside = lower < bins - 1
        self.i, self.j = i[inside], j[inside]
        self.lower = lower[inside]
        merged = merged[inside]
        span = vol[self.lower + 1] - vol[self.lower]
        self.upper_share = (merged - vol[self.lower]) / span
        self.symmetry = torch.where(self.i == self.j, 0.5, 1.0).double()
        self.beta = self.kernel(self.i, self.j).float()
        self.lower_share = (1 - self.upper_share).float()
        self.upper_share = self.upper_share.float()
        self.symmetry = self.symmetry.float()

    def kernel(self, i, j):
        """Fuchs-type interpolation between continuum and free-molecular Brownian kernels, in cm3/s."""
        t, p = self.temp, self.press
        visc = 1.716e-5 * (t / 273.15) ** 1.5 * 383.55 / (t + 110.4)
        path = 6.6e-8 * (101325 / p) * (t / 293.15)
        kn = 2 * path / self.diam
        slip = 1 + kn * (1.257 + 0.4 * torch.exp(-1.1 / kn))
        diff = KB * t * slip / (3 * torch.pi * visc * self.diam)
        speed = torch.sqrt(8 * KB * t / (torch.pi * 1400.0 * self.vol))
        d = self.diam[i] + self.diam[j]
        dd = diff[:, i] + diff[:, j]
        c = torch.sqrt(speed[:, i] ** 2 + speed[:, j] ** 2)
        return 2 * torch.pi * d * dd / (1 + 8 * dd / (c * d)) * 1e6

    def rates(self, n):
        """dN/dt for number concentrations n (parcels, bins), 1/cm3/s."""
        events = self.symmetry * self.beta * n[:, self.i] * n[:, self.j]
        out = torch.zeros_like(n)
        out = out.index_add(1, self.i, -events)
        out = out.index_add(1, self.j, -events)
        out = out.index_add(1, self.lower, events * self.lower_share)
        out = out.index_add(1, self.lower + 1, events * self.upper_share)
        return out

    def heun(self, n, dt):
        k1 = self.rates(n)
        k2 = self.rates(torch.clamp(n + dt * k1, min=0.0))
        return torch.clamp(n + 0.5 * dt * (k1 + k2), min=0.0)


def initial_spectra(solver, parcels, seed):
    """Nucleation and accumulation lognormal modes with random strength."""
    g = torch.Generator().manual_seed(seed)
    logd = solver.diam.log().float()
    width = logd[1] - logd[0]
    n = torch.zeros(parcels, logd.numel())
    for centre, sig, strength in ((8e-9, 1.5, 3e5), (9e-8, 1.7, 8e3)):
        c = torch.log(torch.tensor(centre)) + 0.3 * torch.randn(parcels, 1, generator=g)
        amp = strength * torch.exp(0.5 * torch.randn(parcels, 1, generator=g))
        s = torch.log(torch.tensor(sig))
        n += amp * width / (s * (2 * torch.pi) ** 0.5) * torch.exp(-0.5 * ((logd - c) / s) ** 2)
    return n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--parcels", type=int, default=128)
    ap.add_argument("--bins", type=int, default=110)
    ap.add_argument("--steps", type=int, default=180)
    ap.add_argument("--dt", type=float, default=10.0, help="seconds")
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    log = logging.getLogger("coag")

    solver = CoagulationSolver(args.parcels, args.bins, seed=1)
    n = initial_spectra(solver, args.parcels, seed=2)
    vol = solver.vol.float() * 1e18  # cubic micrometres
    n0, v0 = n.sum(1), (n * vol).sum(1)
    log.info("%d parcels, %d bins, %d colliding pairs", args.parcels, args.bins, solver.i.numel())

    step = torch.compile(solver.heun)
    tic = time.perf_counter()
    for k in range(args.steps):
        n = step(n, args.dt)
        if (k + 1) % 30 == 0:
            mean_d = torch.exp((n * solver.diam.log()).sum(1) / n.sum(1)) * 1e9
            log.info(
                "t = %5.1f min  N/N0 %.3f  volume drift %+.1e  mean diameter %.1f nm  (%.2f s)",
                (k + 1) * args.dt / 60,
                (n.sum(1) / n0).mean(),
                ((n * vol).sum(1) / v0 - 1).abs().max(),
                mean_d.mean(),
                time.perf_counter() - tic,
            )
    took = time.perf_counter() - tic
    log.info(
        "%.1f steps/s, %.1f M pair events/s",
        args.steps / took,
        2 * args.steps * solver.i.numel() * args.parcels / took / 1e6,
    )

    print("parcel   T (K)  p (hPa)     N0 (1/cm3)   N end   half life (h)")
    hours = args.steps * args.dt / 3600
    for p in range(0, args.parcels, max(1, args.parcels // 8)):
        ratio = (n0[p] / n[p].sum()).item()
        print(
            f"{p:6d} {solver.temp[p].item():7.1f} {solver.press[p].item() / 100:8.1f} {n0[p].item():14.0f} "
            f"{n[p].sum().item():8.0f} {hours / (ratio - 1):9.2f}"
        )
    assert ((n * vol).sum(1) / v0 - 1).abs().max() < 1e-2 and (n.sum(1) < n0).all()


if __name__ == "__main__":
    main()
