"""Hourly leaf energy balance and soil moisture on a regular land grid.

Every cell solves for leaf temperature (fixed number of damped Newton steps) with a
Farquhar/Medlyn style stomatal conductance, then soil water is stepped forward.
"""

import math
import os
import time

import torch

SMOKE = os.environ.get("SMOKE") == "1"
DEV = "cpu" if SMOKE else "cuda"
NY, NX = (24, 32) if SMOKE else (3072, 4096)
HOURS = 2 if SMOKE else 240
WARM = 1 if SMOKE else 5

SIGMA = 5.670374e-8
CP = 1005.0
RHO = 1.2
LV = 2.45e6
GAMMA = 66.0
RGAS = 8.314


def esat(t_c):
    return 611.0 * torch.exp(17.27 * t_c / (t_c + 237.3))


def desat(t_c, es):
    return es * 17.27 * 237.3 / (t_c + 237.3).square()


def arrhenius(k25, ea, tk):
    return k25 * torch.exp(ea * (tk - 298.15) / (298.15 * RGAS * tk))


def assimilation(par, ci, t_leaf, vcmax25):
    tk = t_leaf + 273.15
    vcmax = arrhenius(vcmax25, 65330.0, tk)
    jmax = arrhenius(1.67 * vcmax25, 43540.0, tk)
    kc = arrhenius(404.9, 79430.0, tk)
    ko = arrhenius(278.4, 36380.0, tk)
    gstar = arrhenius(42.75, 37830.0, tk)
    km = kc * (1.0 + 210.0 / ko)
    i2 = 0.425 * par
    b = i2 + jmax
    j = (b - torch.sqrt((b * b - 4 * 0.7 * i2 * jmax).clamp_min(1e-6))) / 1.4
    ac = vcmax * (ci - gstar) / (ci + km)
    aj = 0.25 * j * (ci - gstar) / (ci + 2 * gstar)
    rd = 0.015 * vcmax
    return torch.minimum(ac, aj) - rd


@torch.compile
def hour_step(hour, lat, tmean, tamp, rh, wind, vcmax, lai, g1, theta, wilt, fcap):
    # forcing for this hour
    decl = 0.3
    ha = (hour - 12.0) * (math.pi / 12)
    mu = (torch.sin(lat) * math.sin(decl) + torch.cos(lat) * math.cos(decl) * torch.cos(ha)).clamp_min(0.0)
    sw = 1050.0 * mu * (0.55 + 0.25 * mu)
    t_air = tmean + tamp * torch.cos((hour - 15.0) * (math.pi / 12))
    ea = rh * esat(t_air)
    vpd = (esat(t_air) - ea).clamp_min(50.0)

    stress = ((theta - wilt) / (fcap - wilt)).clamp(0.02, 1.0)
    cover = 1.0 - torch.exp(-0.5 * lai)
    par = 2.1 * sw * cover
    lw_in = 0.82 * SIGMA * (t_air + 273.15) ** 4
    ga = 0.02 * torch.sqrt(wind.clamp_min(0.1)) * lai

    t_leaf = t_air
    an = torch.zeros_like(t_air)
    le = torch.zeros_like(t_air)
    for _ in range(6):
        es = esat(t_leaf)
        d_leaf = (es - ea).clamp_min(50.0)
        ci = 400.0 * g1 / (g1 + torch.sqrt(d_leaf * 1e-3))
        an = assimilation(par, ci, t_leaf, vcmax * stress)
        gs = (0.005 + 1.6 * (1 + g1 / torch.sqrt(d_leaf * 1e-3)) * an.clamp_min(0) / 400.0) * 0.0245 * lai
        gw = gs * ga / (gs + ga)
        tk = t_leaf + 273.15
        h = RHO * CP * ga * (t_leaf - t_air)
        le = RHO * CP / GAMMA * gw * d_leaf
        net = (1 - 0.2) * sw * cover + 0.96 * (lw_in - SIGMA * tk**4) * cover
        f = net - h - le
        df = -4 * 0.96 * SIGMA * tk**3 * cover - RHO * CP * ga - RHO * CP / GAMMA * gw * desat(t_leaf, es)
        t_leaf = (t_leaf - 0.8 * f / df).clamp(-40.0, 70.0)

    et = le.clamp_min(0) / LV * 3600.0 * 1e-3
    evap_soil = 0.2 * (1 - cover) * sw * stress / LV * 3600.0 * 1e-3
    drain = 2e-4 * (theta / fcap).clamp(0, 1.2) ** 8
    theta = (theta - (et + evap_soil + drain) / 0.8).clamp_min(0.01)
    return t_leaf, an, vpd, theta


def make_grid():
    g = torch.Generator(device=DEV).manual_seed(11)

    def u(lo, hi):
        return lo + (hi - lo) * torch.rand(NY, NX, device=DEV, generator=g)

    lat = torch.linspace(-0.9, 0.9, NY, device=DEV)[:, None].expand(NY, NX).contiguous()
    wilt = u(0.06, 0.12)
    return dict(
        lat=lat,
        tmean=27 - 22 * lat.abs() + u(-2, 2),
        tamp=u(2, 8),
        rh=u(0.35, 0.85),
        wind=u(0.5, 6),
        vcmax=u(30, 90),
        lai=u(0.5, 5),
        g1=u(2, 5),
        theta=u(0.2, 0.35),
        wilt=wilt,
        fcap=wilt + u(0.15, 0.25),
    )


def sync():
    if DEV == "cuda":
        torch.cuda.synchronize()


@torch.no_grad()
def main():
    s = make_grid()
    hours = torch.arange(HOURS + WARM, device=DEV, dtype=torch.float32) % 24
    gpp = torch.zeros((), device=DEV)
    for i in range(WARM):
        out = hour_step(hours[i], **s)
        s["theta"] = out[3]
    sync()
    t0 = time.perf_counter()
    for i in range(WARM, WARM + HOURS):
        t_leaf, an, vpd, theta = hour_step(hours[i], **s)
        s["theta"] = theta
        if i % 24 == 12:
            gpp += an.mean()
    sync()
    dt = (time.perf_counter() - t0) / HOURS
    ok = bool(torch.isfinite(t_leaf).all() and torch.isfinite(theta).all() and (vpd > 0).all())
    print(
        f"ok={ok} mean theta={theta.mean().item():.4f} mean leaf T={t_leaf.mean().item():.2f} "
        f"noon assimilation={gpp.item() / max(1, HOURS // 24):.3f}"
    )
    print(f"time per call: {dt * 1e3:.3f} ms")
    assert ok


if __name__ == "__main__":
    main()
