"""Reserve risk of a non-life insurer: over-dispersed Poisson bootstrap of paid-claims triangles (England & Verrall).

For each line of business: fit the chain ladder, resample Pearson residuals, refit, project the lower triangle, add
process noise by gamma draws. Reports best estimate, standard error and the 99.5 % quantile, per line and in total.
"""

import torch
from torch.distributions import Gamma

N_YEARS = 12
SIMS_PER_BATCH = 4000
BATCHES = 32
LINES = {
    # name: (mean ultimate of the first year, growth, speed of payment, dispersion)
    "motor_property": (42_000.0, 1.03, 1.10, 90.0),
    "motor_liability": (65_000.0, 1.02, 0.35, 400.0),
    "household": (23_000.0, 1.04, 1.30, 120.0),
    "general_liability": (18_000.0, 1.05, 0.28, 350.0),
    "workers_comp": (30_000.0, 1.01, 0.40, 220.0),
}


def known_mask(n):
    i = torch.arange(n)
    return (i[:, None] + i[None, :]) < n


def make_triangle(ult0, growth, speed, phi, gen):
    i = torch.arange(N_YEARS, dtype=torch.float64)
    ult = ult0 * growth**i
    cdf = 1.0 - torch.exp(-speed * (i + 1.0))
    pattern = torch.diff(cdf, prepend=torch.zeros(1, dtype=torch.float64)) / cdf[-1]
    mean = ult[:, None] * pattern[None, :]
    noise = torch.randn(N_YEARS, N_YEARS, generator=gen, dtype=torch.float64)
    inc = (mean + noise * torch.sqrt(phi * mean)).clamp(min=1.0)
    return torch.where(known_mask(N_YEARS), inc, torch.zeros_like(inc))


def chain_ladder_factors(cum):
    """Volume-weighted development factors of cumulative triangles [..., n, n]."""
    n = cum.shape[-1]
    factors = []
    for j in range(n - 1):
        rows = n - 1 - j
        num = cum[..., :rows, j + 1].sum(-1)
        den = cum[..., :rows, j].sum(-1)
        factors.append(num / den.clamp(min=1e-6))
    return torch.stack(factors, dim=-1)


def fitted_incremental(cum, factors):
    """Backward-fitted increments: start at the latest diagonal and divide by the factors."""
    n = cum.shape[-1]
    fit = torch.zeros_like(cum)
    for i in range(n):
        last = n - 1 - i
        fit[i, last] = cum[i, last]
        for j in range(last - 1, -1, -1):
            fit[i, j] = fit[i, j + 1] / factors[j]
    return torch.diff(fit, prepend=torch.zeros(n, 1, dtype=cum.dtype), dim=1)


def pearson_residuals(inc, fit, mask):
    n_obs = int(mask.sum())
    n_par = 2 * N_YEARS - 1
    r = (inc - fit)[mask] / fit[mask].abs().sqrt()
    phi = (r**2).sum() / (n_obs - n_par)
    r = r * (n_obs / (n_obs - n_par)) ** 0.5
    return r - r.mean(), phi


@torch.compile
def simulate_reserves(fit, residuals, phi, mask):
    n = fit.shape[0]
    pick = torch.randint(residuals.numel(), (SIMS_PER_BATCH, n, n))
    r = residuals[pick]
    pseudo = torch.where(mask, fit + r * fit.abs().sqrt(), torch.zeros_like(r))
    cum = pseudo.cumsum(-1)
    factors = chain_ladder_factors(cum)

    # project the lower triangle column by column
    future = []
    current = torch.diagonal(cum.flip(-1), dim1=-2, dim2=-1)  # latest diagonal by accident year
    for j in range(1, n):
        rows = torch.arange(n - j, n)
        prev = current[:, rows]
        nxt = prev * factors[:, None, j - 1]
        future.append(nxt - prev)
        current = torch.cat([current[:, : n - j], nxt], dim=1)
    mean = torch.cat(future, dim=1).abs().clamp(min=1e-3)
    paid = Gamma(mean / phi, torch.ones_like(mean) / phi).sample()
    return paid.sum(1), factors


def main():
    torch.manual_seed(2024)
    gen = torch.Generator().manual_seed(12)
    mask = known_mask(N_YEARS)
    total = torch.zeros(SIMS_PER_BATCH * BATCHES, dtype=torch.float64)
    print(f"{'line':20s} {'best est.':>10s} {'mean':>10s} {'s.e.':>8s} {'99.5 %':>10s}")
    for name, (ult0, growth, speed, phi0) in LINES.items():
        tri = make_triangle(ult0, growth, speed, phi0, gen)
        cum = tri.cumsum(1) * mask
        f = chain_ladder_factors(cum)
        fit = fitted_incremental(cum, f) * mask
        res, phi = pearson_residuals(tri, fit, mask)
        latest = torch.diagonal(cum.flip(-1))
        to_ult = torch.cat([f.flip(0).cumprod(0).flip(0), torch.ones(1, dtype=torch.float64)])
        best = (latest * (to_ult.flip(0) - 1.0)).sum()
        sims = torch.cat([simulate_reserves(fit, res, phi, mask)[0] for _ in range(BATCHES)])
        total += sims
        print(f"{name:20s} {best:10.0f} {sims.mean():10.0f} {sims.std():8.0f} {sims.quantile(0.995):10.0f}")
    var = total.quantile(0.995)
    tail = total[total >= var].mean()
    print(f"total: mean {total.mean():.0f}, s.e. {total.std():.0f}, VaR 99.5 {var:.0f}, TVaR {tail:.0f}")


if __name__ == "__main__":
    main()
