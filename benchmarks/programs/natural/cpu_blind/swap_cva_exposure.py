"""CVA of a book of payer swaps under one-factor Hull-White: at every exposure date the
simulated short rate gives discount bonds, the swaps are valued, netted and collateralised."""

import math
import time

import torch

torch.set_num_threads(2)

N_PATHS = 2000
N_SWAPS = 24
TENOR_YEARS = 10
MEAN_REV = 0.05
SIGMA = 0.011
FLAT = 0.028


def b_factor(tau):
    return (1.0 - torch.exp(-MEAN_REV * tau)) / MEAN_REV


def bond(x, t, T):
    """P(t,T) given the centred short-rate state x, for a flat initial curve."""
    tau = (T - t).clamp(min=0.0)
    B = b_factor(tau)
    var = SIGMA**2 / (2 * MEAN_REV) * (1.0 - math.exp(-2 * MEAN_REV * t))
    drift = 0.5 * SIGMA**2 / MEAN_REV**2 * (1.0 - math.exp(-MEAN_REV * t)) ** 2
    lnA = -FLAT * tau - B * drift - 0.5 * var * B**2
    return torch.exp(lnA - B * x[..., None])


class SwapBook:
    def __init__(self, gen):
        self.pay_times = torch.arange(1, TENOR_YEARS + 1, dtype=torch.float32)
        self.maturity = torch.randint(3, TENOR_YEARS + 1, (N_SWAPS,), generator=gen).float()
        self.fixed = FLAT + 0.006 * torch.randn(N_SWAPS, generator=gen)
        sign = torch.where(torch.rand(N_SWAPS, generator=gen) < 0.6, 1.0, -1.0)
        self.notional = sign * (5 + 45 * torch.rand(N_SWAPS, generator=gen))
        self.alive = (self.pay_times[None] <= self.maturity[:, None]).float()


def exposure(x, t: float, pay_times, maturity, fixed, notional, alive, threshold, mta):
    P = bond(x, t, pay_times)  # paths x dates
    live = alive * (pay_times > t).float()  # swaps x dates
    annuity = (P[:, None, :] * live[None]).sum(-1)  # paths x swaps
    P_end = bond(x, t, maturity)  # paths x swaps
    live_swap = (maturity > t).float()
    value = notional * (1.0 - P_end - fixed * annuity) * live_swap
    net = value.sum(-1)
    call = torch.where(net > threshold, net - threshold, torch.zeros_like(net))
    call = torch.where(call > mta, call, torch.zeros_like(call))
    collateralised = (net - call).clamp(min=0.0)
    positive = net.clamp(min=0.0)
    return positive.mean(), collateralised.mean(), (-net).clamp(min=0.0).mean()


def simulate_states(times, gen):
    x = torch.zeros(N_PATHS)
    out = []
    prev = 0.0
    for t in times:
        dt = t - prev
        decay = math.exp(-MEAN_REV * dt)
        std = SIGMA * math.sqrt((1 - decay**2) / (2 * MEAN_REV))
        x = x * decay + std * torch.randn(N_PATHS, generator=gen)
        out.append(x)
        prev = t
    return out


def main():
    gen = torch.Generator().manual_seed(77)
    book = SwapBook(gen)
    times = [0.25 * (k + 1) for k in range(4 * TENOR_YEARS - 1)]
    states = simulate_states(times, gen)
    valuation = torch.compile(exposure)
    args = (book.pay_times, book.maturity, book.fixed, book.notional, book.alive, 15.0, 0.5)

    for t, x in list(zip(times, states))[:2]:
        valuation(x, t, *args)

    hazard, lgd = 0.018, 0.6
    cva = cva_coll = dva = 0.0
    t0 = time.perf_counter()
    for t, x in zip(times, states):
        epe, epe_c, ene = valuation(x, t, *args)
        default = math.exp(-hazard * (t - 0.25)) - math.exp(-hazard * t)
        df = math.exp(-FLAT * t)
        cva += lgd * df * default * epe.item()
        cva_coll += lgd * df * default * epe_c.item()
        dva += lgd * df * 0.6 * default * ene.item()
    dt = time.perf_counter() - t0

    print(f"CVA {cva:.4f}  with CSA {cva_coll:.4f}  DVA {dva:.4f}")
    print(f"{len(times)} exposure dates, {1e3 * dt / len(times):.2f} ms per date")


if __name__ == "__main__":
    main()
