"""GJR-GARCH(1,1) with Student-t innovations for the whole fund universe.

Five years of monthly returns per fund; every fund has its own parameters and
all are fitted at once with Adam on the summed negative log-likelihood.
"""

import math
import time

import numpy as np
import torch
import torch.nn.functional as F

N_FUNDS, N_MONTHS = 20000, 60


def simulate_panel(n, t, seed=0):
    rng = np.random.default_rng(seed)
    alpha = rng.uniform(0.03, 0.10, n)
    gamma = rng.uniform(0.0, 0.10, n)
    beta = rng.uniform(0.65, 0.80, n)
    uncond = rng.uniform(2.0, 6.0, n) ** 2
    omega = uncond * (1 - alpha - beta - 0.5 * gamma)
    h = uncond.copy()
    out = np.empty((n, t), np.float32)
    for k in range(t):
        z = rng.standard_t(7, n) * math.sqrt(5 / 7)
        e = np.sqrt(h) * z
        out[:, k] = 0.4 + e
        h = omega + (alpha + gamma * (e < 0)) * e**2 + beta * h
    return out, np.stack([alpha, gamma, beta])


def unpack(theta):
    mu = theta[:, 0]
    uncond = F.softplus(theta[:, 1]) + 0.05
    share = torch.softmax(F.pad(theta[:, 2:5], (1, 0)), dim=1)
    alpha, gamma, beta = share[:, 1], 2 * share[:, 2], share[:, 3]
    omega = uncond * (1 - alpha - beta - 0.5 * gamma).clamp(min=1e-3)
    nu = 2.5 + F.softplus(theta[:, 5])
    return mu, omega, alpha, gamma, beta, nu


def neg_loglik(theta, returns, h0):
    mu, omega, alpha, gamma, beta, nu = unpack(theta)
    n_obs = returns.shape[1]
    const = torch.lgamma((nu + 1) / 2) - torch.lgamma(nu / 2) - 0.5 * torch.log(math.pi * (nu - 2))
    h = h0
    ll = torch.zeros_like(h0)
    for t in range(n_obs):
        e = returns[:, t] - mu
        e2 = e * e
        ll = ll - 0.5 * torch.log(h) - 0.5 * (nu + 1) * torch.log1p(e2 / (h * (nu - 2)))
        h = omega + (alpha + gamma * (e < 0)) * e2 + beta * h
    return -(ll + n_obs * const) / n_obs


def fit(returns, iters=80, lr=0.05):
    h0 = returns.var(dim=1)
    theta = torch.zeros(len(returns), 6)
    theta[:, 0] = returns.mean(dim=1)
    theta[:, 1] = h0
    theta[:, 2:5] = torch.tensor([-0.5, -0.5, 1.2])
    theta[:, 5] = 4.0
    theta.requires_grad_(True)
    opt = torch.optim.Adam([theta], lr=lr)
    objective = torch.compile(neg_loglik)
    times = []
    for it in range(iters):
        t0 = time.perf_counter()
        nll = objective(theta, returns, h0)
        opt.zero_grad()
        nll.sum().backward()
        opt.step()
        times.append(time.perf_counter() - t0)
        if it % 20 == 0:
            print(f"iter {it:3d}  mean nll per month {nll.mean().item():.4f}")
    return theta.detach(), nll.detach(), times


def main():
    panel, truth = simulate_panel(N_FUNDS, N_MONTHS)
    returns = torch.from_numpy(panel)
    theta, nll, times = fit(returns)
    _, _, alpha, gamma, beta, nu = unpack(theta)
    print(f"final mean nll {nll.mean().item():.4f}")
    print(f"median alpha {alpha.median():.3f} (true {np.median(truth[0]):.3f})")
    print(f"median gamma {gamma.median():.3f} (true {np.median(truth[1]):.3f})")
    print(f"median beta  {beta.median():.3f} (true {np.median(truth[2]):.3f}), median nu {nu.median():.2f}")
    print(f"{1e3 * np.median(times[5:]):.1f} ms per iteration for {N_FUNDS} funds")


if __name__ == "__main__":
    main()
