"""Multi-site daily weather generator (Richardson type, with spatially correlated residuals).

Occurrence of rain is a first-order Markov chain per station with monthly transition probabilities, amounts are
mixed-exponential, and maximum/minimum temperature follow a bivariate AR(1) conditioned on the wet/dry state.
An ensemble of synthetic years is generated day by day and the climate indices used by the impact group are
collected: longest dry spell, annual maximum daily rain, frost days and heat-wave days.
"""

import datetime
import math

import torch

torch.manual_seed(1961)
MEMBERS, STATIONS, YEARS = 300, 64, 8


def correlation(xy, length, nugget=0.02):
    d = torch.cdist(xy, xy)
    c = torch.exp(-d / length)
    return c * (1 - nugget) + nugget * torch.eye(len(xy))


class StationClimate:
    """Fitted parameters; here made up to look like a temperate region with a wet west and a dry east."""

    def __init__(self, n):
        self.xy = torch.rand(n, 2) * torch.tensor([300.0, 200.0])
        west = 1 - self.xy[:, 0] / 300.0
        month = torch.arange(12.0)[:, None]
        season = torch.cos(2 * math.pi * (month - 0.5) / 12)
        self.p_wd = (0.20 + 0.12 * west + 0.06 * season).clamp(0.02, 0.95)  # P(wet | dry)
        self.p_ww = (0.50 + 0.15 * west + 0.08 * season).clamp(0.02, 0.95)  # P(wet | wet)
        self.mix = (0.65 - 0.10 * season + 0.0 * west).clamp(0.1, 0.9)
        self.mu_small = 1.6 + 0.8 * west + 0.2 * season
        self.mu_large = 8.5 + 5.0 * west - 1.5 * season
        self.elev = torch.rand(n) * 900
        self.chol_occ = torch.linalg.cholesky(correlation(self.xy, 160.0))
        self.chol_amt = torch.linalg.cholesky(correlation(self.xy, 70.0))
        self.chol_tmp = torch.linalg.cholesky(correlation(self.xy, 400.0))
        # Matalas (1967) lag-0 / lag-1 matrices for (tmax, tmin)
        m0 = torch.tensor([[1.0, 0.63], [0.63, 1.0]])
        m1 = torch.tensor([[0.62, 0.45], [0.59, 0.66]])
        self.A = m1 @ torch.linalg.inv(m0)
        self.B = torch.linalg.cholesky(m0 - self.A @ m1.T)

    def mean_temp(self, doy, wet):
        phase = math.cos(2 * math.pi * (doy - 15) / 365.25)
        lapse = -0.0065 * self.elev
        tmax = 14.0 - 9.5 * phase + lapse - torch.where(wet, 2.2, 0.0)
        tmin = 5.5 - 7.0 * phase + lapse + torch.where(wet, 0.9, 0.0)
        sd = 3.8 + 0.7 * phase
        return tmax, tmin, sd


class WeatherGenerator:
    def __init__(self, climate, members):
        self.c = climate
        n = len(climate.elev)
        self.members, self.n = members, n
        self.wet = torch.rand(members, n) < 0.4
        self.resid = torch.zeros(members, n, 2)
        self.dry_run = torch.zeros(members, n, dtype=torch.int64)
        self.hot_run = torch.zeros(members, n, dtype=torch.int64)

    def step(self, month, doy):
        c = self.c
        z = torch.randn(self.members, self.n) @ c.chol_occ.T
        u = 0.5 * (1 + torch.erf(z / math.sqrt(2)))
        p = torch.where(self.wet, c.p_ww[month], c.p_wd[month])
        self.wet = u < p

        z = torch.randn(self.members, self.n) @ c.chol_amt.T
        u = (0.5 * torch.erfc(z / math.sqrt(2))).clamp(1e-6, 1 - 1e-6)
        pick = torch.rand(self.members, self.n) < c.mix[month]
        mean = torch.where(pick, c.mu_small[month], c.mu_large[month])
        rain = torch.where(self.wet, 0.2 - mean * torch.log(u), 0.0)

        noise = torch.einsum("ij,mjk->mik", c.chol_tmp, torch.randn(self.members, self.n, 2))
        self.resid = self.resid @ c.A.T + noise @ c.B.T
        mx, mn, sd = c.mean_temp(doy, self.wet)
        tmax = mx + sd * self.resid[..., 0]
        tmin = torch.minimum(mn + sd * self.resid[..., 1], tmax - 0.5)

        self.dry_run = torch.where(rain < 1.0, self.dry_run + 1, 0)
        self.hot_run = torch.where(tmax > 27.0, self.hot_run + 1, 0)
        return rain, tmax, tmin


def generate(gen, step, first_year, years):
    indices = []
    day = datetime.date(first_year, 1, 1)
    m, n = gen.members, gen.n
    for _ in range(years):
        year = day.year
        rx1day = torch.zeros(m, n)
        cdd = torch.zeros(m, n, dtype=torch.int64)
        frost = torch.zeros(m, n)
        heat = torch.zeros(m, n)
        total = torch.zeros(m, n)
        while day.year == year:
            rain, tmax, tmin = step(day.month - 1, day.timetuple().tm_yday)
            total += rain
            torch.maximum(rx1day, rain, out=rx1day)
            torch.maximum(cdd, gen.dry_run, out=cdd)
            frost += tmin < 0
            heat += gen.hot_run >= 3
            day += datetime.timedelta(days=1)
        indices.append(torch.stack([total, rx1day, cdd.float(), frost, heat]))
    return torch.stack(indices)


def main():
    climate = StationClimate(STATIONS)
    gen = WeatherGenerator(climate, MEMBERS)
    step = torch.compile(gen.step)
    for _ in range(10):  # let the Markov chain forget its start
        step(11, 350)
    out = generate(gen, step, 2031, YEARS)  # years, index, member, station
    names = ["PRCPTOT", "RX1day", "CDD", "FD", "heat-wave days"]
    for i, name in enumerate(names):
        x = out[:, i].flatten()
        q = torch.quantile(x[torch.randperm(len(x))[:50000]], torch.tensor([0.1, 0.5, 0.9]))
        print(f"{name:15s} mean {x.mean():8.2f}   p10/p50/p90 " + "  ".join(f"{v:7.1f}" for v in q.tolist()))
    r = torch.corrcoef(out[:, 0].permute(2, 0, 1).reshape(STATIONS, -1))
    print(
        f"mean inter-station correlation of annual totals: {r[~torch.eye(STATIONS, dtype=torch.bool)].mean():.3f}"
    )


if __name__ == "__main__":
    main()
