"""Day-ahead PV portfolio yield.

1500 roof-top sites in one distribution area, one-minute resolution.  For each site
we need the daily energy, the clipping loss of the inverter and the peak; the
trading desk re-runs it for each weather scenario (cloud cover and temperature
per site), so it has to be quick.
"""

import math
import time

import torch

torch.manual_seed(42)

SITES, MINUTES = 1500, 1440
DEG = math.pi / 180


class Fleet:
    def __init__(self, n, seed=3):
        g = torch.Generator().manual_seed(seed)

        def u(lo, hi):
            return lo + (hi - lo) * torch.rand(n, generator=g)

        self.lat = u(48.1, 49.4) * DEG
        self.lon = u(8.2, 10.1)
        self.tilt = u(10, 45) * DEG
        self.kwp = u(3, 30)
        self.inverter = self.kwp * u(0.7, 1.0)
        self.soiling = u(0.92, 0.99)


@torch.compile(fullgraph=True)
def site_yield(minute, doy, lat, lon, tilt, kwp, inverter, soiling, cloud, tmean, tamp):
    """minute: [T] UTC; all site quantities [N]; returns per-site day figures."""
    # --- astronomy of the day ------------------------------------------------
    day = doy + minute / 1440.0
    decl = 0.4093 * torch.sin(2 * math.pi * (day - 81.0) / 365.0)
    b = 2 * math.pi * (day - 81.0) / 364.0
    eot = 9.87 * torch.sin(2 * b) - 7.53 * torch.cos(b) - 1.5 * torch.sin(b)
    extra = 1.361 * (1 + 0.033 * torch.cos(2 * math.pi * day / 365.0))
    linke = 3.3 + 0.7 * torch.sin(2 * math.pi * (day - 100.0) / 365.0)
    diurnal = torch.cos(2 * math.pi * (minute - 870.0) / 1440.0)

    # --- sun position at each site -------------------------------------------
    solar_min = minute + eot + 4.0 * lon[:, None]
    ha = (solar_min - 720.0) * (0.25 * DEG)
    sd, cd, ch = torch.sin(decl), torch.cos(decl), torch.cos(ha)
    sin_el = torch.sin(lat)[:, None] * sd + torch.cos(lat)[:, None] * cd * ch
    up = sin_el.clamp_min(0.02)
    # south-facing plane: same formula at latitude minus tilt
    cos_inc = (torch.sin(lat - tilt)[:, None] * sd + torch.cos(lat - tilt)[:, None] * cd * ch).clamp_min(0.0)

    # --- clear sky, clouds, plane of array -----------------------------------
    airmass = 1.0 / (up + 0.035)
    beam = extra * torch.exp(-0.045 * linke * airmass)
    diffuse = 0.12 * extra * up
    clear_frac = 1.0 - 0.75 * cloud[:, None]
    poa = beam * cos_inc * clear_frac + diffuse * (1 + 0.5 * cloud[:, None])
    poa = torch.where(sin_el > 0.02, poa, torch.zeros_like(poa))

    # --- module temperature and DC/AC conversion -----------------------------
    tcell = tmean[:, None] + tamp[:, None] * diurnal + 28.0 * poa
    dc = kwp[:, None] * poa * soiling[:, None] * (1.0 - 0.0038 * (tcell - 25.0))
    ac = torch.minimum(dc, inverter[:, None]) * 0.975
    energy = ac.sum(1) / 60.0
    clipped = (dc - inverter[:, None]).clamp_min(0.0).sum(1) / 60.0
    return energy, clipped, ac.amax(1)


def scenarios(count, seed=19):
    g = torch.Generator().manual_seed(seed)
    for _ in range(count):
        front = torch.rand((), generator=g)
        cloud = (front + 0.3 * torch.randn(SITES, generator=g)).clamp(0, 1)
        tmean = 14 + 6 * torch.rand((), generator=g) + torch.randn(SITES, generator=g)
        tamp = 7 * (1 - 0.6 * cloud)
        yield cloud, tmean, tamp


def main():
    fleet = Fleet(SITES)
    minute = torch.arange(MINUTES, dtype=torch.float32)
    doy = torch.tensor(172.0)
    runs = list(scenarios(28))

    def evaluate(s):
        return site_yield(
            minute,
            doy,
            fleet.lat,
            fleet.lon,
            fleet.tilt,
            fleet.kwp,
            fleet.inverter,
            fleet.soiling,
            *s,
        )

    for s in runs[:3]:
        evaluate(s)
    totals, clip, peak = [], 0.0, 0.0
    t0 = time.perf_counter()
    for s in runs[3:]:
        e, c, p = evaluate(s)
        totals.append(e.sum())
        clip += c.sum().item()
        peak = max(peak, p.max().item())
    dt = (time.perf_counter() - t0) / len(totals)
    tot = torch.stack(totals)
    p10, p50, p90 = torch.quantile(tot, torch.tensor([0.1, 0.5, 0.9])).tolist()
    print(f"time per step: {dt * 1e3:.2f} ms")
    print(
        f"result: P10/P50/P90 {p10:.0f}/{p50:.0f}/{p90:.0f} kWh, "
        f"clipped {clip / len(totals):.1f} kWh, peak {peak:.2f} kW"
    )


if __name__ == "__main__":
    main()
