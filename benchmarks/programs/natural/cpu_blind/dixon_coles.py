"""Walk-forward backtest of a time-weighted Dixon-Coles model for football.

For every match day the attack/defence strengths of all clubs are re-estimated
on the results known so far (exponential forgetting, warm start from the last
match day), then the fixtures of that day are predicted and scored.
"""

import time
from dataclasses import dataclass

import torch

torch.set_default_dtype(torch.float64)

N_LEAGUES = 12
TEAMS_PER_LEAGUE = 20
SEASONS = 8
HALF_LIFE = 240.0  # days
L2 = 2.0
FIT_STEPS = 15
BACKTEST_DAYS = 20
N_TEAMS = N_LEAGUES * TEAMS_PER_LEAGUE


@dataclass
class Results:
    day: torch.Tensor
    home: torch.Tensor
    away: torch.Tensor
    hg: torch.Tensor
    ag: torch.Tensor
    neutral: torch.Tensor


class DixonColes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attack = torch.nn.Parameter(torch.zeros(N_TEAMS))
        self.defence = torch.nn.Parameter(torch.zeros(N_TEAMS))
        self.home_adv = torch.nn.Parameter(torch.tensor(0.25))
        self.level = torch.nn.Parameter(torch.tensor(0.1))
        self.rho = torch.nn.Parameter(torch.tensor(-0.03))

    def rates(self, home, away, neutral):
        adv = self.home_adv * (~neutral)
        lam = torch.exp(self.level + adv + self.attack[home] - self.defence[away])
        mu = torch.exp(self.level + self.attack[away] - self.defence[home])
        return lam, mu

    def low_score_correction(self, hg, ag, lam, mu):
        one = torch.ones_like(lam)
        tau = torch.where((hg == 0) & (ag == 0), 1 - lam * mu * self.rho, one)
        tau = torch.where((hg == 0) & (ag == 1), 1 + lam * self.rho, tau)
        tau = torch.where((hg == 1) & (ag == 0), 1 + mu * self.rho, tau)
        tau = torch.where((hg == 1) & (ag == 1), 1 - self.rho, tau)
        return tau.clamp(min=1e-6)

    def forward(self, r, today):
        """Penalised negative log-likelihood of everything played before `today`."""
        lam, mu = self.rates(r.home, r.away, r.neutral)
        log_p = (
            r.hg * torch.log(lam)
            - lam
            - torch.lgamma(r.hg + 1.0)
            + r.ag * torch.log(mu)
            - mu
            - torch.lgamma(r.ag + 1.0)
        )
        log_p = log_p + torch.log(self.low_score_correction(r.hg, r.ag, lam, mu))
        age = today - r.day
        weight = torch.where(age > 0, 0.5 ** (age / HALF_LIFE), torch.zeros_like(lam))
        penalty = L2 * (self.attack.square().sum() + self.defence.square().sum())
        return penalty - (weight * log_p).sum()


def simulate(gen):
    """Round-robin seasons with slowly drifting club strengths."""
    strength = 0.25 * torch.randn(2, N_TEAMS, generator=gen)
    rows = []
    pairs = [(i, j) for i in range(TEAMS_PER_LEAGUE) for j in range(TEAMS_PER_LEAGUE) if i != j]
    pairs = torch.tensor(pairs)
    for season in range(SEASONS):
        strength = 0.9 * strength + 0.11 * torch.randn(2, N_TEAMS, generator=gen)
        for lg in range(N_LEAGUES):
            order = torch.randperm(len(pairs), generator=gen)
            fixtures = pairs[order] + lg * TEAMS_PER_LEAGUE
            day = season * 365 + torch.arange(len(pairs)) // 10 * 7
            h, a = fixtures.unbind(1)
            lam = torch.exp(0.15 + 0.25 + strength[0, h] - strength[1, a])
            mu = torch.exp(0.15 + strength[0, a] - strength[1, h])
            rows.append((day, h, a, torch.poisson(lam, generator=gen), torch.poisson(mu, generator=gen)))
    day, h, a, hg, ag = (torch.cat(c) for c in zip(*rows))
    order = torch.argsort(day, stable=True)
    neutral = torch.rand(len(day), generator=gen) < 0.01
    return Results(day[order], h[order], a[order], hg[order], ag[order], neutral[order])


@torch.no_grad()
def predict(model, r, sel):
    """Probabilities of home win / draw / away win for the selected fixtures."""
    lam, mu = model.rates(r.home[sel], r.away[sel], r.neutral[sel])
    goals = torch.arange(9.0)
    log_fact = torch.lgamma(goals + 1)
    ph = torch.exp(goals * lam.log()[:, None] - lam[:, None] - log_fact)
    pa = torch.exp(goals * mu.log()[:, None] - mu[:, None] - log_fact)
    grid = ph[:, :, None] * pa[:, None, :]
    home = grid.tril(-1).sum((1, 2))
    draw = grid.diagonal(dim1=1, dim2=2).sum(1)
    p = torch.stack([home, draw, 1 - home - draw], dim=1).clamp(min=1e-6)
    outcome = (1 - torch.sign(r.hg[sel] - r.ag[sel])).long()
    return -torch.log(p[torch.arange(len(p)), outcome])


def main():
    gen = torch.Generator().manual_seed(1)
    r = simulate(gen)
    model = DixonColes()
    opt = torch.optim.Adam(model.parameters(), lr=0.02)
    nll = torch.compile(model)

    match_days = torch.unique(r.day).tolist()[-BACKTEST_DAYS:]

    def fit(today, steps):
        for _ in range(steps):
            opt.zero_grad()
            loss = nll(r, today)
            loss.backward()
            opt.step()
        return loss.item()

    fit(match_days[0], 120)  # burn-in from zero strengths
    fit(match_days[1], 5)

    scores = []
    t0 = time.perf_counter()
    for today in match_days:
        fit(today, FIT_STEPS)
        scores.append(predict(model, r, r.day == today))
    dt = time.perf_counter() - t0
    scores = torch.cat(scores)
    steps = FIT_STEPS * BACKTEST_DAYS
    print(
        f"{len(r.day)} matches, {len(scores)} predicted, log score {scores.mean():.4f} "
        f"(base rate ~1.06), home advantage {model.home_adv.item():.3f}, rho {model.rho.item():+.3f}"
    )
    print(f"{steps} gradient steps in {dt:.2f} s ({1e3 * dt / steps:.2f} ms per step)")


if __name__ == "__main__":
    main()
