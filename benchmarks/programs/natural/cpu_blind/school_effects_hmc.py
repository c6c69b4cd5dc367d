"""Hierarchical logistic regression of pupils' exam passes (random intercept and
slope per school), sampled with Hamiltonian Monte Carlo."""

import time

import torch

torch.manual_seed(12)

SCHOOLS = 120
PUPILS = 9000
COVARIATES = 6
LEAPFROG = 16
WARMUP = 400
DRAWS = 1200

DIMS = {"beta": COVARIATES, "mu": 2, "log_tau": 2, "z": 2 * SCHOOLS}
TOTAL = sum(DIMS.values())


def simulate_data():
    g = torch.Generator().manual_seed(77)
    school = torch.randint(0, SCHOOLS, (PUPILS,), generator=g)
    x = torch.randn(PUPILS, COVARIATES, generator=g)
    effort = torch.randn(PUPILS, generator=g)
    beta = torch.tensor([0.8, -0.5, 0.3, 0.0, 0.2, -0.1])
    a = 0.4 + 0.6 * torch.randn(SCHOOLS, generator=g)
    b = 0.7 + 0.3 * torch.randn(SCHOOLS, generator=g)
    logit = x @ beta + a[school] + b[school] * effort
    y = (torch.rand(PUPILS, generator=g) < torch.sigmoid(logit)).float()
    return school, x, effort, y, beta


SCHOOL, X, EFFORT, Y, TRUE_BETA = simulate_data()


@torch.compile
def log_posterior(theta):
    beta, mu, log_tau, z = torch.split(theta, list(DIMS.values()))
    z = z.view(2, SCHOOLS)
    tau = torch.exp(log_tau)
    effects = mu[:, None] + tau[:, None] * z
    logit = X @ beta + effects[0][SCHOOL] + effects[1][SCHOOL] * EFFORT
    loglik = (Y * logit - torch.nn.functional.softplus(logit)).sum()
    prior = -0.5 * (beta / 2.5).square().sum()
    prior = prior - 0.5 * (mu / 2.0).square().sum()
    prior = prior - 0.5 * z.square().sum()
    prior = prior - torch.log1p(tau.square()).sum() + log_tau.sum()  # half-Cauchy
    return loglik + prior


def value_and_grad(theta):
    theta = theta.detach().requires_grad_(True)
    lp = log_posterior(theta)
    (grad,) = torch.autograd.grad(lp, theta)
    return lp.detach(), grad


def hmc_step(theta, lp, grad, step, inv_mass):
    momentum = torch.randn(TOTAL) / inv_mass.sqrt()
    energy0 = lp - 0.5 * (momentum.square() * inv_mass).sum()
    q, g = theta, grad
    p = momentum + 0.5 * step * g
    for i in range(LEAPFROG):
        q = q + step * inv_mass * p
        new_lp, g = value_and_grad(q)
        p = p + (step if i < LEAPFROG - 1 else 0.5 * step) * g
    energy1 = new_lp - 0.5 * (p.square() * inv_mass).sum()
    accept = torch.exp((energy1 - energy0).clamp(max=0.0)).item()
    if torch.rand(()).item() < accept:
        return q, new_lp, g, accept
    return theta, lp, grad, accept


def main():
    theta = torch.zeros(TOTAL)
    lp, grad = value_and_grad(theta)
    step, inv_mass = 0.02, torch.ones(TOTAL)
    warm, draws, accepts = [], [], []
    start = time.time()
    for it in range(WARMUP + DRAWS):
        theta, lp, grad, acc = hmc_step(theta, lp, grad, step, inv_mass)
        if it < WARMUP:
            step *= 1.03 if acc > 0.8 else 0.93
            warm.append(theta)
            if it == 150:
                inv_mass = torch.stack(warm[60:]).var(dim=0).clamp(min=1e-4)
                step = 0.1
        else:
            draws.append(theta)
            accepts.append(acc)
        if it % 200 == 0:
            print(f"iteration {it:4d}  log posterior {lp.item():.1f}  step {step:.4f}")
    draws = torch.stack(draws)
    print(
        f"{(WARMUP + DRAWS) * LEAPFROG} gradients in {time.time() - start:.1f} s, "
        f"mean acceptance {sum(accepts) / len(accepts):.2f}"
    )
    mean, sd = draws.mean(0), draws.std(0)
    for j in range(COVARIATES):
        print(f"  beta[{j}] = {mean[j]:+.3f} +- {sd[j]:.3f} (true {TRUE_BETA[j]:+.2f})")
    tau = draws[:, COVARIATES + 2 : COVARIATES + 4].exp().mean(0)
    print(f"  sd of school intercepts {tau[0]:.2f}, slopes {tau[1]:.2f} (true 0.60, 0.30)")


if __name__ == "__main__":
    main()
