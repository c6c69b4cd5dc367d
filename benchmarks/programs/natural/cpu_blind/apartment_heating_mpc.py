"""Heating of a thousand apartments by model predictive control.

Every half hour a box- and comfort-constrained QP over the next 12 hours is solved for each apartment (OSQP-like ADMM,
all the apartments as one batch, warm started), and the first input of the plan is applied to the plant.
"""

import math
import time

import torch

HORIZON, INPUTS = 24, 2  # radiator and ventilation preheater
RHO, SIGMA, ALPHA = 0.4, 1e-6, 1.6


def building_model():
    """Air and wall temperature, 30 min steps."""
    a = torch.tensor([[0.72, 0.22], [0.04, 0.95]])
    b = torch.tensor([[0.9, 0.5], [0.15, 0.0]])
    e = torch.tensor([0.06, 0.01])  # outdoor temperature
    return a, b, e


def condensed(a, b, e):
    """Air temperature over the horizon as  F x0 + G u + E w."""
    n = HORIZON
    f, g, ew = torch.zeros(n, 2), torch.zeros(n, n * INPUTS), torch.zeros(n, n)
    powers = [torch.eye(2)]
    for _ in range(n):
        powers.append(a @ powers[-1])
    for t in range(n):
        f[t] = powers[t + 1][0]
        for s in range(t + 1):
            g[t, s * INPUTS : (s + 1) * INPUTS] = (powers[t - s] @ b)[0]
            ew[t, s] = (powers[t - s] @ e)[0]
    return f, g, ew


class AdmmQP:
    def __init__(self, p, a):
        self.p, self.a = p, a
        self.at = a.t().contiguous()
        self.kinv = torch.linalg.inv(p + SIGMA * torch.eye(p.shape[0]) + RHO * self.at @ a)

    @torch.compile
    def solve(self, q, lo, hi, x, z, y, tol=3e-4, max_iter=200):
        """min 1/2 x'Px + q'x  s.t.  lo <= Ax <= hi, for a batch (rows). Returns x, z, y, iterations."""
        n_iter = max_iter
        for it in range(max_iter):
            rhs = SIGMA * x - q + (RHO * z - y) @ self.a
            xt = rhs @ self.kinv
            zt = xt @ self.at
            x = ALPHA * xt + (1 - ALPHA) * x
            zr = ALPHA * zt + (1 - ALPHA) * z
            z_new = torch.minimum(torch.maximum(zr + y / RHO, lo), hi)
            y = y + RHO * (zr - z_new)
            z = z_new
            ax = x @ self.at
            primal = (ax - z).abs().amax(dim=1)
            dual = (x @ self.p + q + y @ self.a).abs().amax(dim=1)
            p_scale = 1.0 + torch.maximum(ax.abs().amax(1), z.abs().amax(1))
            d_scale = 1.0 + q.abs().amax(1)
            # stop as soon as nearly all apartments are solved; stragglers go on with the warm start at the next step
            if torch.quantile(torch.maximum(primal / p_scale, dual / d_scale), 0.99) < tol:
                n_iter = it + 1
                break
        return x, z, y, n_iter


def main():
    torch.manual_seed(1)
    homes = 1000
    a, b, e = building_model()
    f, g, ew = condensed(a, b, e)
    price_w = 0.08 + 0.02 * torch.rand(homes, 1)
    setpoint = 20.0 + 1.5 * torch.rand(homes, 1)
    p = 0.15 * torch.eye(HORIZON * INPUTS) + 0.30 * g.t() @ g
    qp = AdmmQP(p, torch.cat([torch.eye(HORIZON * INPUTS), g]))
    x0 = torch.cat([18 + 2 * torch.rand(homes, 1), 17 + torch.rand(homes, 1)], 1)
    u = torch.zeros(homes, HORIZON * INPUTS)
    z, y = torch.zeros(homes, HORIZON * (INPUTS + 1)), torch.zeros(homes, HORIZON * (INPUTS + 1))

    def outdoor(k):
        return 2.0 + 6.0 * math.sin(2 * math.pi * (k - 18) / 48)

    energy, misery, iters = 0.0, 0.0, 0
    steps = 72
    t0 = time.perf_counter()
    with torch.no_grad():
        for k in range(steps):
            w = torch.tensor([outdoor(k + i) for i in range(HORIZON)])
            free = x0 @ f.t() + w @ ew.t()
            night = torch.tensor([((k + i) % 48) < 12 for i in range(HORIZON)]).float()
            ref = setpoint - 2.5 * night
            price = torch.tensor([1.0 + 0.8 * (30 < (k + i) % 48 < 40) for i in range(HORIZON)])
            q = (0.30 * (free - ref)) @ g + price_w * price.repeat_interleave(INPUTS)
            lo = torch.cat([torch.zeros(homes, HORIZON * INPUTS), ref - 1.5 - free], 1)
            hi = torch.cat([torch.full((homes, HORIZON * INPUTS), 2.5), ref + 3.5 - free], 1)
            lo = torch.minimum(lo, hi - 0.1)
            u, z, y, n = qp.solve(q, lo, hi, u, z, y)
            iters += n
            act = u.view(homes, HORIZON, INPUTS)[:, 0].clamp(0, 2.5)
            x0 = x0 @ a.t() + act @ b.t() + outdoor(k) * e + 0.05 * torch.randn(homes, 2)
            energy += float(act.sum())
            misery += float((ref[:, :1] - 1.5 - x0[:, :1]).clamp(min=0).mean())
            if (k + 1) % 24 == 0:
                print(
                    f"hour {(k + 1) / 2:5.1f} outside {outdoor(k):5.1f} air {x0[:, 0].mean():.2f} wall {x0[:, 1].mean():.2f}"
                    f" iterations {iters / (k + 1):.1f} per solve"
                )
    took = time.perf_counter() - t0
    print(
        f"energy {energy / homes:.1f}, below comfort {misery / steps:.3f} K, {took / steps * 1e3:.1f} ms per control step"
    )


if __name__ == "__main__":
    main()
