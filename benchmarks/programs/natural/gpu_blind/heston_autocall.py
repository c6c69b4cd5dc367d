"""Monte Carlo price of an autocallable note under the Heston model.

Full-truncation Euler, 16 sub-steps a month.  Monthly observation: the note
is called with an accrued coupon if the index is above its start; at maturity
capital is at risk if the running minimum has gone through the barrier.
"""

import math
import time
from dataclasses import dataclass

import torch

DEVICE = "cuda"


@dataclass(frozen=True)
class Heston:
    rate: float = 0.03
    kappa: float = 1.8
    theta: float = 0.045
    xi: float = 0.55
    rho: float = -0.68
    v0: float = 0.04


@dataclass(frozen=True)
class Note:
    months: int = 30
    coupon: float = 0.0075
    barrier: float = 0.65
    first_call: int = 6


class MonthStepper:
    def __init__(self, model, substeps=16):
        self.m = model
        self.substeps = substeps
        self.dt = 1.0 / 12.0 / substeps
        self.advance = torch.compile(self._advance)

    def _advance(self, log_s, var, low):
        m, dt = self.m, self.dt
        root = math.sqrt(dt)
        orth = math.sqrt(1.0 - m.rho**2)
        for _ in range(self.substeps):
            z1 = torch.randn_like(log_s)
            z2 = torch.randn_like(log_s)
            vp = var.clamp_min(0.0)
            vol = torch.sqrt(vp) * root
            log_s = log_s + (m.rate - 0.5 * vp) * dt + vol * z1
            var = var + m.kappa * (m.theta - vp) * dt + m.xi * vol * (m.rho * z1 + orth * z2)
            low = torch.minimum(low, log_s)
        return log_s, var, low


class Pricer:
    def __init__(self, model, note, paths):
        self.model, self.note, self.paths = model, note, paths
        self.stepper = MonthStepper(model)

    def run(self):
        note, rate = self.note, self.model.rate
        log_s = torch.zeros(self.paths, device=DEVICE)
        var = torch.full_like(log_s, self.model.v0)
        low = torch.zeros_like(log_s)
        alive = torch.ones_like(log_s)
        value = torch.zeros_like(log_s)
        times, called = [], []
        for month in range(1, note.months + 1):
            torch.cuda.synchronize()
            t0 = time.perf_counter()
            log_s, var, low = self.stepper.advance(log_s, var, low)
            torch.cuda.synchronize()
            times.append((time.perf_counter() - t0) * 1e3)

            disc = math.exp(-rate * month / 12.0)
            if note.first_call <= month < note.months:
                hit = alive * (log_s >= 0.0)
                value += hit * (1.0 + note.coupon * month) * disc
                alive = alive - hit
                called.append(hit.mean().item())
            if month == note.months:
                safe = (low > math.log(note.barrier)) | (log_s >= 0.0)
                redeem = torch.where(safe, 1.0 + note.coupon * month * (log_s >= 0.0), torch.exp(log_s))
                value += alive * redeem * disc
            print(f"month {month:2d}: {times[-1]:8.3f} ms   alive {alive.mean().item():.4f}")
        fwd = torch.exp(log_s).double().mean().item() * math.exp(-rate * note.months / 12.0)
        return value, times, called, fwd


@torch.no_grad()
def main():
    torch.manual_seed(2023)
    pricer = Pricer(Heston(), Note(), paths=8_000_000)
    value, times, called, fwd = pricer.run()
    price = value.double().mean().item()
    err = value.double().std().item() / math.sqrt(value.numel())
    steady = sorted(times[3:])
    print(f"median {steady[len(steady) // 2]:.3f} ms per month of {value.numel()} paths")
    print(
        f"price {100 * price:.3f} +- {100 * err:.3f}, "
        f"called early {100 * sum(called):.2f} %, martingale check {fwd:.5f}"
    )


if __name__ == "__main__":
    main()
