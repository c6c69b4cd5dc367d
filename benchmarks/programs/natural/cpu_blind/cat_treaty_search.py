"""Search for a catastrophe excess-of-loss programme on a year-event loss table.

For every candidate (retention, limit, annual aggregate limit and reinstatements per
layer) the whole YELT is run through the layers and rolled up to simulated years.
"""

import time
from dataclasses import dataclass

import numpy as np
import torch

YEARS = 20_000
LAYERS = 6


@dataclass
class YELT:
    year: torch.Tensor  # [E] simulated year of the event
    loss: torch.Tensor  # [E] ground-up loss, EUR m
    n_years: int


def simulate_yelt(seed=7):
    rng = np.random.default_rng(seed)
    freq = rng.negative_binomial(6, 0.5, size=YEARS)
    year = np.repeat(np.arange(YEARS), freq)
    mean = 4.0 * (1 - rng.random(year.size)) ** (-1 / 1.6)
    secondary = rng.beta(4.0, 4.0, year.size) * 2
    loss = mean * secondary
    return YELT(torch.from_numpy(year), torch.from_numpy(loss.astype(np.float32)), YEARS)


@torch.compile
def run_programme(loss, year, retention, limit, agg_limit, rol, premium_share):
    n_years = YEARS
    # per-occurrence layer recoveries
    occ = torch.minimum((loss[:, None] - retention).clamp(min=0), limit)
    annual = torch.zeros(n_years, LAYERS).index_add(0, year, occ)
    recovered = torch.minimum(annual, agg_limit)

    # reinstatement premium pro rata to amount used
    used = (recovered / limit).clamp(max=1.0)
    premium = rol * limit
    reinst = used * premium * premium_share
    gross = torch.zeros(n_years).index_add(0, year, loss)
    net = gross - recovered.sum(1) + reinst.sum(1) + premium.sum()

    expected = net.mean()
    vol = net.std()
    ceded = recovered.mean(0)
    attach = (annual > 0).float().mean(0)
    return net, expected, vol, ceded, attach


def tail_value(net, p=0.99):
    k = int(round((1 - p) * net.numel()))
    return net.topk(k).values.mean()


def random_programme(gen):
    """A tower of contiguous layers with random break points."""
    edges = torch.rand(LAYERS, generator=gen).cumsum(0)
    top = 80 + 220 * torch.rand(1, generator=gen)
    edges = edges / edges[-1] * top
    retention = torch.cat([torch.tensor([6.0]), 6.0 + edges[:-1]])
    limit = edges.diff(prepend=torch.zeros(1)).clamp(min=1.0)
    reinstatements = torch.randint(1, 4, (LAYERS,), generator=gen)
    return retention, limit, limit * (1 + reinstatements)


def main():
    gen = torch.Generator().manual_seed(99)
    yelt = simulate_yelt()
    share = torch.linspace(1.0, 0.5, LAYERS)
    rol = torch.tensor([0.30, 0.18, 0.10, 0.06, 0.035, 0.02])
    print(f"{yelt.loss.numel()} events in {yelt.n_years} years")

    best, best_cost, n_timed, elapsed = None, float("inf"), 0, 0.0
    for trial in range(100):
        retention, limit, agg = random_programme(gen)
        t0 = time.perf_counter()
        net, mean, vol, ceded, attach = run_programme(yelt.loss, yelt.year, retention, limit, agg, rol, share)
        dt = time.perf_counter() - t0
        if trial >= 5:
            elapsed += dt
            n_timed += 1
        cost = (mean + 0.06 * (tail_value(net) - mean)).item()
        if cost < best_cost:
            best_cost = cost
            best = (retention, limit, mean.item(), vol.item(), attach)

    retention, limit, mean, vol, attach = best
    for i in range(LAYERS):
        print(
            f"layer {i}: {limit[i]:7.1f} xs {retention[i]:7.1f}   attaches in {100 * attach[i]:.1f}% of years"
        )
    print(f"net mean {mean:.2f}  sd {vol:.2f}  cost {best_cost:.2f}")
    print(f"{1e3 * elapsed / n_timed:.2f} ms per programme")


if __name__ == "__main__":
    main()
