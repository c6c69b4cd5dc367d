"""Monthly rebalancing of a book of client portfolios.

Each client: long-only, fully invested, own risk aversion and views; factor risk model;
quadratic trading cost around the current holdings. Solved for all clients together by
FISTA with Euclidean projection onto the simplex.
"""

import time

import torch


def project_simplex(v):
    """Row-wise projection onto {w >= 0, sum w = 1} (Held, Wolfe & Crowder)."""
    s, _ = torch.sort(v, dim=1, descending=True)
    css = s.cumsum(1) - 1.0
    k = torch.arange(1, v.shape[1] + 1, device=v.device, dtype=v.dtype)
    rho = (s * k > css).sum(1, keepdim=True)
    theta = css.gather(1, rho - 1) / rho
    return (v - theta).clamp(min=0)


class Optimizer:
    def __init__(self, loadings, factor_cov, specific, cost=0.02, inner=12):
        chol = torch.linalg.cholesky(factor_cov)
        self.X = loadings @ chol  # [assets, factors]
        self.specific = specific
        self.cost = cost
        self.inner = inner
        self.lip = float(torch.linalg.matrix_norm(self.X, 2) ** 2 + specific.max())
        self.fista = torch.compile(self._fista)

    def _grad(self, w, held, views, aversion):
        risk = (w @ self.X) @ self.X.T + w * self.specific
        return aversion * risk - views + 2 * self.cost * (w - held)

    def _fista(self, w, y, t, held, views, aversion):
        lr = 1.0 / (aversion * self.lip + 2 * self.cost)
        for _ in range(self.inner):
            w_new = project_simplex(y - lr * self._grad(y, held, views, aversion))
            t_new = 0.5 * (1 + torch.sqrt(1 + 4 * t * t))
            y = w_new + (t - 1) / t_new * (w_new - w)
            w, t = w_new, t_new
        return w, y, t

    def solve(self, held, views, aversion, tol=2e-4, max_outer=8):
        w, y, t = held, held, torch.ones(())
        for outer in range(max_outer):
            last = w
            w, y, t = self.fista(w, y, t, held, views, aversion)
            if (w - last).abs().sum(1).max().item() < tol:
                break
        return w, outer + 1


def main():
    torch.manual_seed(2024)
    clients, assets, factors, months = 384, 500, 24, 12
    loadings = torch.randn(assets, factors) * 0.6
    loadings[:, 0] = 1 + 0.25 * torch.randn(assets)
    a = torch.randn(factors, factors) * 0.1
    factor_cov = a @ a.T * 0.004 + torch.diag(torch.linspace(0.02, 0.002, factors)) / 12
    specific = (0.15 + 0.25 * torch.rand(assets)) ** 2 / 12
    opt = Optimizer(loadings, factor_cov, specific)

    aversion = torch.empty(clients, 1).uniform_(2, 12)
    w = torch.full((clients, assets), 1.0 / assets)
    wealth = torch.ones(clients)
    fchol = torch.linalg.cholesky(factor_cov)
    signal = torch.randn(assets) * 0.004
    for month in range(months):
        t0 = time.perf_counter()
        signal = 0.85 * signal + 0.002 * torch.randn(assets)
        views = signal + 0.001 * torch.randn(clients, assets)
        new, outers = opt.solve(w, views, aversion)
        turnover = 0.5 * (new - w).abs().sum(1)
        r = loadings @ (fchol @ torch.randn(factors)) + specific.sqrt() * torch.randn(assets) + 0.5 * signal
        pnl = new @ r - 0.001 * turnover
        wealth = wealth * (1 + pnl)
        w = new * (1 + r)
        w = w / w.sum(1, keepdim=True)
        print(
            f"m{month:02d} outer {outers} names {(new > 1e-4).sum(1).float().mean():.0f} "
            f"turnover {turnover.mean():.3f} wealth {wealth.mean():.3f} {time.perf_counter() - t0:.2f}s"
        )


if __name__ == "__main__":
    with torch.no_grad():
        main()
