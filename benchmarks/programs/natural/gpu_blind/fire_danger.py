"""Hourly fire-spread danger maps from an ensemble weather forecast.

Coarse (2 km) fuel moisture and wind fields -> rate of spread with the Canadian
FBP equations -> 250 m grid, where slope and the fuel map are applied.
"""

import math
import os
import time

import torch
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
DEVICE = "cpu" if SMOKE else "cuda"
MEMBERS = 3 if SMOKE else 96
COARSE = 16 if SMOKE else 256
SCALE = 8
FINE = COARSE * SCALE
HOURS = 6 if SMOKE else 384

# FBP fuel type C-2 (boreal spruce)
C2_A, C2_B, C2_C = 110.0, 0.0282, 1.5


def smooth_noise(shape, cells, g):
    z = torch.randn(*shape[:2], cells, cells, device=DEVICE, generator=g)
    return F.interpolate(z, size=shape[2:], mode="bicubic", align_corners=False)


def terrain():
    g = torch.Generator(device=DEVICE).manual_seed(8)
    elev = 400 * smooth_noise((1, 1, FINE, FINE), max(4, FINE // 64), g)
    gy, gx = torch.gradient(elev[0, 0], spacing=250.0)
    slope = torch.sqrt(gx**2 + gy**2).clamp(max=0.7)
    slope_factor = torch.exp(3.533 * slope**1.2)[None, None]
    burnable = smooth_noise((1, 1, FINE, FINE), max(4, FINE // 32), g) > -0.9
    return slope_factor, burnable


def weather_base():
    g = torch.Generator(device=DEVICE).manual_seed(9)
    shape = (MEMBERS, 1, COARSE, COARSE)
    moisture = 14 + 3 * smooth_noise(shape, 8, g)
    wind = 16 + 6 * smooth_noise(shape, 12, g)
    return moisture, wind


def forecast(base, hour):
    moisture, wind = base
    phase = 2 * math.pi * (hour - 15) / 24
    m = (moisture - 6.0 * math.cos(phase)).clamp(2.0, 60.0)
    w = (wind * (1 + 0.4 * math.cos(phase))).clamp(min=0.0)
    return m, torch.exp(0.05039 * w)


def rate_of_spread(moisture, wind_fn):
    isi = 19.115 * wind_fn * torch.exp(-0.1386 * moisture) * (1 + moisture**5.31 / 4.93e7)
    return C2_A * (1 - torch.exp(-C2_B * isi)) ** C2_C


@torch.compile
def danger_map(moisture, wind_fn, slope_factor, burnable):
    ros = rate_of_spread(moisture, wind_fn)
    ros = F.interpolate(ros, scale_factor=SCALE, mode="bilinear", align_corners=False)
    ros = torch.where(burnable, ros * slope_factor, 0.0)
    area = (ros > 10.0).float().mean((1, 2, 3))
    mean = ros.mean((1, 2, 3))
    worst = ros.amax(0)
    return area, mean, worst


@torch.no_grad()
def main():
    slope_factor, burnable = terrain()
    base = weather_base()
    season_max = torch.zeros(1, FINE, FINE, device=DEVICE)
    print(f"{MEMBERS} members, {FINE}x{FINE} grid, {burnable.float().mean().item() * 100:.0f}% burnable")

    t0 = time.perf_counter()
    for day in range(HOURS // 24 if not SMOKE else 1):
        daily_area = []
        daily_mean = []
        for hour in range(24 if not SMOKE else HOURS):
            m, wf = forecast(base, hour)
            m = m + 0.2 * day
            area, mean, worst = danger_map(m, wf, slope_factor, burnable)
            daily_area.append(area)
            daily_mean.append(mean)
            torch.maximum(season_max, worst, out=season_max)
        area = torch.stack(daily_area)
        spread = area.std(1).max().item()
        print(
            f"day {day:2d}  peak danger area {area.mean(1).max().item() * 100:5.1f}%  "
            f"ensemble spread {spread * 100:4.1f}%  "
            f"mean ROS {torch.stack(daily_mean).mean().item():.2f} m/min  "
            f"{time.perf_counter() - t0:.2f} s"
        )
    print(f"season worst ROS {season_max.max().item():.1f} m/min")


if __name__ == "__main__":
    main()
