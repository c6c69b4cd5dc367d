"""Order-up-to levels for a blood bank's platelets.

Platelets live five days. For a grid of order-up-to levels (weekday and Friday level) the stock is simulated day by day
over many replications with Poisson demand by weekday; oldest units are issued first, expired ones are thrown away.
The best pair of the coarse grid is refined on a finer one, and the winner reported with its outdate and shortage rates.
"""

import torch

SHELF_LIFE = 5
COST_OUTDATE = 1.0
COST_SHORT = 5.0
COST_HOLD = 0.02
WEEK = [26.0, 24.0, 27.0, 25.0, 30.0, 13.0, 9.0]  # Monday first
ORDER_DAYS = (0, 1, 2, 3, 4)  # no production at the weekend


class BloodBank:
    def __init__(self, levels, friday_levels, replications):
        self.n_policies = len(levels)
        self.replications = replications
        self.levels = levels[:, None].expand(-1, replications).reshape(-1)
        self.friday = friday_levels[:, None].expand(-1, replications).reshape(-1)
        n = self.levels.numel()
        self.stock = torch.zeros(n, SHELF_LIFE)  # column a: units with a days left after today
        self.pipeline = torch.zeros(n)
        self.demand_mean = torch.tensor(WEEK)
        self.outdated = torch.zeros(n)
        self.short = torch.zeros(n)
        self.held = torch.zeros(n)
        self.demanded = torch.zeros(n)

    def day(self, d, count):
        weekday = d % 7
        # yesterday's order arrives fresh
        self.stock[:, SHELF_LIFE - 1] += self.pipeline
        # order for tomorrow
        if weekday in ORDER_DAYS:
            target = self.friday if weekday == 4 else self.levels
            self.pipeline = (target - self.stock.sum(1)).clamp(min=0)
        else:
            self.pipeline = torch.zeros_like(self.levels)
        # demand, with an occasional trauma surge
        surge = (torch.rand(self.levels.shape) < 0.02).float() * 12
        demand = torch.poisson(self.demand_mean[weekday] + surge)
        left = demand
        for age in range(SHELF_LIFE):
            used = torch.minimum(self.stock[:, age], left)
            self.stock[:, age] -= used
            left = left - used
        expired = self.stock[:, 0].clone()
        self.stock = torch.roll(self.stock, -1, dims=1)
        self.stock[:, SHELF_LIFE - 1] = 0
        if count:
            self.outdated += expired
            self.short += left
            self.held += self.stock.sum(1)
            self.demanded += demand

    def run(self, days, warmup=28):
        step = torch.compile(self.day)
        for d in range(days):
            step(d, d >= warmup)
        shape = (self.n_policies, self.replications)
        cost = COST_OUTDATE * self.outdated + COST_SHORT * self.short + COST_HOLD * self.held
        cost = cost.view(shape) / (days - warmup)
        return cost.mean(1), cost.std(1) / self.replications**0.5


def grid(lo, hi, step, lo_f, hi_f, step_f):
    a = torch.arange(lo, hi + 1, step, dtype=torch.float32)
    b = torch.arange(lo_f, hi_f + 1, step_f, dtype=torch.float32)
    return torch.cartesian_prod(a, b).unbind(1)


def main():
    torch.manual_seed(77)
    s, f = grid(40, 90, 10, 50, 120, 10)
    coarse = BloodBank(s, f, replications=800)
    cost, _ = coarse.run(days=28 + 24 * 7)
    best = int(cost.argmin())
    print(f"coarse: S={s[best]:.0f} friday={f[best]:.0f} cost {cost[best]:.2f} per day")

    s, f = grid(int(s[best]) - 8, int(s[best]) + 8, 4, int(f[best]) - 8, int(f[best]) + 8, 4)
    fine = BloodBank(s, f, replications=2000)
    cost, err = fine.run(days=28 + 52 * 7)
    best = int(cost.argmin())
    sl = slice(best * fine.replications, (best + 1) * fine.replications)
    print(f"fine:   S={s[best]:.0f} friday={f[best]:.0f} cost {cost[best]:.2f} +- {err[best]:.2f} per day")
    print(
        f"outdate rate {fine.outdated[sl].sum() / fine.demanded[sl].sum():.3%}, "
        f"shortage rate {fine.short[sl].sum() / fine.demanded[sl].sum():.3%}"
    )


if __name__ == "__main__":
    main()
