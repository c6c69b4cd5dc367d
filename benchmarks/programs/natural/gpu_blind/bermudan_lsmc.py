"""Bermudan put on a dividend-paying stock by Longstaff-Schwartz regression,
re-priced over a ladder of spots to build an intraday price/delta grid."""

import math
import os
import time

import torch

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1"))

N_PATHS = max(4096, int(262144 * SCALE) // 2 * 2)
N_DATES = 48 if SCALE >= 0.5 else 12
STRIKE = 100.0
RATE = 0.045
DIVIDEND = 0.015
VOL = 0.28
MATURITY = 1.0
DEGREE = 4


def simulate(spot, normals, dt):
    """Antithetic exact GBM paths, (dates, paths)."""
    z = torch.cat([normals, -normals], dim=1)
    drift = (RATE - DIVIDEND - 0.5 * VOL * VOL) * dt
    steps = drift + VOL * math.sqrt(dt) * z
    return spot * torch.exp(torch.cumsum(steps, dim=0))


def laguerre_basis(x):
    """Weighted Laguerre polynomials up to DEGREE, (n, DEGREE + 2)."""
    polys = [torch.ones_like(x), 1.0 - x]
    for k in range(1, DEGREE):
        polys.append(((2 * k + 1 - x) * polys[k] - k * polys[k - 1]) / (k + 1))
    damp = torch.exp(-0.5 * x)
    return torch.stack([torch.ones_like(x)] + [damp * p for p in polys], dim=1)


def continuation(x, y):
    """Least-squares estimate of E[y | x] at the sample points."""
    basis = laguerre_basis(x)
    gram = basis.t() @ basis
    ridge = 1e-6 * gram.diagonal().mean()
    gram = gram + ridge * torch.eye(gram.shape[0], device=x.device, dtype=x.dtype)
    rhs = basis.t() @ y
    coef = torch.linalg.solve(gram, rhs)
    return basis @ coef


def payoff(s):
    return torch.clamp(STRIKE - s, min=0.0)


def price_bermudan(spot, normals):
    dt = MATURITY / N_DATES
    discount = math.exp(-RATE * dt)
    paths = simulate(spot, normals, dt)

    cash = payoff(paths[-1])
    exercised_at = torch.full_like(cash, float(N_DATES))
    for t in range(N_DATES - 2, -1, -1):
        cash = cash * discount
        s = paths[t]
        exercise = payoff(s)
        itm = (exercise > 0).nonzero(as_tuple=True)[0]
        if itm.numel() < 10 * (DEGREE + 2):
            continue
        held = continuation(s[itm] / STRIKE, cash[itm])
        now = exercise[itm] > held
        stop = itm[now]
        cash[stop] = exercise[stop]
        exercised_at[stop] = float(t + 1)

    pv = cash * discount
    pairs = 0.5 * (pv[: pv.shape[0] // 2] + pv[pv.shape[0] // 2 :])
    price = torch.maximum(pairs.mean(), payoff(spot))
    stderr = pairs.std() / math.sqrt(pairs.shape[0])
    early = (exercised_at < N_DATES).to(pv.dtype).mean()
    return price, stderr, early


def black_scholes_put(spot):
    sd = VOL * math.sqrt(MATURITY)
    d1 = (math.log(spot / STRIKE) + (RATE - DIVIDEND) * MATURITY) / sd + 0.5 * sd
    cdf = lambda v: 0.5 * (1.0 + math.erf(v / math.sqrt(2.0)))
    return STRIKE * math.exp(-RATE * MATURITY) * cdf(sd - d1) - spot * math.exp(-DIVIDEND * MATURITY) * cdf(
        -d1
    )


def sync():
    if DEVICE.startswith("cuda"):
        torch.cuda.synchronize()


def main():
    torch.manual_seed(2024)
    pricer = torch.compile(price_bermudan)
    n_spots = 40
    ladder = torch.linspace(80.0, 120.0, n_spots, device=DEVICE, dtype=torch.float64)
    normals = torch.randn(N_DATES, N_PATHS // 2, device=DEVICE, dtype=torch.float64)

    for i in (0, n_spots // 2, n_spots - 1, n_spots // 4):
        pricer(ladder[i], normals)
    sync()

    start = time.perf_counter()
    rows = []
    for i in range(n_spots):
        rows.append(torch.stack(pricer(ladder[i], normals)))
    sync()
    took = time.perf_counter() - start

    table = torch.stack(rows)
    delta = torch.gradient(table[:, 0], spacing=(ladder,))[0]
    host = table.cpu()
    for i in range(0, n_spots, 8):
        spot = float(ladder[i])
        print(
            f"S={spot:7.2f}  bermudan {host[i, 0]:8.4f} +- {host[i, 1]:.4f}"
            f"  european {black_scholes_put(spot):8.4f}"
            f"  delta {float(delta[i]):7.4f}  early {100 * host[i, 2]:5.1f}%"
        )
    print(f"{1e3 * took / n_spots:.2f} ms per spot, {N_PATHS} paths, {N_DATES} dates")


if __name__ == "__main__":
    main()
