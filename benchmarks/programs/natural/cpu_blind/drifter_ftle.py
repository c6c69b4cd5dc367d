"""Finite-time Lyapunov exponents of a mesoscale eddy field.

A dense grid of virtual surface drifters is advected for 30 days in daily geostrophic currents (as one would download
from an altimetry product), with fourth-order Runge-Kutta, bilinear interpolation in space and linear in time.
The flow-map gradient gives the FTLE, whose ridges are the transport barriers; drifters that run onto land are beached.
"""

import math

import torch

torch.manual_seed(11)

R_EARTH = 6.371e6
DEG = math.pi / 180.0
DAY = 86400.0

LON0, LON1, LAT0, LAT1 = -60.0, -40.0, 30.0, 42.0
DX = 0.1
NX = int((LON1 - LON0) / DX) + 1
NY = int((LAT1 - LAT0) / DX) + 1


def synthetic_currents(ndays):
    """Westward-drifting eddies on a meandering jet, as sea-level anomalies -> geostrophic u, v (m/s)."""
    lon = torch.linspace(LON0, LON1, NX)
    lat = torch.linspace(LAT0, LAT1, NY)
    glat, glon = torch.meshgrid(lat, lon, indexing="ij")
    n = 40
    clon = LON0 + (LON1 - LON0) * torch.rand(n) * 1.2
    clat = LAT0 + (LAT1 - LAT0) * torch.rand(n)
    amp = 0.25 * torch.randn(n)
    rad = 0.5 + 0.7 * torch.rand(n)
    speed = 0.02 + 0.04 * torch.rand(n)
    us, vs = [], []
    f = 2 * 7.292e-5 * torch.sin(glat * DEG)
    for d in range(ndays):
        jet = 36.0 + 0.8 * torch.sin(2 * math.pi * (glon - LON0 + 0.05 * d) / 8.0)
        sla = -0.4 * torch.tanh((glat - jet) / 0.8)
        for k in range(n):
            r2 = ((glon - clon[k] + speed[k] * d) * 0.8) ** 2 + (glat - clat[k]) ** 2
            sla = sla + amp[k] * torch.exp(-r2 / rad[k] ** 2)
        dy = DX * DEG * R_EARTH
        dhdy = torch.gradient(sla, spacing=dy, dim=0)[0]
        dhdx = torch.gradient(sla, spacing=dy, dim=1)[0] / torch.cos(glat * DEG)
        us.append(-9.81 / f * dhdy)
        vs.append(9.81 / f * dhdx)
    land = ((glon + 57.5) ** 2 + (glat - 40.5) ** 2) < 2.0
    u, v = torch.stack(us), torch.stack(vs)
    u[:, land] = 0
    v[:, land] = 0
    return u, v, land


def bilinear(field, x, y):
    """field (C, NY, NX) sampled at fractional indices x, y (any shape) -> (C, ...)."""
    x = x.clamp(0, NX - 1.001)
    y = y.clamp(0, NY - 1.001)
    i = x.floor().long()
    j = y.floor().long()
    fx = x - i
    fy = y - j
    f00 = field[:, j, i]
    f01 = field[:, j, i + 1]
    f10 = field[:, j + 1, i]
    f11 = field[:, j + 1, i + 1]
    return (f00 * (1 - fx) + f01 * fx) * (1 - fy) + (f10 * (1 - fx) + f11 * fx) * fy


def velocity(lon, lat, today, tomorrow, w):
    """Velocity in degrees per second at the drifter positions."""
    field = (1 - w) * today + w * tomorrow
    uv = bilinear(field, (lon - LON0) / DX, (lat - LAT0) / DX)
    dlat = uv[1] / (R_EARTH * DEG)
    dlon = uv[0] / (R_EARTH * DEG * torch.cos(lat * DEG))
    return dlon, dlat


@torch.compile
def rk4_step(lon, lat, beached, today, tomorrow, land, w, dw, dt):
    k1x, k1y = velocity(lon, lat, today, tomorrow, w)
    k2x, k2y = velocity(lon + 0.5 * dt * k1x, lat + 0.5 * dt * k1y, today, tomorrow, w + 0.5 * dw)
    k3x, k3y = velocity(lon + 0.5 * dt * k2x, lat + 0.5 * dt * k2y, today, tomorrow, w + 0.5 * dw)
    k4x, k4y = velocity(lon + dt * k3x, lat + dt * k3y, today, tomorrow, w + dw)
    new_lon = lon + dt / 6 * (k1x + 2 * k2x + 2 * k3x + k4x)
    new_lat = lat + dt / 6 * (k1y + 2 * k2y + 2 * k3y + k4y)
    new_lon = torch.where(beached, lon, new_lon)
    new_lat = torch.where(beached, lat, new_lat)
    i = ((new_lon - LON0) / DX).round().long().clamp(0, NX - 1)
    j = ((new_lat - LAT0) / DX).round().long().clamp(0, NY - 1)
    beached = beached | land[j, i]
    return new_lon, new_lat, beached


def ftle(lon, lat, spacing, days):
    coslat = torch.cos(lat * DEG)
    fx = lon * coslat
    fxy, fxx = torch.gradient(fx, spacing=spacing)
    fyy, fyx = torch.gradient(lat, spacing=spacing)
    a = fxx**2 + fyx**2
    b = fxx * fxy + fyx * fyy
    d = fxy**2 + fyy**2
    lam = 0.5 * (a + d) + torch.sqrt(0.25 * (a - d) ** 2 + b**2)
    return torch.log(torch.sqrt(lam.clamp(min=1e-12))) / days


def main():
    ndays = 30
    steps_per_day = 12
    u, v, land = synthetic_currents(ndays + 1)
    uv = torch.stack([u, v], dim=1)  # (T, 2, NY, NX)
    spacing = 1 / 25
    lat, lon = torch.meshgrid(
        torch.arange(31.0, 41.0, spacing), torch.arange(-58.0, -42.0, spacing), indexing="ij"
    )
    lon0, lat0 = lon.clone(), lat.clone()
    beached = torch.zeros_like(lon, dtype=torch.bool)
    dt = DAY / steps_per_day
    for day in range(ndays):
        for s in range(steps_per_day):
            w = s / steps_per_day
            lon, lat, beached = rk4_step(
                lon, lat, beached, uv[day], uv[day + 1], land, w, 1 / steps_per_day, dt
            )
    sigma = ftle(lon, lat, spacing, ndays)
    ok = ~beached
    dist = torch.hypot((lon - lon0) * torch.cos(lat0 * DEG), lat - lat0) * DEG * R_EARTH / 1e3
    print(f"drifters {lon.numel()}  beached {int(beached.sum())}")
    print(f"median displacement {dist[ok].median():.1f} km, 95th pct {dist[ok].quantile(0.95):.1f} km")
    print(f"FTLE mean {sigma[ok].mean():.4f} /day, ridge threshold (90%) {sigma[ok].quantile(0.9):.4f} /day")


if __name__ == "__main__":
    main()
