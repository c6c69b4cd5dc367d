"""Daily reference evapotranspiration and soil water on a regional grid.

FAO-56 style Penman-Monteith for every cell, then a single-layer soil bucket
with stress, drainage and runoff carried from day to day.
"""

import math
import time
from typing import NamedTuple

import torch

torch.set_num_threads(2)

ROWS, COLS = 400, 500


class Weather(NamedTuple):
    tmin: torch.Tensor
    tmax: torch.Tensor
    rh: torch.Tensor
    wind: torch.Tensor
    sun: torch.Tensor
    rain: torch.Tensor


def make_weather(day, gen):
    def noise(scale):
        return scale * torch.randn(ROWS, COLS, generator=gen)

    season = math.sin(2 * math.pi * (day - 100) / 365)
    tmin = 8.0 + 7.0 * season + noise(1.5)
    tmax = tmin + 9.0 + 2.0 * season + noise(1.0).abs()
    rh = (65.0 - 10.0 * season + noise(8.0)).clamp(15, 100)
    wind = (2.5 + noise(1.0)).clamp_min(0.3)
    sun = (0.55 + 0.1 * season + noise(0.12)).clamp(0.05, 1.0)
    rain = torch.relu(noise(6.0) - 5.0)
    return Weather(tmin, tmax, rh, wind, sun, rain)


def saturation(t):
    return 0.6108 * torch.exp(17.27 * t / (t + 237.3))


def extraterrestrial(lat, day):
    angle = 2 * math.pi * day / 365
    dr = 1 + 0.033 * torch.cos(angle)
    decl = 0.409 * torch.sin(angle - 1.39)
    ws = torch.acos((-torch.tan(lat) * torch.tan(decl)).clamp(-1, 1))
    ra = (
        37.586
        * dr
        * (ws * torch.sin(lat) * torch.sin(decl) + torch.cos(lat) * torch.cos(decl) * torch.sin(ws))
    )
    return ra, 24 / math.pi * ws


def reference_et(w, lat, elev, day):
    tmean = 0.5 * (w.tmin + w.tmax)
    pressure = 101.3 * ((293.0 - 0.0065 * elev) / 293.0) ** 5.26
    gamma = 0.000665 * pressure
    es = 0.5 * (saturation(w.tmin) + saturation(w.tmax))
    ea = w.rh / 100 * es
    slope = 4098 * saturation(tmean) / (tmean + 237.3) ** 2
    ra, daylight = extraterrestrial(lat, day)
    rs = (0.25 + 0.5 * w.sun) * ra
    rso = (0.75 + 2e-5 * elev) * ra
    cloud = 1.35 * (rs / rso.clamp_min(0.1)).clamp(0.3, 1.0) - 0.35
    sigma = 4.903e-9
    k4 = 0.5 * ((w.tmax + 273.16) ** 4 + (w.tmin + 273.16) ** 4)
    rnl = sigma * k4 * (0.34 - 0.14 * ea.sqrt()) * cloud
    rn = 0.77 * rs - rnl
    num = 0.408 * slope * rn + gamma * 900 / (tmean + 273) * w.wind * (es - ea)
    return (num / (slope + gamma * (1 + 0.34 * w.wind))).clamp_min(0.0)


@torch.compile
def advance(w, store, lat, elev, capacity, day):
    et0 = reference_et(w, lat, elev, day)
    filled = store / capacity
    stress = torch.sigmoid((filled - 0.35) * 14.0)
    runoff = w.rain * filled.clamp(0, 1) ** 3
    infiltrated = w.rain - runoff
    drainage = 4.0 * torch.exp(9.0 * (filled - 1.0))
    actual = torch.minimum(et0 * stress, store)
    new = store + infiltrated - actual - drainage
    spill = torch.relu(new - capacity)
    new = torch.minimum(new, capacity).clamp_min(1.0)
    return new, et0, actual, runoff + drainage + spill


def main():
    gen = torch.Generator().manual_seed(9)
    lat = torch.deg2rad(torch.linspace(44, 48, ROWS)).unsqueeze(1).expand(ROWS, COLS).contiguous()
    elev = 200 + 600 * torch.rand(ROWS, COLS, generator=gen)
    capacity = 80 + 60 * torch.rand(ROWS, COLS, generator=gen)
    library = [make_weather(d, gen) for d in (30, 120, 200, 290)]
    days = [torch.tensor(float(d)) for d in (30, 120, 200, 290)]

    store = 0.7 * capacity
    for i in range(4):
        store, *_ = advance(library[i], store, lat, elev, capacity, days[i])

    times, et_mean, flow = [], torch.zeros(4), 0.0
    for i in range(120):
        k = (i // 5) % 4
        t0 = time.perf_counter()
        store, et0, actual, out = advance(library[k], store, lat, elev, capacity, days[k])
        times.append(time.perf_counter() - t0)
        et_mean[k] = et0.mean()
        flow += float(out.mean())

    print(
        "et0 by season [mm/d]",
        [round(v, 2) for v in et_mean.tolist()],
        f"store {store.mean():.1f} mm, outflow {flow:.1f} mm",
    )
    assert 0.1 < et_mean[0] < et_mean[2] < 9 and torch.isfinite(store).all()
    times.sort()
    print(f"{1e3 * times[len(times) // 2]:.2f} ms per day")


if __name__ == "__main__":
    main()
