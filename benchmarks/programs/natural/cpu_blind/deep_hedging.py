"""Deep hedging of a call under rough Bergomi: simulate paths, let a policy network choose
the hedge on a coarser grid, minimise the entropic risk of the terminal P&L."""

import math
import time

import torch
import torch.nn as nn

torch.manual_seed(3)

PATHS = 8192
STEPS = 120  # simulation grid
EVERY = 12  # rebalance every so many steps
T = 0.5
STRIKE = 1.0


class RoughBergomi(nn.Module):
    def __init__(self, hurst=0.12, eta=1.6, rho=-0.7, xi0=0.04):
        super().__init__()
        self.rho, self.eta, self.xi0 = rho, eta, xi0
        self.dt = T / STEPS
        t = torch.arange(1, STEPS + 1, dtype=torch.float64) * self.dt
        lag = t[:, None] - t[None, :] + 0.5 * self.dt
        kern = torch.where(lag > 0, lag.clamp_min(1e-12) ** (hurst - 0.5), torch.zeros_like(lag))
        kern = kern * math.sqrt(2 * hurst) * math.sqrt(self.dt)
        self.register_buffer("kernel_t", kern.t().contiguous().float())
        self.register_buffer("comp", (0.5 * eta**2 * (kern**2).sum(1)).float())

    def forward(self, n):
        z1 = torch.randn(n, STEPS)
        z2 = torch.randn(n, STEPS)
        vol_path = z1 @ self.kernel_t
        var = self.xi0 * torch.exp(self.eta * vol_path - self.comp)
        var = torch.cat((torch.full((n, 1), self.xi0), var[:, :-1]), dim=1)
        dw = self.rho * z1 + math.sqrt(1 - self.rho**2) * z2
        incr = torch.sqrt(var * self.dt) * dw - 0.5 * var * self.dt
        logs = torch.cat((torch.zeros(n, 1), torch.cumsum(incr, dim=1)), dim=1)
        return torch.exp(logs), var


class HedgePolicy(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.inp = nn.Linear(4, hidden)
        self.mid = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, 1)
        self.act = nn.SiLU()

    def forward(self, feats):
        h = self.act(self.inp(feats))
        h = h + self.act(self.mid(h))
        return torch.sigmoid(self.out(h)).squeeze(-1)


class Hedger(nn.Module):
    def __init__(self, cost=2e-4, aversion=20.0):
        super().__init__()
        self.market = RoughBergomi()
        self.policy = HedgePolicy()
        self.cost, self.aversion = cost, aversion
        left = 1.0 - torch.arange(0, STEPS, EVERY).float() / STEPS
        self.register_buffer("left", left)

    def forward(self, n):
        with torch.no_grad():
            spot, var = self.market(n)
            s = spot[:, ::EVERY]
            v = var[:, ::EVERY]
            now = s[:, :-1]
            money = torch.log(now / STRIKE)
            left = self.left.expand(n, -1)
            feats = torch.stack((money * 5, left, v.sqrt(), money / left.sqrt()), dim=-1)
            payoff = torch.relu(spot[:, -1] - STRIKE)
        delta = self.policy(feats)
        gains = (delta * (s[:, 1:] - now)).sum(1)
        prev = torch.cat((torch.zeros(n, 1), delta[:, :-1]), dim=1)
        fees = self.cost * ((delta - prev).abs() * now).sum(1)
        pnl = gains - fees - payoff
        risk = torch.logsumexp(-self.aversion * pnl, 0) - math.log(n)
        return risk / self.aversion, pnl


def main():
    hedger = Hedger()
    train_loss = torch.compile(hedger)
    opt = torch.optim.Adam(hedger.parameters(), lr=3e-3)
    times, loss, pnl = [], None, None
    for i in range(40):
        t0 = time.perf_counter()
        loss, pnl = train_loss(PATHS)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i >= 5:
            times.append(time.perf_counter() - t0)
        if i % 10 == 9:
            print(f"iter {i + 1:3d}  risk {loss.item():.5f}  pnl std {pnl.std().item():.5f}")
    print(f"step {1e3 * sum(times) / len(times):.2f} ms, indifference premium {loss.item():.4f}")


if __name__ == "__main__":
    main()
