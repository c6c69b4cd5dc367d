"""Synthetic control with placebo inference.

A cap on heavy lorries came into force in one municipality; its accident series is compared with a weighted
average of the other municipalities (weights on the simplex). For inference every other municipality gets a
placebo treatment as well and the ratio of post/pre prediction errors is ranked; in-time placebos follow.
All the weight problems of one date are solved as one batch by accelerated projected gradient.
"""

import torch

torch.manual_seed(2024)
N_UNITS = 320
T_TOTAL = 140
T_TREAT = 100
EFFECT = -1.6
ITERS = 110


def make_panel():
    n_factors = 6
    load = torch.rand(N_UNITS, n_factors, dtype=torch.float64)
    load = load / load.sum(1, keepdim=True)
    f = torch.randn(n_factors, T_TOTAL, dtype=torch.float64).cumsum(1) * 0.6
    season = torch.sin(torch.arange(T_TOTAL, dtype=torch.float64) * 2 * torch.pi / 12)
    amp = 1 + 0.3 * torch.rand(N_UNITS, 1, dtype=torch.float64)
    y = 12 + load @ f * 3 + amp * season + 0.5 * torch.randn(N_UNITS, T_TOTAL, dtype=torch.float64)
    y[0, T_TREAT:] += EFFECT
    return y


def project_simplex(v):
    """Row-wise Euclidean projection on the probability simplex."""
    u, _ = torch.sort(v, dim=-1, descending=True)
    css = torch.cumsum(u, dim=-1) - 1.0
    k = torch.arange(1, v.shape[-1] + 1, dtype=v.dtype)
    rho = (u - css / k > 0).sum(dim=-1, keepdim=True)
    theta = css.gather(-1, rho - 1) / rho
    return torch.clamp(v - theta, min=0.0)


class PlaceboSolver:
    def __init__(self, y, t0, ridge=1e-3):
        pre = y[:, :t0]
        self.pre, self.post = pre, y[:, t0:]
        pre = pre - pre.mean(0, keepdim=True)
        self.gram = pre @ pre.T / t0
        n = y.shape[0]
        self.self_mask = torch.eye(n, dtype=torch.bool)
        lip = torch.linalg.eigvalsh(self.gram)[-1] + ridge
        self.step_size = 1.0 / lip
        self.ridge = ridge
        self._update = torch.compile(self.update)

    def update(self, w, z, tk):
        """One FISTA step for all the units."""
        grad = z @ self.gram - self.gram + self.ridge * z
        cand = z - self.step_size * grad
        cand = cand.masked_fill(self.self_mask, -1e6)  # a unit can't be its own donor
        w_new = project_simplex(cand)
        # gradient restart per unit
        ascend = (grad * (w_new - w)).sum(dim=-1, keepdim=True) > 0
        t_new = (1 + torch.sqrt(1 + 4 * tk * tk)) / 2
        t_new = torch.where(ascend, torch.ones_like(t_new), t_new)
        mom = torch.where(ascend, torch.zeros_like(t_new), (tk - 1) / t_new)
        z_new = w_new + mom * (w_new - w)
        return w_new, z_new, t_new

    def solve(self, iters):
        n = self.gram.shape[0]
        w = torch.full((n, n), 1.0 / (n - 1), dtype=torch.float64)
        w.masked_fill_(self.self_mask, 0.0)
        z, tk = w.clone(), torch.ones(n, 1, dtype=torch.float64)
        for _ in range(iters):
            w, z, tk = self._update(w, z, tk)
        return w

    def report(self, w):
        pre_gap = self.pre - w @ self.pre
        post_gap = self.post - w @ self.post
        pre_rmse = pre_gap.square().mean(1).sqrt()
        post_rmse = post_gap.square().mean(1).sqrt()
        ratio = post_rmse / pre_rmse
        p = (ratio >= ratio[0]).double().mean()
        return post_gap[0].mean(), pre_rmse[0], p


def main():
    y = make_panel()
    for t0, label in [(T_TREAT, "true date"), (80, "in-time placebo"), (60, "in-time placebo")]:
        panel = y if t0 == T_TREAT else y[:, :T_TREAT]
        solver = PlaceboSolver(panel, t0)
        w = solver.solve(ITERS)
        eff, rmse, p = solver.report(w)
        used = (w[0] > 1e-3).sum()
        print(
            f"{label:16s} t0={t0:3d}  effect {eff:+.3f}  pre-RMSE {rmse:.3f}  placebo p {p:.3f}  donors {used}"
        )
        top = torch.topk(w[0], 3)
        print("   largest donors:", [(int(i), round(float(v), 3)) for v, i in zip(*top)])

    # leave-one-donor-out for the treated unit: drop each of the main donors in turn
    main_donors = torch.topk(w[0], 3).indices.tolist()
    effects = []
    for d in main_donors:
        keep = [i for i in range(N_UNITS) if i != d]
        solver = PlaceboSolver(y[keep], T_TREAT)
        effects.append(float(solver.report(solver.solve(ITERS // 2))[0]))
    print("leave-one-out effects:", [round(e, 3) for e in effects])


if __name__ == "__main__":
    main()
