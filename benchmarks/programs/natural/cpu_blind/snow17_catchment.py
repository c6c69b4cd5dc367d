"""Distributed snow accumulation and melt (after SNOW-17) with a two-bucket runoff model for an alpine catchment.

Runs some years of daily weather over a grid and scores the discharge with Nash-Sutcliffe against a "measured"
series that was made with other parameters.
"""

import math

import torch
from torch import nn

torch.manual_seed(17)

H, W = 240, 320
YEARS = 4
START_DAY = 274  # hydrological year begins in October


def make_terrain():
    y, x = torch.meshgrid(torch.linspace(0, 1, H), torch.linspace(0, 1, W), indexing="ij")
    z = 900 + 1500 * y + 300 * torch.sin(9 * x) * torch.cos(7 * y) + 200 * torch.sin(23 * x + 4 * y)
    aspect = torch.sin(12 * x + 5 * y)
    forest = torch.sigmoid((1800 - z) / 120)
    return z, aspect, forest


def make_weather(days):
    t = torch.arange(days)
    season = torch.cos(2 * math.pi * (t + START_DAY - 200) / 365)
    temp = 7 + 10 * season
    noise = 0.0
    out = []
    for k in range(days):
        noise = 0.75 * noise + 2.2 * torch.randn(()).item()
        out.append(noise)
    temp = temp + torch.tensor(out)
    wet = torch.rand(days) < 0.42
    rain = torch.where(wet, torch.distributions.Gamma(0.8, 0.09).sample((days,)), torch.zeros(days))
    return temp, rain


class SnowCatchment(nn.Module):
    def __init__(self, terrain, mf_max=5.5, mf_min=1.6, k_quick=0.25, k_slow=0.02):
        super().__init__()
        z, aspect, forest = terrain
        self.register_buffer("z", z)
        self.register_buffer("factor", (1 + 0.2 * aspect) * (1 - 0.35 * forest))
        self.register_buffer("pressure", 1013.0 * (1 - 2.2569e-5 * z) ** 5.2553)
        self.mf_max, self.mf_min = mf_max, mf_min
        self.k_quick, self.k_slow = k_quick, k_slow
        self.lapse, self.t_snow, self.t_melt = -0.0062, 1.2, 0.3
        self.holding, self.tipm, self.field = 0.05, 0.3, 120.0
        self.reset()

    def reset(self):
        zero = torch.zeros(H, W)
        self.ice, self.liquid, self.deficit, self.ati = zero, zero, zero, zero
        self.soil, self.quick, self.slow = zero + 60, zero, zero + 30
        self.day = START_DAY

    def forward(self, temp, rain):
        self.day += 1
        doy = self.day % 365
        t = temp + self.lapse * (self.z - 1200)
        p = rain * (1 + 2.5e-4 * (self.z - 1200)).clamp(0.5, 1.6)
        fraction = ((self.t_snow + 1 - t) / 2).clamp(0, 1)
        snow, rain_on = p * fraction * 1.15, p * (1 - fraction)

        # surface's antecedent temperature and heat deficit
        melt_factor = 0.5 * (self.mf_max + self.mf_min) + 0.5 * (self.mf_max - self.mf_min) * math.sin(
            2 * math.pi * (doy - 81) / 365
        )
        fresh = snow > 15
        ati = torch.where(fresh, t, self.ati + self.tipm * (t - self.ati)).clamp(max=0.0)
        change = 0.15 * melt_factor / self.mf_max * (ati - t) + snow * (-t).clamp(min=0) / 160
        deficit = (self.deficit + change).clamp(min=0)
        ice = self.ice + snow
        deficit = torch.minimum(deficit, 0.33 * ice)

        # melt: by energy balance in rain, by degree-days otherwise
        tp = t.clamp(min=0)
        vapour = 2.7489e8 * torch.exp(-4278.63 / (t + 242.792))
        rain_melt = (
            6.12e-10 * 24 * ((t + 273) ** 4 - 273.0**4)
            + 0.0125 * rain_on * tp
            + 8.5 * 0.03 * 4 * ((0.9 * vapour - 6.11) + 0.00057 * self.pressure * t)
        )
        dry_melt = melt_factor * self.factor * (t - self.t_melt) + 0.0125 * rain_on * tp
        melt = torch.where(rain_on > 6, rain_melt, dry_melt).clamp(min=0)
        melt = torch.minimum(melt, ice)
        ice = ice - melt
        water = torch.where(ice > 0, melt + rain_on, melt)
        frozen = torch.minimum(deficit, water)
        ice, deficit = ice + frozen, deficit - frozen
        liquid = self.liquid + water - frozen
        capacity = self.holding * ice
        outflow = (liquid - capacity).clamp(min=0)
        liquid = liquid - outflow
        inflow = outflow + torch.where(ice > 0, torch.zeros_like(rain_on), rain_on)

        # soil and two reservoirs
        recharge = inflow * (self.soil / self.field).clamp(0, 1) ** 2
        demand = (0.25 * tp * (ice <= 0)).clamp(max=6.0)
        soil = (self.soil + inflow - recharge - demand * (self.soil / self.field).clamp(0, 1)).clamp(min=0)
        quick = self.quick + 0.6 * recharge
        slow = self.slow + 0.4 * recharge
        flow = self.k_quick * quick + self.k_slow * slow
        self.quick, self.slow = quick * (1 - self.k_quick), slow * (1 - self.k_slow)
        self.ice, self.liquid, self.deficit, self.ati, self.soil = ice, liquid, deficit, ati, soil
        return flow.mean(), (ice + liquid).mean()


def simulate(model, temp, rain):
    flows, snows = [], []
    for k in range(len(temp)):
        q, s = model(temp[k], rain[k])
        flows.append(q)
        snows.append(s)
    return torch.stack(flows), torch.stack(snows)


@torch.no_grad()
def main():
    terrain = make_terrain()
    temp, rain = make_weather(365 * YEARS)
    model = SnowCatchment(terrain)
    model.compile()
    q, swe = simulate(model, temp, rain)
    noisy = q * torch.exp(0.1 * torch.randn(len(q)))
    nse = 1 - (noisy - q).pow(2).sum() / (noisy - noisy.mean()).pow(2).sum()
    for year in range(YEARS):
        part = slice(365 * year, 365 * (year + 1))
        print(
            f"year {year + 1}: peak SWE {swe[part].max():.0f} mm on day {swe[part].argmax().item()}, "
            f"peak flow {q[part].max():.1f} mm/d, runoff {q[part].sum():.0f} mm, rain {rain[part].sum():.0f} mm"
        )
    print(f"Nash-Sutcliffe {nse:.3f}")


if __name__ == "__main__":
    main()
