"""Mixed-effects Tobit model of log10 viral load with a limit of detection, by maximum likelihood.

Visits are a balanced schedule [visits, subjects].  The subject's random intercept is integrated by Gauss-Hermite
quadrature; values below the limit of detection give a normal distribution function.  L-BFGS, then a weighted
bootstrap (Bayesian bootstrap over subjects) for the standard errors.
"""

import math
import time

import numpy as np
import torch

SUBJECTS = 10_000
VISITS = 6
NODES = 12
LOD = math.log10(50.0)
NAMES = ["intercept", "sqrt(week)", "arm*sqrt(week)", "age", "sex", "baseline CD4", "adherence", "week>24"]
BOOTSTRAP = 8


def simulate(gen):
    weeks = torch.tensor([0.0, 4.0, 12.0, 24.0, 36.0, 48.0], dtype=torch.float64)
    shape = (VISITS, SUBJECTS)
    arm = (torch.rand(SUBJECTS, generator=gen) < 0.5).double()
    age = torch.randn(SUBJECTS, generator=gen, dtype=torch.float64)
    sex = (torch.rand(SUBJECTS, generator=gen) < 0.4).double()
    cd4 = torch.randn(SUBJECTS, generator=gen, dtype=torch.float64)
    adherence = torch.randn(*shape, generator=gen, dtype=torch.float64)
    root = weeks.sqrt()[:, None].expand(shape)
    late = (weeks > 24).double()[:, None].expand(shape)
    one = torch.ones(shape, dtype=torch.float64)
    design = torch.stack(
        [one, root, arm * root, age.expand(shape), sex.expand(shape), cd4.expand(shape), adherence, late]
    )  # [p, visits, subjects]
    beta = torch.tensor([4.4, -0.42, -0.12, 0.05, -0.1, -0.2, -0.15, 0.2], dtype=torch.float64)
    mean = torch.tensordot(beta, design, dims=1)
    b = 0.7 * torch.randn(SUBJECTS, generator=gen, dtype=torch.float64)
    y = mean + b + 0.5 * torch.randn(*shape, generator=gen, dtype=torch.float64)
    missed = torch.rand(shape, generator=gen) < 0.06
    censored = y < LOD
    return design, y.clamp_min(LOD), censored, (~missed).double(), beta


def make_negative_loglik(design, y, censored, observed):
    x, w = np.polynomial.hermite_e.hermegauss(NODES)
    nodes = torch.from_numpy(x)
    log_weights = torch.from_numpy(np.log(w / w.sum()))

    def negative_loglik(beta, log_tau, log_sigma, subject_weight):
        mean = torch.tensordot(beta, design, dims=1)
        sigma = log_sigma.exp()
        intercept = log_tau.exp() * nodes
        z = (y - mean - intercept[:, None, None]) / sigma  # [nodes, visits, subjects]
        log_density = -0.5 * z.square() - log_sigma - 0.5 * math.log(2 * math.pi)
        log_below = torch.special.log_ndtr(z)
        visit = torch.where(censored, log_below, log_density) * observed
        subject = torch.logsumexp(visit.sum(dim=1) + log_weights[:, None], dim=0)
        return -(subject_weight * subject).sum() / subject_weight.sum()

    return torch.compile(negative_loglik)


def fit(nll, start, weight, max_iter):
    params = [p.clone().requires_grad_() for p in start]
    opt = torch.optim.LBFGS(
        params,
        lr=1.0,
        max_iter=max_iter,
        max_eval=max_iter + 5,
        history_size=12,
        tolerance_change=1e-9,
        line_search_fn="strong_wolfe",
    )
    evals = 0

    def closure():
        nonlocal evals
        opt.zero_grad()
        loss = nll(*params, weight)
        loss.backward()
        evals += 1
        return loss

    first = opt.step(closure)
    with torch.no_grad():
        last = nll(*params, weight)
    print(f"  -loglik/subject {first.item():.5f} -> {last.item():.5f} in {evals} evaluations")
    return [p.detach() for p in params]


def main():
    gen = torch.Generator().manual_seed(5)
    design, y, censored, observed, truth = simulate(gen)
    print(
        f"{SUBJECTS} subjects, {VISITS} visits, {100 * censored.double().mean():.1f} % below the detection limit"
    )
    nll = make_negative_loglik(design, y, censored, observed)
    start = [
        torch.zeros(len(NAMES), dtype=torch.float64),
        torch.tensor(0.0, dtype=torch.float64),
        torch.tensor(0.0, dtype=torch.float64),
    ]
    start[0][0] = y.mean()
    t0 = time.perf_counter()
    estimate = fit(nll, start, torch.ones(SUBJECTS, dtype=torch.float64), max_iter=40)
    replicas = []
    for _ in range(BOOTSTRAP):
        u = torch.rand(SUBJECTS, generator=gen, dtype=torch.float64).clamp_min(1e-12)
        replicas.append(fit(nll, estimate, -u.log(), max_iter=14)[0])
    se = torch.stack(replicas).std(dim=0)
    for name, est, s, tr in zip(NAMES, estimate[0].tolist(), se.tolist(), truth.tolist()):
        print(f"{name:15s} {est:8.4f}  (se {s:.4f}, true {tr:5.2f})")
    print(f"between-subject sd {estimate[1].exp():.3f}, residual sd {estimate[2].exp():.3f}")
    print(f"{time.perf_counter() - t0:.2f} s")


if __name__ == "__main__":
    main()
