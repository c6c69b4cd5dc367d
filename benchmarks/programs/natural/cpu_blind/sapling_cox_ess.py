"""Posterior of a log-Gaussian Cox process for sapling counts on a forest plot, by elliptical slice sampling.

The plot is a 30 x 30 grid of quadrats; the log intensity is a Gaussian process (Matern 3/2) plus an intercept.  Several
chains run together: every sweep draws one elliptical slice move of the field for all chains (brackets shrink until each
chain has accepted) and a random-walk Metropolis move of the intercept and of the field's amplitude.
"""

import math

import torch

torch.manual_seed(1993)
torch.set_default_dtype(torch.float64)

SIDE = 30
AREA = 1.0
CHAINS = 24
MAX_SHRINK = 14
WARMUP, KEEP = 250, 450


def matern_chol(side, ell):
    xy = torch.cartesian_prod(torch.arange(side) * 1.0, torch.arange(side) * 1.0)
    r = torch.cdist(xy, xy) * math.sqrt(3) / ell
    k = (1 + r) * torch.exp(-r)
    return torch.linalg.cholesky(k + 1e-6 * torch.eye(side * side)), xy


def simulate(chol, xy):
    field = 0.9 * (chol @ torch.randn(SIDE * SIDE))
    ridge = 0.4 * torch.sin(xy[:, 0] / 7.0)
    return torch.poisson(torch.exp(0.3 + field + ridge) * AREA), field + ridge


def log_lik(f, mu, log_amp, counts):
    eta = mu[:, None] + log_amp.exp()[:, None] * f
    return (counts * eta - AREA * torch.exp(eta)).sum(-1)


def log_prior(mu, log_amp):
    return -0.5 * (mu / 2.0) ** 2 - 0.5 * (log_amp / 0.7) ** 2


@torch.compile
def sweep(f, mu, log_amp, chol, counts, scale):
    n = f.shape[0]
    # elliptical slice move of the whitened-amplitude field
    nu = torch.randn(n, f.shape[1], dtype=f.dtype) @ chol.T
    current = log_lik(f, mu, log_amp, counts)
    level = current + torch.log(torch.rand(n, dtype=f.dtype))
    theta = 2 * math.pi * torch.rand(n, dtype=f.dtype)
    lo, hi = theta - 2 * math.pi, theta.clone()
    done = torch.zeros(n, dtype=torch.bool)
    new_f = f.clone()
    tries = torch.zeros(n, dtype=torch.int64)
    for _ in range(MAX_SHRINK):
        prop = f * torch.cos(theta)[:, None] + nu * torch.sin(theta)[:, None]
        ok = log_lik(prop, mu, log_amp, counts) > level
        take = ok & ~done
        new_f = torch.where(take[:, None], prop, new_f)
        done = done | ok
        tries += (~done).long()
        hi = torch.where(~done & (theta >= 0), theta, hi)
        lo = torch.where(~done & (theta < 0), theta, lo)
        theta = torch.where(done, theta, lo + (hi - lo) * torch.rand(n, dtype=f.dtype))
    # Metropolis for intercept and amplitude
    mu_p = mu + scale[0] * torch.randn(n, dtype=f.dtype)
    amp_p = log_amp + scale[1] * torch.randn(n, dtype=f.dtype)
    old = log_lik(new_f, mu, log_amp, counts) + log_prior(mu, log_amp)
    new = log_lik(new_f, mu_p, amp_p, counts) + log_prior(mu_p, amp_p)
    accept = torch.log(torch.rand(n, dtype=f.dtype)) < new - old
    mu = torch.where(accept, mu_p, mu)
    log_amp = torch.where(accept, amp_p, log_amp)
    return new_f, mu, log_amp, accept, tries


def split_rhat(x):
    half = x.shape[0] // 2
    x = torch.cat([x[:half], x[half : 2 * half]], dim=1)
    within = x.var(0).mean()
    between = x.mean(0).var() * half
    return torch.sqrt(((half - 1) / half * within + between / half) / within).item()


def main():
    chol, xy = matern_chol(SIDE, 4.5)
    counts, truth = simulate(chol, xy)
    f = torch.randn(CHAINS, SIDE * SIDE) @ chol.T * 0.1
    mu = torch.full((CHAINS,), counts.mean().clamp(min=0.1).log().item())
    log_amp = torch.zeros(CHAINS)
    scale = torch.tensor([0.08, 0.08])
    trace_mu, trace_amp = [], []
    mean_field = torch.zeros(SIDE * SIDE)
    shrinks, recent = 0, []
    for it in range(WARMUP + KEEP):
        f, mu, log_amp, accept, tries = sweep(f, mu, log_amp, chol, counts, scale)
        shrinks += tries.sum().item()
        if it < WARMUP:
            recent.append(accept.double().mean().item())
            if len(recent) == 25:  # tune the random walk toward 30 percent
                scale = scale * math.exp(sum(recent) / 25 - 0.30)
                recent = []
            continue
        trace_mu.append(mu)
        trace_amp.append(log_amp.exp())
        mean_field += (mu[:, None] + log_amp.exp()[:, None] * f).mean(0) / KEEP
    tm, ta = torch.stack(trace_mu), torch.stack(trace_amp)
    corr = torch.corrcoef(torch.stack([mean_field, truth]))[0, 1]
    print(f"intercept {tm.mean():.3f} +- {tm.std():.3f} (rhat {split_rhat(tm):.3f})")
    print(f"amplitude {ta.mean():.3f} +- {ta.std():.3f} (rhat {split_rhat(ta):.3f})")
    print(
        f"mean shrinks {shrinks / CHAINS / (WARMUP + KEEP):.2f}  correlation with the true field {corr:.3f}"
    )


if __name__ == "__main__":
    main()
