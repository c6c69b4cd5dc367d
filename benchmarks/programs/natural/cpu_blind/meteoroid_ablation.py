"""Monte Carlo of a meteor shower: single-body ablation of many meteoroids, RK4 in time.

Every meteoroid has its own entry speed, mass, bulk density, ablation coefficient and zenith
angle.  We integrate speed, log-mass and height until nothing is left that shines, and collect
the light curve of the whole population as a function of height (what a video network would
see after summing all tracks).
"""

import math
import time

import torch

N = 110_000
DT = 2.5e-3
STEPS = 560
LOG_EVERY = 56
LN10 = math.log(10.0)


def log_air_density(h):
    """ln(rho) in kg/m^3, polynomial fit to an MSIS profile, h in km (valid 60..180 km)."""
    x = h * 0.01
    p = -3.3 + x * (5.9 + x * (-16.2 + x * (9.05 + x * -1.655)))
    return LN10 * p.clamp(-12.0, 0.5)


def luminous_efficiency(v):
    """Piecewise law after Pecina & Ceplecha (v in km/s)."""
    lv = torch.log(v.clamp(min=0.5))
    slow = torch.exp(0.567 - 10.307 * lv + 9.781 * lv**2 - 3.0414 * lv**3 + 0.3213 * lv**4)
    fast = torch.exp(-1.4286 + lv)
    return torch.where(v < 25.4, slow, fast) * 0.01


class ShowerModel:
    """Drag and ablation of a population with individual material constants."""

    def __init__(self, n, seed=11):
        g = torch.Generator().manual_seed(seed)
        u = lambda: torch.rand(n, generator=g)
        z = lambda: torch.randn(n, generator=g)
        self.cos_z = 0.35 + 0.6 * u()
        self.rho_m = torch.where(u() < 0.7, 900.0 + 250.0 * z(), 3000.0 + 300.0 * z()).clamp(300.0, 4200.0)
        self.sigma = torch.exp(-18.0 + 0.6 * z())  # kg / J
        self.shape = 1.21 * torch.exp(0.1 * z())
        self.v = (59.0 + 1.5 * z()) * 1e3  # m/s
        sporadic = u() < 0.25
        self.v[sporadic] = (18.0 + 22.0 * u()[sporadic]) * 1e3
        # population index of the shower: power law of masses between 1e-7 and 1e-3 kg
        s = 1.9
        lo, hi = 1e-7 ** (1 - s), 1e-3 ** (1 - s)
        self.lnm = torch.log((lo + (hi - lo) * u()) ** (1 / (1 - s)))
        self.h = 135.0 + 6.0 * u()  # km
        self.k_drag = self.shape * self.rho_m ** (-2.0 / 3.0)
        self.lnm_end = self.lnm - 9.0

    def _rhs(self, v, lnm, h):
        rho = torch.exp(log_air_density(h))
        inv_cbrt_m = torch.exp(-lnm / 3.0)
        drag = self.k_drag * rho * v * v * inv_cbrt_m
        gravity = 9.5 * self.cos_z
        burning = torch.sigmoid((v - 9.0e3) / 600.0)
        alive = (lnm > self.lnm_end).to(v.dtype)
        dv = (gravity - drag) * alive
        dlnm = -self.sigma * drag * v * burning * alive
        dh = -1e-3 * v * self.cos_z
        return dv, dlnm, dh

    @torch.compile
    def advance(self, v, lnm, h, dt):
        a1, b1, c1 = self._rhs(v, lnm, h)
        a2, b2, c2 = self._rhs(v + 0.5 * dt * a1, lnm + 0.5 * dt * b1, h + 0.5 * dt * c1)
        a3, b3, c3 = self._rhs(v + 0.5 * dt * a2, lnm + 0.5 * dt * b2, h + 0.5 * dt * c2)
        a4, b4, c4 = self._rhs(v + dt * a3, lnm + dt * b3, h + dt * c3)
        v2 = (v + dt / 6.0 * (a1 + 2 * a2 + 2 * a3 + a4)).clamp(min=500.0)
        lnm2 = torch.maximum(lnm + dt / 6.0 * (b1 + 2 * b2 + 2 * b3 + b4), self.lnm_end - 0.1)
        h2 = (h + dt / 6.0 * (c1 + 2 * c2 + 2 * c3 + c4)).clamp(min=55.0)
        lost = torch.exp(lnm) - torch.exp(lnm2)
        power = luminous_efficiency(v2 * 1e-3) * 0.5 * v2 * v2 * lost / dt
        return v2, lnm2, h2, power


@torch.no_grad()
def main():
    model = ShowerModel(N)
    v, lnm, h = model.v.clone(), model.lnm.clone(), model.h.clone()
    peak_power = torch.zeros(N)
    peak_height = h.clone()
    bins = torch.zeros(100)
    t0 = time.perf_counter()
    for step in range(STEPS):
        v, lnm, h, power = model.advance(v, lnm, h, DT)
        brighter = power > peak_power
        peak_power = torch.where(brighter, power, peak_power)
        peak_height = torch.where(brighter, h, peak_height)
        if step % 10 == 0:
            bins += torch.bincount((h - 50.0).long().clamp(0, 99), weights=power, minlength=100)
        if (step + 1) % LOG_EVERY == 0:
            alive = (lnm > model.lnm_end).float().mean().item()
            print(
                f"t={DT * (step + 1):5.2f} s  alive {100 * alive:5.1f} %  "
                f"mean v {v.mean().item() / 1e3:5.1f} km/s  light {power.sum().item():.3e} W"
            )
    mag = -2.5 * torch.log10(peak_power.clamp(min=1e-6) / 1500.0)
    seen = mag < 6.0
    print(
        f"brighter than +6: {int(seen.sum())} of {N}, "
        f"peak height {peak_height[seen].mean().item():.1f} +- {peak_height[seen].std().item():.1f} km"
    )
    print(f"height of the brightest bin {50 + int(bins.argmax())} km")
    assert torch.isfinite(v).all() and torch.isfinite(lnm).all()
    print(f"done in {time.perf_counter() - t0:.2f} s")


if __name__ == "__main__":
    main()
