"""Monte Carlo pricing of an Asian call under Heston stochastic volatility."""

import math
import statistics
import time

import torch

N_PATHS = 65536
N_STEPS = 32
MATURITY = 1.0


@torch.compile
def price_asian_call(s0, v0, strike, rate, kappa, theta, xi, rho):
    dt = MATURITY / N_STEPS
    sqrt_dt = math.sqrt(dt)
    rho_c = torch.sqrt(1.0 - rho * rho)

    log_s = torch.log(s0).expand(N_PATHS)
    var = v0.expand(N_PATHS)
    running = torch.zeros(N_PATHS)

    for _ in range(N_STEPS):
        z1 = torch.randn(N_PATHS)
        z2 = rho * z1 + rho_c * torch.randn(N_PATHS)
        v_pos = var.clamp_min(0.0)
        vol = torch.sqrt(v_pos) * sqrt_dt
        log_s = log_s + (rate - 0.5 * v_pos) * dt + vol * z1
        var = var + kappa * (theta - v_pos) * dt + xi * vol * z2
        running = running + torch.exp(log_s)

    average = running / N_STEPS
    payoff = torch.relu(average - strike) * torch.exp(-rate * MATURITY)
    price = payoff.mean()
    stderr = payoff.std() / math.sqrt(N_PATHS)
    return price, stderr


def scenarios():
    base = dict(
        s0=100.0,
        v0=0.04,
        strike=100.0,
        rate=0.03,
        kappa=1.5,
        theta=0.04,
        xi=0.5,
        rho=-0.7,
    )
    out = []
    for strike in (90.0, 95.0, 100.0, 105.0, 110.0):
        params = dict(base, strike=strike)
        out.append({k: torch.tensor(v) for k, v in params.items()})
    return out


def main():
    torch.set_num_threads(2)
    torch.manual_seed(2024)
    book = scenarios()

    with torch.no_grad():
        for params in book[:3]:
            price_asian_call(**params)

        times = []
        prices = {}
        for i in range(30):
            params = book[i % len(book)]
            start = time.perf_counter()
            price, err = price_asian_call(**params)
            times.append(time.perf_counter() - start)
            prices.setdefault(params["strike"].item(), []).append((price.item(), err.item()))

    for strike, values in sorted(prices.items()):
        mean = statistics.fmean(p for p, _ in values)
        err = statistics.fmean(e for _, e in values)
        print(f"K={strike:6.1f}  price={mean:8.4f}  +/- {err:.4f}")
    checksum = sum(p for v in prices.values() for p, _ in v)
    print(f"time per valuation: {statistics.median(times) * 1e3:.3f} ms")
    print(f"checksum: {checksum:.4f}")


if __name__ == "__main__":
    main()
