"""Survey weighting: rake (iterative proportional fitting) a household survey to
census margins, with bootstrap replicate weights for the standard errors.

We used to do that in R (survey::rake); this version keeps all columns as
tensors of codes.
"""

import time

import torch

torch.set_default_dtype(torch.float64)

N = 150_000
REPLICATES = 120
MAX_SWEEPS = 30
TOL = 1e-5
LEVELS = {"region": 16, "age_sex": 28, "education": 5, "hh_size": 6, "tenure": 4, "region_urban": 48}


def draw_survey(gen):
    """Respondents: young, low educated and urban people answer less often."""
    cols = {}
    region_p = torch.rand(16, generator=gen) + 0.2
    cols["region"] = torch.multinomial(region_p, N, replacement=True, generator=gen)
    urban = torch.randint(0, 3, (N,), generator=gen)
    age = torch.randint(0, 14, (N,), generator=gen)
    sex = torch.randint(0, 2, (N,), generator=gen)
    cols["age_sex"] = age * 2 + sex
    edu_score = 0.15 * age + torch.randn(N, generator=gen) * 1.2
    cols["education"] = torch.bucketize(edu_score, torch.tensor([-0.8, 0.3, 1.2, 2.4]))
    cols["hh_size"] = torch.bucketize(
        torch.randn(N, generator=gen) - 0.06 * age, torch.tensor([-1.5, -0.6, 0.1, 0.8, 1.4])
    )
    cols["tenure"] = torch.bucketize(
        0.1 * age + torch.randn(N, generator=gen), torch.tensor([-0.5, 0.7, 1.9])
    )
    cols["region_urban"] = cols["region"] * 3 + urban
    income = torch.exp(
        9.9 + 0.02 * age + 0.18 * cols["education"] - 0.05 * urban + 0.55 * torch.randn(N, generator=gen)
    )
    return cols, income


def census_margins(cols, gen):
    """Population totals: a population with other proportions than the sample (consistent over margins)."""
    w = torch.exp(0.25 * torch.randn(16, generator=gen))[cols["region"]]
    w = w * torch.exp(0.35 * torch.randn(28, generator=gen))[cols["age_sex"]]
    w = w * torch.exp(0.30 * torch.randn(5, generator=gen))[cols["education"]]
    w = w * torch.exp(0.20 * torch.randn(4, generator=gen))[cols["tenure"]]
    w = w * 41_000_000 / w.sum()
    return {k: torch.zeros(n).index_add_(0, cols[k], w) for k, n in LEVELS.items()}


class Raker:
    def __init__(self, cols, targets, lower=0.2, upper=6.0):
        self.cols = cols
        self.targets = targets
        self.lower, self.upper = lower, upper
        self.sweep = torch.compile(self._sweep)

    def _sweep(self, w):
        """One pass over all the margins. Returns new weights and the largest relative error seen."""
        worst = torch.zeros(())
        for name, codes in self.cols.items():
            target = self.targets[name]
            totals = torch.zeros_like(target)
            totals.index_add_(0, codes, w)
            ratio = target / totals.clamp(min=1e-9)
            worst = torch.maximum(worst, (ratio - 1).abs().max())
            w = w * ratio[codes]
        return w, worst

    def trim(self, w, base):
        mean = w.sum() / base.sum()
        return torch.minimum(torch.maximum(w, self.lower * mean * base), self.upper * mean * base)

    def fit(self, base):
        w = base.clone()
        for it in range(1, MAX_SWEEPS + 1):
            w, worst = self.sweep(w)
            if worst.item() < TOL:
                break
            if it in (4, 8):
                w = self.trim(w, base)
        return w, it, worst.item()


def weighted_mean(y, w):
    return float((y * w).sum() / w.sum())


def design_effect(w):
    pos = w[w > 0]
    return float(pos.numel() * (pos**2).sum() / pos.sum() ** 2)


@torch.no_grad()
def main():
    gen = torch.Generator().manual_seed(2021)
    cols, income = draw_survey(gen)
    targets = census_margins(cols, gen)
    raker = Raker(cols, targets)

    t0 = time.perf_counter()
    base = torch.full((N,), 41_000_000 / N)
    w, sweeps, err = raker.fit(base)
    estimate = weighted_mean(income, w)
    print(f"full sample: {sweeps} sweeps, margin error {err:.1e}, design effect {design_effect(w):.2f}")
    print(f"mean income: unweighted {float(income.mean()):.0f}, weighted {estimate:.0f}")

    boot, total = [], sweeps
    for r in range(REPLICATES):
        copies = torch.poisson(torch.ones(N), generator=gen)
        w, sweeps, err = raker.fit(base * copies)
        boot.append(weighted_mean(income, w))
        total += sweeps
        if r % 30 == 29:
            print(
                f"replicate {r + 1:3d}: {sweeps} sweeps, error {err:.1e}, "
                f"{1e3 * (time.perf_counter() - t0) / total:.2f} ms per sweep"
            )
    se = float(torch.tensor(boot).std())
    print(
        f"mean income {estimate:.1f} +- {1.96 * se:.1f}  ({total} sweeps, {time.perf_counter() - t0:.1f} s)"
    )
    assert se > 0


if __name__ == "__main__":
    main()
