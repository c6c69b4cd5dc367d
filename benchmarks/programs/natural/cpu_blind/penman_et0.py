"""FAO-56 Penman-Monteith reference evapotranspiration and a root-zone soil water
bucket on a regional grid, stepped daily through a growing season."""

import math
import time

import torch

torch.set_num_threads(2)

NY, NX = 600, 800
SIGMA = 4.903e-9
GSC = 0.0820


def sat_vp(t):
    return 0.6108 * torch.exp(17.27 * t / (t + 237.3))


def et0(tmin, tmax, rh, wind, rs, elev, lat, decl, dr):
    tmean = 0.5 * (tmin + tmax)
    p = 101.3 * ((293 - 0.0065 * elev) / 293) ** 5.26
    gamma = 0.665e-3 * p
    delta = 4098 * sat_vp(tmean) / (tmean + 237.3) ** 2
    es = 0.5 * (sat_vp(tmin) + sat_vp(tmax))
    ea = es * rh / 100

    ws = torch.acos((-torch.tan(lat) * torch.tan(decl)).clamp(-1, 1))
    ra = (
        24
        * 60
        / math.pi
        * GSC
        * dr
        * (ws * torch.sin(lat) * torch.sin(decl) + torch.cos(lat) * torch.cos(decl) * torch.sin(ws))
    )
    rso = (0.75 + 2e-5 * elev) * ra
    rns = 0.77 * rs
    cloud = 1.35 * (rs / rso.clamp_min(0.1)).clamp(0.3, 1.0) - 0.35
    rnl = SIGMA * 0.5 * ((tmin + 273.16) ** 4 + (tmax + 273.16) ** 4)
    rnl = rnl * (0.34 - 0.14 * torch.sqrt(ea)) * cloud
    rn = rns - rnl

    top = 0.408 * delta * rn + gamma * 900 / (tmean + 273) * wind * (es - ea)
    return (top / (delta + gamma * (1 + 0.34 * wind))).clamp_min(0)


def bucket(depletion, rain, et, kc, taw):
    raw = 0.5 * taw
    ks = ((taw - depletion) / (taw - raw)).clamp(0, 1)
    eta = ks * kc * et
    d = depletion + eta - rain
    deep = (-d).clamp_min(0)
    return torch.minimum(d.clamp_min(0), taw), eta, deep


@torch.compile
def day(depletion, tmin, tmax, rh, wind, rs, rain, elev, lat, taw, decl, dr, kc):
    et = et0(tmin, tmax, rh, wind, rs, elev, lat, decl, dr)
    depletion, eta, deep = bucket(depletion, rain, et, kc, taw)
    stress = (depletion > 0.5 * taw).float().mean()
    return depletion, eta, deep.mean(), stress


def weather(doy, gen, elev, lat):
    season = math.cos(2 * math.pi * (doy - 200) / 365)
    base = 14 + 10 * season - 0.0065 * elev
    spread = 5 + 2 * torch.rand(NY, NX, generator=gen)
    rh = 45 + 40 * torch.rand(NY, NX, generator=gen)
    wind = 1 + 3 * torch.rand(NY, NX, generator=gen)
    rs = (15 + 8 * season) * (0.6 + 0.4 * torch.rand(NY, NX, generator=gen))
    wet = torch.rand((), generator=gen) < 0.3
    rain = 12 * torch.rand(NY, NX, generator=gen) * wet
    return base - spread, base + spread, rh, wind, rs, rain


def main():
    gen = torch.Generator().manual_seed(99)
    elev = 200 + 900 * torch.rand(NY, NX, generator=gen)
    lat = torch.deg2rad(torch.linspace(46, 40, NY))[:, None].expand(NY, NX).contiguous()
    taw = 80 + 80 * torch.rand(NY, NX, generator=gen)
    depletion = torch.zeros(NY, NX)
    season_et = torch.zeros(NY, NX)
    spent, n = 0.0, 0

    for doy in range(110, 240, 5):
        met = weather(doy, gen, elev, lat)
        decl = torch.tensor(0.409 * math.sin(2 * math.pi * doy / 365 - 1.39))
        dr = torch.tensor(1 + 0.033 * math.cos(2 * math.pi * doy / 365))
        kc = torch.tensor(0.4 + 0.7 * min(1.0, (doy - 110) / 50))
        t = time.perf_counter()
        depletion, eta, deep, stress = day(depletion, *met, elev, lat, taw, decl, dr, kc)
        if doy >= 125:
            spent += time.perf_counter() - t
            n += 1
        season_et += eta
        if doy % 30 == 20:
            print(f"day {doy}: ET {eta.mean():.2f} mm, drainage {deep:.2f} mm, stressed area {stress:.2f}")
    print(f"seasonal ET (sampled days) {season_et.mean():.1f} mm")
    print(f"{1e3 * spent / n:.2f} ms per day")


if __name__ == "__main__":
    with torch.no_grad():
        main()
