"""Monte Carlo valuation of agency mortgage pass-throughs with a four-factor prepayment model.

Short rates follow a CIR process; the monthly prepayment speed depends on the refinancing incentive,
the seasoning of the pool, the month of the year and burnout.  Values a pool per coupon with its
weighted average life, and the effective duration by bumping the initial rate.
"""

import time
from dataclasses import dataclass

import torch

device = "cuda"
PATHS = 24_000_000
TERM = 360
DT = 1.0 / 12.0

# monthly multipliers of turnover, January first
SEASONALITY = [0.94, 0.76, 0.74, 0.95, 0.98, 0.92, 0.98, 1.10, 1.18, 1.22, 1.23, 0.98]


@dataclass
class ShortRate:
    kappa: float = 0.18
    theta: float = 0.042
    sigma: float = 0.065
    r0: float = 0.045


@dataclass
class Pool:
    coupon: float  # what the investor gets
    wac: float  # what the borrower pays
    start_month: int = 3


def refinancing_cpr(incentive):
    return 0.28 + 0.14 * torch.atan(-8.571 + 430.0 * incentive)


@torch.compile
def month_step(rate, balance, discount, value, life, month, pool, model):
    z = torch.randn_like(rate)
    positive = rate.clamp(min=0.0)
    rate = rate + model.kappa * (model.theta - positive) * DT + model.sigma * torch.sqrt(positive * DT) * z
    discount = discount * torch.exp(-rate * DT)

    # long rate proxy: the expected average of the short rate, plus a spread for the lender
    long_rate = 0.55 * rate + 0.45 * model.theta + 0.017
    incentive = pool.wac - long_rate

    seasoning = min((month + 1) / 30.0, 1.0)
    season = SEASONALITY[(pool.start_month + month) % 12]
    burnout = 0.3 + 0.7 * balance
    cpr = refinancing_cpr(incentive) * seasoning * season * burnout
    smm = 1.0 - torch.pow(1.0 - cpr.clamp(0.0, 0.95), 1.0 / 12.0)

    left = TERM - month
    monthly = pool.wac / 12.0
    payment = balance * monthly / (1.0 - (1.0 + monthly) ** (-left))
    scheduled = torch.minimum(payment - balance * monthly, balance)
    prepaid = smm * (balance - scheduled)
    principal = scheduled + prepaid
    interest = balance * pool.coupon / 12.0

    value = value + discount * (principal + interest)
    life = life + principal * ((month + 1) * DT)
    balance = torch.clamp(balance - principal, min=0.0)
    return rate, balance, discount, value, life


def price(pool, model, paths=PATHS, seed=7):
    torch.manual_seed(seed)
    rate = torch.full((paths,), model.r0, device=device)
    balance = torch.ones(paths, device=device)
    discount = torch.ones(paths, device=device)
    value = torch.zeros(paths, device=device)
    life = torch.zeros(paths, device=device)
    for month in range(TERM):
        rate, balance, discount, value, life = month_step(
            rate, balance, discount, value, life, month, pool, model
        )
    mean = value.double().mean().item() * 100
    error = value.double().std().item() * 100 / paths**0.5
    return mean, error, life.double().mean().item()


def main():
    model = ShortRate()
    base = None
    for coupon in (0.045, 0.055):
        pool = Pool(coupon=coupon, wac=coupon + 0.0065)
        start = time.perf_counter()
        mean, error, life = price(pool, model)
        print(
            f"coupon {coupon:.3%}: price {mean:.4f} +- {error:.4f}, average life {life:.2f} y, "
            f"{time.perf_counter() - start:.2f} s"
        )
        base = mean
    bumped, _, _ = price(pool, ShortRate(r0=model.r0 + 0.0025))
    print(f"effective duration of the last pool {(base - bumped) / base / 0.0025:.2f}")


if __name__ == "__main__":
    main()
