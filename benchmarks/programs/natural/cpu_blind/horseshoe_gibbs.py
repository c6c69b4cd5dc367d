"""Bayesian sparse regression with the horseshoe prior: blocked Gibbs sampler, several chains side by side.

Auxiliary-variable scheme of Makalic and Schmidt (2016): all scale updates are inverse-gamma draws. Ends with the
posterior means, selection by credible intervals and split R-hat.
"""

import torch

N_OBS = 400
N_FEAT = 250
N_TRUE = 12
CHAINS = 8
WARMUP = 100
DRAWS = 600


def make_data(seed):
    gen = torch.Generator().manual_seed(seed)
    factors = torch.randn(N_OBS, 15, generator=gen, dtype=torch.float64)
    load = torch.randn(15, N_FEAT, generator=gen, dtype=torch.float64) * 0.35
    x = factors @ load + torch.randn(N_OBS, N_FEAT, generator=gen, dtype=torch.float64)
    x = (x - x.mean(0)) / x.std(0)
    beta = torch.zeros(N_FEAT, dtype=torch.float64)
    where = torch.randperm(N_FEAT, generator=gen)[:N_TRUE]
    beta[where] = torch.sign(torch.randn(N_TRUE, generator=gen, dtype=torch.float64)) * torch.linspace(
        0.4, 2.0, N_TRUE, dtype=torch.float64
    )
    y = x @ beta + 1.0 * torch.randn(N_OBS, generator=gen, dtype=torch.float64)
    return x, y - y.mean(), beta


def inv_gamma_one(rate):
    """InvGamma(1, rate): rate over a unit exponential."""
    return rate / torch.empty_like(rate).exponential_().clamp(min=1e-12)


def inv_gamma(shape, rate):
    conc = torch.full_like(rate, shape)
    return rate / torch._standard_gamma(conc)


class HorseshoeGibbs:
    def __init__(self, x, y, chains):
        self.x, self.y = x, y
        self.xtx = x.T @ x
        self.xty = x.T @ y
        self.n, self.p = x.shape
        d = dict(dtype=torch.float64)
        self.state = dict(
            beta=torch.zeros(chains, self.p, **d),
            lam2=torch.rand(chains, self.p, **d) + 0.5,
            nu=torch.ones(chains, self.p, **d),
            tau2=torch.full((chains, 1), 0.1, **d),
            xi=torch.ones(chains, 1, **d),
            sigma2=torch.ones(chains, 1, **d),
        )
        self._sweep = torch.compile(self.sweep)

    def sweep(self, s):
        prior_prec = 1.0 / (s["lam2"] * s["tau2"])
        a = self.xtx + torch.diag_embed(prior_prec)
        chol = torch.linalg.cholesky(a)
        mean = torch.cholesky_solve(self.xty.expand(len(a), -1).unsqueeze(-1), chol)
        eps = torch.randn_like(mean)
        noise = torch.linalg.solve_triangular(chol.mT, eps, upper=True)
        beta = (mean + s["sigma2"].sqrt().unsqueeze(-1) * noise).squeeze(-1)

        resid = self.y - beta @ self.x.T
        b2 = beta.square()
        rate = 0.5 * resid.square().sum(1, keepdim=True) + 0.5 * (b2 * prior_prec).sum(1, keepdim=True)
        sigma2 = inv_gamma(0.5 * (self.n + self.p), rate)

        lam2 = inv_gamma_one(1.0 / s["nu"] + b2 / (2.0 * s["tau2"] * sigma2)).clamp(1e-10, 1e10)
        nu = inv_gamma_one(1.0 + 1.0 / lam2)
        rate = 1.0 / s["xi"] + (b2 / lam2).sum(1, keepdim=True) / (2.0 * sigma2)
        tau2 = inv_gamma(0.5 * (self.p + 1), rate).clamp(1e-10, 1e4)
        xi = inv_gamma_one(1.0 + 1.0 / tau2)
        loglik = -0.5 * self.n * sigma2.log().squeeze(1) - 0.5 * resid.square().sum(1) / sigma2.squeeze(1)
        return dict(beta=beta, lam2=lam2, nu=nu, tau2=tau2, xi=xi, sigma2=sigma2), loglik

    def run(self, warmup, draws):
        kept, trace = [], []
        for it in range(warmup + draws):
            self.state, ll = self._sweep(self.state)
            trace.append(ll)
            if it >= warmup:
                kept.append(self.state["beta"])
            if (it + 1) % 100 == 0:
                print(
                    f"sweep {it + 1:4d}  log-lik {ll.mean():9.2f}  sigma {self.state['sigma2'].sqrt().mean():.3f}  "
                    f"tau {self.state['tau2'].sqrt().mean():.4f}"
                )
        return torch.stack(kept, dim=1), torch.stack(trace, dim=1)


def split_rhat(draws):
    """draws [chains, n, p]"""
    half = draws.shape[1] // 2
    s = torch.cat([draws[:, :half], draws[:, half : 2 * half]], dim=0)
    within = s.var(dim=1).mean(0)
    between = half * s.mean(1).var(0)
    return (((half - 1) / half * within + between / half) / within).sqrt()


@torch.no_grad()
def main():
    torch.manual_seed(11)
    x, y, truth = make_data(11)
    sampler = HorseshoeGibbs(x, y, CHAINS)
    draws, trace = sampler.run(WARMUP, DRAWS)
    rhat = split_rhat(draws)
    flat = draws.flatten(0, 1)
    lo, hi = flat.quantile(0.025, dim=0), flat.quantile(0.975, dim=0)
    picked = (lo > 0) | (hi < 0)
    hits = int((picked & (truth != 0)).sum())
    print(f"selected {int(picked.sum())} features, {hits} of {N_TRUE} true ones")
    print(f"rms error of the posterior mean {(flat.mean(0) - truth).square().mean().sqrt():.4f}")
    print(
        f"R-hat: median {rhat.median():.3f}, worst {rhat.max():.3f}; log-lik of the last sweep {trace[:, -1].mean():.1f}"
    )


if __name__ == "__main__":
    main()
