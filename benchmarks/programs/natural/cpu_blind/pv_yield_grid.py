"""Daily PV yield over a grid of candidate sites.

Solar position (Michalsky-style), clear-sky irradiance scaled by a cloud index,
Hay-Davies transposition to the module plane, Faiman cell temperature and a
simple inverter curve; quarter-hourly, one call per day of the year.
"""

import math
import time

import numpy as np
import torch

DEG = math.pi / 180.0


def solar_position(day, hour, lat, lon):
    n = day - 1 + (hour - 12.0) / 24.0
    g = (357.528 + 0.9856003 * n) * DEG
    ecl = (280.460 + 0.9856474 * n) * DEG + (1.915 * torch.sin(g) + 0.020 * torch.sin(2 * g)) * DEG
    obl = 23.439 * DEG
    decl = torch.asin(math.sin(obl) * torch.sin(ecl))
    b = 2 * math.pi * (n - 81.0) / 364.0
    eot = 9.87 * torch.sin(2 * b) - 7.53 * torch.cos(b) - 1.5 * torch.sin(b)
    solar_time = hour + lon / 15.0 + eot / 60.0
    ha = (solar_time - 12.0) * 15.0 * DEG
    cosz = torch.sin(lat) * torch.sin(decl) + torch.cos(lat) * torch.cos(decl) * torch.cos(ha)
    az_x = torch.sin(ha) * torch.cos(decl)
    az_y = torch.cos(ha) * torch.sin(lat) * torch.cos(decl) - torch.cos(lat) * torch.sin(decl)
    return cosz, az_x, az_y


def clear_sky(day, cosz, altitude):
    e0 = 1361.0 * (1 + 0.033 * torch.cos(2 * math.pi * day / 365.0))
    mu = cosz.clamp(min=0.02)
    zen = torch.acos(mu) / DEG
    airmass = 1.0 / (mu + 0.50572 * (96.07995 - zen).clamp(min=1.0) ** -1.6364)
    pressure = torch.exp(-altitude / 8434.0)
    tau = torch.exp(-0.09 * pressure * airmass - 0.13 * airmass**0.78)
    dni = e0 * tau
    dhi = e0 * mu * 0.271 - 0.294 * dni * mu
    up = (cosz > 0.02).float()
    return e0, dni * up, dhi.clamp(min=0.0) * up


def daily_yield(day, hours, lat, lon, altitude, cloud, tair, wind, tilt, albedo):
    """All site tensors are (sites, 1), hours is (1, steps), returns kWh/kWp per site."""
    cosz, az_x, az_y = solar_position(day, hours, lat, lon)
    e0, dni, dhi = clear_sky(day, cosz, altitude)
    kc = 1.0 - 0.75 * cloud**3.4
    dni = dni * (1.0 - cloud).clamp(min=0.0) ** 1.3
    ghi = kc * (dni * cosz.clamp(min=0.0) + dhi)
    dhi = (ghi - dni * cosz.clamp(min=0.0)).clamp(min=0.0)
    cos_aoi = (cosz * torch.cos(tilt) + torch.sin(tilt) * az_y).clamp(min=0.0)
    rb = cos_aoi / cosz.clamp(min=0.087)
    ai = dni / e0
    sky = dhi * (ai * rb + (1 - ai) * 0.5 * (1 + torch.cos(tilt)))
    ground = ghi * albedo * 0.5 * (1 - torch.cos(tilt))
    iam = 1.0 - 0.05 * (1.0 / cos_aoi.clamp(min=0.1) - 1.0)
    poa = dni * cos_aoi * iam.clamp(min=0.0) + sky + ground
    diurnal = tair + 5.0 * torch.sin((hours - 9.0) * math.pi / 12.0)
    tcell = diurnal + poa / (25.0 + 6.84 * wind)
    dc = poa / 1000.0 * (1.0 - 0.0037 * (tcell - 25.0))
    load = (dc / 0.9).clamp(min=1e-4)
    eff = 0.97 - 0.0059 / load - 0.0162 * load
    ac = (dc * eff).clamp(min=0.0, max=0.9)
    return ac.sum(dim=1) * 0.25


def main():
    rng = np.random.default_rng(21)
    sites = 16000
    col = lambda a: torch.tensor(a, dtype=torch.float32).reshape(-1, 1)
    lat_deg = rng.uniform(36, 48, sites)
    lat, lon = col(lat_deg * DEG), col(rng.uniform(-1, 1, sites))
    altitude = col(rng.gamma(2.0, 250.0, sites))
    tilt = col(np.clip(lat_deg - 8, 20, 40) * DEG)
    albedo = col(rng.uniform(0.15, 0.3, sites))
    hours = torch.arange(0.125, 24.0, 0.25)[None]
    yield_fn = torch.compile(daily_yield)
    total = torch.zeros(sites)
    times = []
    days = list(range(1, 366, 5))
    with torch.no_grad():
        for day in days:
            season = math.cos(2 * math.pi * (day - 200) / 365)
            cloud = col(rng.beta(1.2, 1.6, sites))
            tair = col(12 + 10 * season + rng.normal(0, 3, sites))
            wind = col(rng.gamma(2.0, 1.5, sites))
            d = torch.tensor(float(day))
            t0 = time.perf_counter()
            total += yield_fn(d, hours, lat, lon, altitude, cloud, tair, wind, tilt, albedo)
            times.append(time.perf_counter() - t0)
    annual = total * 365 / len(days)
    q = torch.quantile(annual, torch.tensor([0.05, 0.5, 0.95])).tolist()
    print(f"annual yield kWh/kWp: p5 {q[0]:.0f}  median {q[1]:.0f}  p95 {q[2]:.0f}")
    print(f"{1e3 * float(np.median(times[4:])):.1f} ms per day, {sites} sites")


if __name__ == "__main__":
    main()
