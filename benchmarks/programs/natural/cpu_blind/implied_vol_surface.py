"""Implied volatilities for streaming option-chain snapshots.

Every snapshot of the chain (a few ten thousand quotes, the number differs as
strikes are listed and delisted) is inverted with a safeguarded Newton
iteration on the Black-76 price, then summarised as an ATM term structure and
a 25-delta-ish risk reversal per expiry.
"""

import math
import time

import numpy as np
import torch

torch.set_default_dtype(torch.float64)

N_SNAPSHOTS = 24
WARMUP = 2
TOL = 1e-9
MAX_ITER = 40
EXPIRIES = np.array([7, 14, 30, 60, 91, 182, 273, 365, 547, 730]) / 365.0

SQRT2 = math.sqrt(2.0)
INV_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)


def norm_cdf(x):
    return 0.5 * torch.erfc(-x / SQRT2)


def norm_pdf(x):
    return INV_SQRT_2PI * torch.exp(-0.5 * x * x)


def black_price(fwd, strike, tau, df, vol, is_call):
    sd = vol * torch.sqrt(tau)
    d1 = torch.log(fwd / strike) / sd + 0.5 * sd
    d2 = d1 - sd
    call = df * (fwd * norm_cdf(d1) - strike * norm_cdf(d2))
    put = df * (strike * norm_cdf(-d2) - fwd * norm_cdf(-d1))
    return torch.where(is_call, call, put)


@torch.compile
def newton_step(price, fwd, strike, tau, df, is_call, vol, lo, hi):
    """One bracketed Newton update; returns new vol, new bracket and the error."""
    sqrt_tau = torch.sqrt(tau)
    sd = vol * sqrt_tau
    d1 = torch.log(fwd / strike) / sd + 0.5 * sd
    model = black_price(fwd, strike, tau, df, vol, is_call)
    vega = df * fwd * norm_pdf(d1) * sqrt_tau

    diff = model - price
    lo = torch.where(diff < 0, vol, lo)
    hi = torch.where(diff >= 0, vol, hi)

    step = vol - diff / vega.clamp(min=1e-12)
    bad = (step <= lo) | (step >= hi) | ~torch.isfinite(step)
    vol = torch.where(bad, 0.5 * (lo + hi), step)
    return vol, lo, hi, (diff.abs() / fwd).max()


def implied_vol(q):
    vol = torch.full_like(q["price"], 0.3)
    lo = torch.full_like(vol, 1e-4)
    hi = torch.full_like(vol, 5.0)
    for it in range(MAX_ITER):
        vol, lo, hi, err = newton_step(
            q["price"], q["fwd"], q["strike"], q["tau"], q["df"], q["is_call"], vol, lo, hi
        )
        if err.item() < TOL:
            break
    return vol, it + 1


def make_snapshot(rng, spot):
    """Synthetic chain: SVI-like smile per expiry, out-of-the-money quotes only."""
    fwd, strike, tau, vol = [], [], [], []
    for t in EXPIRIES:
        n = int(rng.integers(1200, 2400))
        k = rng.normal(0.0, 0.9 * math.sqrt(t) * 0.25, n)
        a, b, rho, m, s = 0.02 * t, 0.10 * math.sqrt(t), -0.55, 0.02, 0.12
        w = a + b * (rho * (k - m) + np.sqrt((k - m) ** 2 + s * s))
        f = spot * math.exp(0.02 * t)
        fwd.append(np.full(n, f))
        strike.append(f * np.exp(k))
        tau.append(np.full(n, t))
        vol.append(np.sqrt(w / t))
    fwd, strike, tau, vol = (torch.from_numpy(np.concatenate(v)) for v in (fwd, strike, tau, vol))
    is_call = strike >= fwd
    df = torch.exp(-0.03 * tau)
    price = black_price(fwd, strike, tau, df, vol, is_call)
    keep = price > 1e-5 * fwd
    q = dict(price=price, fwd=fwd, strike=strike, tau=tau, df=df, is_call=is_call, ref=vol)
    return {name: v[keep].contiguous() for name, v in q.items()}


def term_structure(q, vol):
    rows = []
    k = torch.log(q["strike"] / q["fwd"]) / torch.sqrt(q["tau"])
    for t in EXPIRIES:
        sel = (q["tau"] - t).abs() < 1e-9
        ks, vs = k[sel], vol[sel]
        atm = vs[ks.abs() < 0.02].mean()
        rr = vs[(ks - 0.15).abs() < 0.03].mean() - vs[(ks + 0.15).abs() < 0.03].mean()
        rows.append((atm, rr))
    return torch.tensor(rows)


def main():
    rng = np.random.default_rng(2024)
    spot = 100.0
    chains = []
    for _ in range(N_SNAPSHOTS + WARMUP):
        spot *= math.exp(rng.normal(0, 0.002))
        chains.append(make_snapshot(rng, spot))

    for q in chains[:WARMUP]:
        vol, _ = implied_vol(q)

    surface, iters, quotes, worst = [], 0, 0, 0.0
    spent = 0.0
    for q in chains[WARMUP:]:
        t0 = time.perf_counter()
        vol, n_it = implied_vol(q)
        spent += time.perf_counter() - t0
        iters += n_it
        quotes += vol.numel()
        worst = max(worst, (vol - q["ref"]).abs().max().item())
        surface.append(term_structure(q, vol))

    mean_surface = torch.stack(surface).nanmean(0)
    print("expiry   atm vol   risk reversal")
    for t, (atm, rr) in zip(EXPIRIES, mean_surface.tolist()):
        print(f"{t:6.3f}   {atm:7.4f}   {rr:+8.4f}")
    print(f"max abs vol error {worst:.2e}, {iters / N_SNAPSHOTS:.1f} Newton steps per chain")
    print(f"{quotes} quotes in {spent:.3f} s  ({1e3 * spent / N_SNAPSHOTS:.2f} ms per chain)")


if __name__ == "__main__":
    main()
