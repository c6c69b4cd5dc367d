"""Assign service technicians to jobs, city by city, with Bertsekas' auction algorithm.

Jacobi version: in every round all unassigned technicians bid at once for their best job, prices rise, the highest
bidder gets the job. Rounds go on until few technicians are left, who are placed greedily. Compared with a plain
greedy assignment.
"""

import torch

CITIES = 4
N = 4000
EPS_PHASES = (8.0, 2.0)
LEFT_OVER = 0.01
MAX_ROUNDS = 400


def make_city(seed):
    gen = torch.Generator().manual_seed(seed)
    centres = 30.0 * torch.rand(12, 2, generator=gen)
    homes = centres[torch.randint(12, (N,), generator=gen)] + 4.0 * torch.randn(N, 2, generator=gen)
    sites = 30.0 * torch.rand(N, 2, generator=gen)
    skills = torch.rand(N, 6, generator=gen)
    needs = torch.rand(N, 6, generator=gen).pow(3)
    travel = torch.cdist(homes, sites)
    fit = skills @ needs.T
    priority = 10.0 * torch.rand(N, generator=gen)
    return 60.0 * fit - 2.0 * travel + priority


@torch.compile
def auction_round(benefit, prices, job_owner, tech_job, eps):
    free = torch.nonzero(tech_job < 0).squeeze(1)
    value = benefit[free] - prices
    top, job = value.topk(2, dim=1)
    best = job[:, 0]
    bid = prices[best] + (top[:, 0] - top[:, 1]) + eps

    highest = prices.scatter_reduce(0, best, bid, reduce="amax", include_self=True)
    wins = bid >= highest[best]
    job_owner = job_owner.clone()
    job_owner[best[wins]] = free[wins]
    held = torch.nonzero(job_owner >= 0).squeeze(1)
    tech_job = torch.full_like(tech_job, -1)
    tech_job[job_owner[held]] = held
    return highest, job_owner, tech_job


def solve_auction(benefit):
    n = benefit.shape[0]
    prices = torch.zeros(n)
    rounds = 0
    for eps in EPS_PHASES:
        job_owner = torch.full((n,), -1, dtype=torch.long)
        tech_job = torch.full((n,), -1, dtype=torch.long)
        for _ in range(MAX_ROUNDS):
            prices, job_owner, tech_job = auction_round(benefit, prices, job_owner, tech_job, eps)
            rounds += 1
            if (tech_job < 0).sum().item() <= LEFT_OVER * n:
                break
    return tech_job, job_owner, prices, rounds


def finish_greedily(benefit, tech_job, job_owner):
    free_t = torch.nonzero(tech_job < 0).squeeze(1).tolist()
    open_j = torch.nonzero(job_owner < 0).squeeze(1)
    for t in free_t:
        k = int(benefit[t, open_j].argmax())
        tech_job[t] = open_j[k]
        open_j = torch.cat([open_j[:k], open_j[k + 1 :]])
    return tech_job


def plain_greedy(benefit):
    n = benefit.shape[0]
    order = benefit.amax(1).argsort(descending=True)
    taken = torch.zeros(n)
    total = 0.0
    for t in order.tolist():
        row = benefit[t] + taken
        j = int(row.argmax())
        total += float(row[j])
        taken[j] = -1e9
    return total


def upper_bound(benefit, prices):
    """Dual bound of the assignment problem at the auction's prices."""
    return float((benefit - prices).amax(1).double().sum() + prices.double().sum())


def main():
    torch.manual_seed(0)
    sum_auction = sum_greedy = 0.0
    with torch.no_grad():
        for city in range(CITIES):
            benefit = make_city(100 + city)
            tech_job, job_owner, prices, rounds = solve_auction(benefit)
            left = int((tech_job < 0).sum())
            tech_job = finish_greedily(benefit, tech_job, job_owner)
            assert tech_job.unique().numel() == N
            total = float(benefit.gather(1, tech_job[:, None]).double().sum())
            greedy = plain_greedy(benefit)
            bound = upper_bound(benefit, prices)
            sum_auction += total
            sum_greedy += greedy
            print(
                f"city {city}: rounds {rounds}, left over {left}, auction {total:.0f}, greedy {greedy:.0f}, "
                f"dual bound {bound:.0f} (gap {100 * (bound - total) / abs(bound):.2f} %)"
            )
    print(f"gain over greedy: {100 * (sum_auction / sum_greedy - 1):.2f} %")


if __name__ == "__main__":
    main()
