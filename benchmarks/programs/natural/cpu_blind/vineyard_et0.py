"""
Daily reference evapotranspiration and soil water balance for a vineyard
region raster (FAO-56 Penman-Monteith, one value per 50 m cell).

Used to schedule drip irrigation: the model steps through the season day by day
and reports the cells that fall below the readily available water.
"""

import math
import time

import torch
import torch.nn as nn

torch.manual_seed(56)

ROWS, COLS = 640, 720
DAYS = 32
FIRST_DOY = 172


class PenmanMonteith(nn.Module):
    def __init__(self, elevation, latitude):
        super().__init__()
        self.register_buffer("z", elevation)
        self.register_buffer("phi", latitude)

    def radiation(self, doy):
        """extraterrestrial radiation, MJ m-2 d-1"""
        dr = 1 + 0.033 * torch.cos(2 * math.pi / 365 * doy)
        decl = 0.409 * torch.sin(2 * math.pi / 365 * doy - 1.39)
        ws = torch.acos((-torch.tan(self.phi) * torch.tan(decl)).clamp(-1, 1))
        return (
            37.586
            * dr
            * (
                ws * torch.sin(self.phi) * torch.sin(decl)
                + torch.cos(self.phi) * torch.cos(decl) * torch.sin(ws)
            )
        )

    @staticmethod
    def es(t):
        return 0.6108 * torch.exp(17.27 * t / (t + 237.3))

    def forward(self, doy, tmin, tmax, rh, wind, cloud):
        tmean = 0.5 * (tmin + tmax)
        press = 101.3 * torch.exp(-self.z / 8434.0)
        gamma = 0.000665 * press
        svp = 0.5 * (self.es(tmin) + self.es(tmax))
        ea = svp * rh
        slope = 4098 * self.es(tmean) / (tmean + 237.3) ** 2

        ra = self.radiation(doy)
        rso = (0.75 + 2e-5 * self.z) * ra
        rs = rso * (1 - 0.65 * cloud * cloud)
        rns = 0.77 * rs
        tk_max, tk_min = tmax + 273.16, tmin + 273.16
        sigma = 4.903e-9
        long_out = sigma * 0.5 * (tk_max**4 + tk_min**4)
        rnl = long_out * (0.34 - 0.14 * torch.sqrt(ea)) * (1.35 * (rs / rso).clamp(0.3, 1.0) - 0.35)
        rn = rns - rnl
        num = 0.408 * slope * rn + gamma * 900.0 / (tmean + 273.0) * wind * (svp - ea)
        return (num / (slope + gamma * (1 + 0.34 * wind))).clamp_min(0.0)


class WaterBalance(nn.Module):
    def __init__(self, et, taw):
        super().__init__()
        self.et = et
        self.register_buffer("taw", taw)  # total available water, mm

    def forward(self, depletion, doy, tmin, tmax, rh, wind, cloud, rain):
        et0 = self.et(doy, tmin, tmax, rh, wind, cloud)
        kc = 0.3 + 0.4 * torch.sigmoid((doy - 180.0) / 12.0)
        p = (0.45 + 0.04 * (5 - kc * et0)).clamp(0.1, 0.8)
        raw = p * self.taw
        ks = ((self.taw - depletion) / (self.taw - raw)).clamp(0, 1)
        eta = ks * kc * et0
        depletion = (depletion + eta - 0.8 * rain).clamp_min(0.0)
        depletion = torch.minimum(depletion, self.taw)
        stressed = (depletion > raw).float().mean()
        return depletion, eta.mean(), stressed


def weather(day, relief):
    warm = 3 * math.sin(day / 5.0)
    tmin = 14 + warm - 0.0065 * relief
    tmax = tmin + 13 + torch.randn(())
    rh = (0.62 - 0.01 * warm + 0.0001 * relief).clamp(0.2, 0.98)
    wind = 1.2 + 0.002 * relief
    cloud = torch.full_like(relief, 0.5 + 0.4 * math.sin(day * 1.7))
    rain = torch.full_like(relief, 16.0 if day % 6 == 3 else 0.0)
    return tmin, tmax, rh, wind, cloud, rain


def main():
    relief = 300 + 200 * torch.sin(torch.linspace(0, 9, ROWS))[:, None] * torch.cos(
        torch.linspace(0, 7, COLS)
    )
    lat = torch.deg2rad(torch.linspace(44.9, 44.6, ROWS))[:, None].expand(ROWS, COLS).contiguous()
    model = torch.compile(WaterBalance(PenmanMonteith(relief, lat), 90 + 40 * torch.rand(ROWS, COLS)))
    depletion = torch.full((ROWS, COLS), 20.0)
    with torch.no_grad():
        for d in range(DAYS):
            w = weather(d, relief)
            doy = torch.tensor(float(FIRST_DOY + d))
            t0 = time.perf_counter()
            depletion, eta, stressed = model(depletion, doy, *w)
            dt = time.perf_counter() - t0
            print(f"day {d:3d}  {dt * 1e3:8.2f} ms  ETa {eta:.2f} mm  stressed {100 * stressed:.1f} %")
    print(f"mean root-zone depletion {depletion.mean():.2f} mm")


if __name__ == "__main__":
    main()
