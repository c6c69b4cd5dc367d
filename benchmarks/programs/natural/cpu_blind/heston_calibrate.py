"""
Calibrating a Heston model to a listed option smile with pathwise gradients.

Each optimiser step simulates fresh Monte Carlo paths (full-truncation Euler),
prices the strip of calls and moves the five parameters by Adam.
"""

import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(2024)

PATHS = 60_000
EXPIRY = 0.5
SUBSTEPS = 10
SPOT = 100.0
RATE = 0.03
STRIKES = torch.tensor([85.0, 92.5, 97.5, 100.0, 105.0, 112.5])
STEPS = 30


def bs_call(k, vol):
    d1 = (torch.log(SPOT / k) + (RATE + 0.5 * vol**2) * EXPIRY) / (vol * math.sqrt(EXPIRY))
    d2 = d1 - vol * math.sqrt(EXPIRY)
    cdf = lambda z: 0.5 * (1 + torch.erf(z / math.sqrt(2)))
    return SPOT * cdf(d1) - k * math.exp(-RATE * EXPIRY) * cdf(d2)


class Heston(nn.Module):
    def __init__(self):
        super().__init__()
        inv_softplus = lambda v: math.log(math.expm1(v))
        self.kappa = nn.Parameter(torch.tensor(inv_softplus(1.5)))
        self.theta = nn.Parameter(torch.tensor(inv_softplus(0.05)))
        self.xi = nn.Parameter(torch.tensor(inv_softplus(0.4)))
        self.v0 = nn.Parameter(torch.tensor(inv_softplus(0.05)))
        self.rho = nn.Parameter(torch.tensor(-0.3))

    def params(self):
        return (
            F.softplus(self.kappa),
            F.softplus(self.theta),
            F.softplus(self.xi),
            F.softplus(self.v0),
            torch.tanh(self.rho),
        )

    def forward(self, strikes):
        kappa, theta, xi, v0, rho = self.params()
        dt = EXPIRY / SUBSTEPS
        z_spot = torch.randn(SUBSTEPS, PATHS)
        z_ind = torch.randn(SUBSTEPS, PATHS)
        z_vol = rho * z_spot + torch.sqrt(1 - rho * rho) * z_ind

        log_s = torch.full((PATHS,), math.log(SPOT))
        v = v0.expand(PATHS)
        for i in range(SUBSTEPS):
            vp = v.clamp_min(1e-6)
            root = torch.sqrt(vp * dt)
            log_s = log_s + (RATE - 0.5 * vp) * dt + root * z_spot[i]
            v = v + kappa * (theta - vp) * dt + xi * root * z_vol[i]
        s_t = torch.exp(log_s)
        payoff = torch.relu(s_t[None, :] - strikes[:, None])
        return math.exp(-RATE * EXPIRY) * payoff.mean(dim=1)


class Calibrator:
    def __init__(self, quotes):
        self.model = Heston()
        self.quotes = quotes
        self.vega_weight = 1.0 / (0.5 + quotes)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=0.03)
        self.loss_fn = torch.compile(self._loss)

    def _loss(self):
        prices = self.model(STRIKES)
        return ((prices - self.quotes) * self.vega_weight).pow(2).mean()

    def step(self):
        self.opt.zero_grad(set_to_none=True)
        loss = self.loss_fn()
        loss.backward()
        self.opt.step()
        return loss.item()


def main():
    # index-like smile: skewed to the put side
    m = torch.log(STRIKES / SPOT)
    smile = 0.21 - 0.35 * m + 0.6 * m**2
    cal = Calibrator(bs_call(STRIKES, smile))
    for it in range(STEPS):
        t0 = time.perf_counter()
        loss = cal.step()
        dt = time.perf_counter() - t0
        print(f"iter {it:3d}   {dt * 1e3:8.2f} ms   weighted mse {loss:.6f}")
    names = ["kappa", "theta", "xi", "v0", "rho"]
    print(", ".join(f"{n}={p.item():.4f}" for n, p in zip(names, cal.model.params())))


if __name__ == "__main__":
    main()
