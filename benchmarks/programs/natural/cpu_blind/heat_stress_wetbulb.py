"""Heat-stress indices on a global quarter-degree grid: wet-bulb temperature, humidex, simplified WBGT.

The wet-bulb temperature starts from Stull's formula and is refined by Newton steps on the enthalpy balance.  The
days of a season are worked off one after the other and the days above the usual limits are counted.
"""

import math
import time

import torch

NLAT, NLON = 361, 1440
DAYS = 122
CP = 1005.7
LV0 = 2.501e6


def saturation_vapour_pressure(t):
    """hPa, t in degrees C (Bolton 1980)."""
    return 6.112 * torch.exp(17.67 * t / (t + 243.5))


def stull_wetbulb(t, rh):
    return (
        t * torch.atan(0.151977 * torch.sqrt(rh + 8.313659))
        + torch.atan(t + rh)
        - torch.atan(rh - 1.676331)
        + 0.00391838 * rh * torch.sqrt(rh) * torch.atan(0.023101 * rh)
        - 4.686035
    )


@torch.compile
def heat_indices(t2m, d2m, ps, wind, solar):
    """Inputs: temperature and dew point (C), pressure (hPa), wind (m/s), solar radiation (W/m2)."""
    e = saturation_vapour_pressure(torch.minimum(d2m, t2m))
    rh = (100.0 * e / saturation_vapour_pressure(t2m)).clamp(1.0, 100.0)
    q = 0.622 * e / (ps - 0.378 * e)
    tw = torch.where(t2m > -15.0, stull_wetbulb(t2m, rh), t2m - 1.0)
    for _ in range(4):
        es = saturation_vapour_pressure(tw)
        denom = ps - 0.378 * es
        qs = 0.622 * es / denom
        des = es * 17.67 * 243.5 / (tw + 243.5).square()
        dqs = 0.622 * ps * des / denom.square()
        lv = LV0 - 2361.0 * tw
        balance = CP * (t2m - tw) - lv * (qs - q)
        slope = -CP - lv * dqs + 2361.0 * (qs - q)
        tw = tw - (balance / slope).clamp(-5.0, 5.0)
    humidex = t2m + 0.5555 * (e - 10.0)
    globe = t2m + 0.017 * solar / (1.0 + 0.4 * torch.sqrt(wind + 0.1))
    wbgt = 0.7 * tw + 0.2 * globe + 0.1 * t2m
    level = (
        (wbgt > 25.0).to(torch.uint8)
        + (wbgt > 28.0).to(torch.uint8)
        + (wbgt > 30.0).to(torch.uint8)
        + (wbgt > 32.0).to(torch.uint8)
    )
    return tw, humidex, wbgt, level


class SyntheticReanalysis:
    """Smooth fields with weather that drifts, as cheap stand-in for a day of reanalysis."""

    def __init__(self, gen):
        lat = torch.linspace(math.pi / 4, -math.pi / 4, NLAT)[:, None]
        lon = torch.linspace(0, 2 * math.pi, NLON + 1)[:-1][None, :]
        self.land = ((torch.sin(3 * lon) + torch.cos(2 * lon + 4 * lat)) > 0.3).float()
        self.base = 28.0 * torch.cos(1.1 * (lat - 0.15)) + 4.0 * self.land
        self.relief = 900.0 * self.land * torch.sin(5 * lon).clamp_min(0) * torch.cos(3 * lat).square()
        self.noise = [
            torch.nn.functional.interpolate(
                torch.randn(1, 1, 20, 72, generator=gen), size=(NLAT, NLON), mode="bicubic"
            )[0, 0]
            for _ in range(4)
        ]

    def day(self, d):
        a = [torch.roll(n, shifts=9 * d * (k + 1), dims=1) for k, n in enumerate(self.noise)]
        t2m = self.base - 0.0065 * self.relief + 3.0 * a[0] + 2.0 * math.sin(2 * math.pi * d / 90)
        d2m = t2m - (5.0 + 6.0 * self.land + 3.0 * a[1]).clamp_min(0.0)
        ps = 1013.0 * torch.exp(-self.relief / 8400.0) + 6.0 * a[2]
        wind = (3.5 + 2.0 * a[3]).abs()
        solar = (620.0 + 120.0 * a[1]).clamp(0.0, 1000.0)
        return t2m, d2m, ps, wind, solar


@torch.inference_mode()
def main():
    gen = torch.Generator().manual_seed(1)
    fields = SyntheticReanalysis(gen)
    hot_days = torch.zeros(NLAT, NLON, dtype=torch.int32)
    peak = torch.full((NLAT, NLON), -99.0)
    busy = 0.0
    for d in range(DAYS):
        day = fields.day(d)
        t0 = time.perf_counter()
        tw, humidex, wbgt, level = heat_indices(*day)
        busy += time.perf_counter() - t0
        hot_days += level >= 3
        torch.maximum(peak, tw, out=peak)
        if d % 30 == 0:
            share = torch.bincount(level.flatten().long(), minlength=5).float() / level.numel()
            print(
                f"day {d:3d} wet bulb max {tw.max():.1f} C humidex mean {humidex.mean():.1f} WBGT mean "
                f"{wbgt.mean():.1f} levels {[round(s, 3) for s in share.tolist()]}"
            )
    land = fields.land > 0
    print(
        f"land with more than 20 hot days: {100 * (hot_days[land] > 20).float().mean():.1f} %, "
        f"highest wet bulb over land {peak[land].max():.2f} C"
    )
    print(f"{DAYS} days, indices {busy:.2f} s")


if __name__ == "__main__":
    main()
