"""Value of a one-year gas storage contract by backward induction.

The spot price is the forward curve times exp(mean-reverting log deviation). On each day the holder may
inject, withdraw or idle within volume-dependent rates; the value function lives on a grid of
(price deviation, inventory). Transition probabilities come from discretised Ornstein-Uhlenbeck moves.
"""

import argparse
import datetime
import math
import time

import torch

# share of the nominal rate available per month (maintenance in May and September)
INJECT_SHARE = [0.6, 0.6, 0.8, 1.0, 0.4, 1.0, 1.0, 1.0, 0.5, 1.0, 0.8, 0.6]
WITHDRAW_SHARE = [1.0, 1.0, 1.0, 0.8, 0.4, 0.6, 0.6, 0.6, 0.5, 0.8, 1.0, 1.0]


class StorageContract:
    def __init__(self, n_price=101, n_inv=161, n_act=21, kappa=9.0, sigma=0.95, rate=0.03):
        self.first_day = datetime.date(2024, 4, 1)
        self.days = 365
        self.capacity = 100.0  # GWh
        self.max_inject = 1.4  # GWh per day when empty
        self.max_withdraw = 2.2  # GWh per day when full
        self.inject_cost, self.withdraw_cost = 0.12, 0.05  # EUR per MWh
        self.fuel = 0.012
        self.disc = math.exp(-rate / 365)
        self.n_act = n_act

        sd = sigma / math.sqrt(2 * kappa)
        self.dev = torch.linspace(-3.5 * sd, 3.5 * sd, n_price)
        self.inv = torch.linspace(0.0, self.capacity, n_inv)
        self.d_inv = self.capacity / (n_inv - 1)
        self.trans = self._transition(kappa, sigma)
        self.moves = torch.linspace(-1.0, 1.0, n_act)

        self.months = [(self.first_day + datetime.timedelta(d)).month - 1 for d in range(self.days)]
        self.curve = [self._forward(d) for d in range(self.days)]

    def _transition(self, kappa, sigma):
        dt = 1.0 / 365
        mean = self.dev * math.exp(-kappa * dt)
        sd = sigma * math.sqrt((1 - math.exp(-2 * kappa * dt)) / (2 * kappa))
        p = torch.exp(-0.5 * ((self.dev[None, :] - mean[:, None]) / sd) ** 2)
        return p / p.sum(1, keepdim=True)

    def _forward(self, d):
        day_of_year = (self.first_day + datetime.timedelta(d)).timetuple().tm_yday
        season = 5.5 * math.cos(2 * math.pi * (day_of_year - 20) / 365.25)
        weekend = -0.8 if (self.first_day + datetime.timedelta(d)).weekday() >= 5 else 0.0
        return 31.0 + season + weekend + 0.004 * d

    @torch.compile
    def backward_day(self, value, day):
        """Value and best volume change on `day`, given the value function of the next morning."""
        month = self.months[day]
        spot = self.curve[day] * torch.exp(self.dev)

        fill = self.inv / self.capacity
        inj_rate = self.max_inject * INJECT_SHARE[month] * (1.0 - 0.5 * fill)
        wd_rate = self.max_withdraw * WITHDRAW_SHARE[month] * (0.35 + 0.65 * fill.sqrt())
        up = torch.minimum(inj_rate, self.capacity - self.inv)
        down = torch.minimum(wd_rate, self.inv)
        change = torch.where(self.moves > 0, self.moves * up[:, None], self.moves * down[:, None])  # (I, A)

        cont = self.disc * (self.trans @ value)  # (P, I)
        pos = (self.inv[:, None] + change) / self.d_inv
        lo = pos.floor().clamp(0, self.inv.numel() - 2)
        w = pos - lo
        lo = lo.long()
        after = cont[:, lo] * (1 - w) + cont[:, lo + 1] * w  # (P, I, A)

        buy = (spot * (1 + self.fuel) + self.inject_cost)[:, None, None]
        sell = (spot - self.withdraw_cost)[:, None, None]
        cash = torch.where(change > 0, -change * buy, -change * sell)
        best, arg = (cash + after).max(dim=2)
        action = torch.gather(change.expand(best.shape[0], -1, -1), 2, arg[..., None]).squeeze(2)
        return best, action

    def terminal(self):
        """Penalty for returning less than the starting inventory."""
        short = torch.clamp(20.0 - self.inv, min=0.0)
        return (-60.0 * short).expand(self.dev.numel(), -1).contiguous()


def intrinsic(contract, policy, start):
    """Follow the optimal policy along the forward curve (zero deviation)."""
    mid = contract.dev.numel() // 2
    inv, profile = start, []
    for d in range(contract.days):
        i = min(int(round(inv / contract.d_inv)), contract.inv.numel() - 1)
        inv = min(max(inv + policy[d][mid, i].item(), 0.0), contract.capacity)
        profile.append(inv)
    return profile


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--start", type=float, default=20.0, help="inventory on day 0 (GWh)")
    ap.add_argument("--actions", type=int, default=21)
    args = ap.parse_args()
    c = StorageContract(n_act=args.actions)

    value, policy = c.terminal(), [None] * c.days
    t0 = time.perf_counter()
    for day in reversed(range(c.days)):
        value, policy[day] = c.backward_day(value, day)
        if day % 60 == 0:
            print(
                f"day {day:3d}  {(c.first_day + datetime.timedelta(day)):%d %b}  "
                f"mean value {value.mean().item():9.1f} kEUR  {time.perf_counter() - t0:6.2f} s"
            )

    mid = c.dev.numel() // 2
    i0 = int(round(args.start / c.d_inv))
    delta = (value[mid + 1, i0] - value[mid - 1, i0]) / (c.dev[mid + 1] - c.dev[mid - 1])
    print(
        f"contract value  {value[mid, i0].item():.1f} kEUR   price sensitivity {delta.item():.1f} kEUR per 100 %"
    )
    profile = intrinsic(c, policy, args.start)
    print("month end inventory along the curve (GWh):")
    for m in range(12):
        last = max(d for d in range(c.days) if c.months[d] == m)
        print(f"  {m + 1:2d}: {profile[last]:6.1f} {'#' * int(profile[last] / 2.5)}")
    assert torch.isfinite(value).all()


if __name__ == "__main__":
    main()
