"""Matching of cell populations between two time points by entropic transport.

For each pair of snapshots a cost matrix over marker expressions is built, a
log-domain Sinkhorn solve gives the coupling, and the mean drift is read off.
"""

import time
from dataclasses import dataclass

import torch

torch.set_num_threads(2)


@dataclass
class SolveInfo:
    iterations: int
    error: float


def make_pair(n, m, markers, gen):
    centres = torch.randn(6, markers, generator=gen)
    src = centres[torch.randint(0, 6, (n,), generator=gen)]
    src = src + 0.35 * torch.randn(n, markers, generator=gen)
    shift = 0.4 * torch.randn(markers, generator=gen)
    dst = centres[torch.randint(0, 6, (m,), generator=gen)] + shift
    dst = dst + 0.35 * torch.randn(m, markers, generator=gen)
    return src, dst, shift


def expression_cost(x, y):
    xs, ys = torch.asinh(2.0 * x), torch.asinh(2.0 * y)
    sq = xs.square().sum(1)[:, None] + ys.square().sum(1)[None] - 2.0 * xs @ ys.t()
    cost = sq.clamp_min(0.0)
    huber = torch.where(cost < 4.0, cost, 4.0 * cost.clamp_min(1e-6).sqrt() - 4.0)
    return huber / huber.mean()


@torch.compile
def match(x, y, growth, eps=0.12, max_iter=150, tol=1e-3):
    cost = expression_cost(x, y)
    a = growth / growth.sum()
    b = torch.full((y.shape[0],), 1.0 / y.shape[0])
    log_a, log_b = a.log(), b.log()
    f = torch.zeros_like(a)
    g = torch.zeros_like(b)

    iterations = max_iter
    error = torch.ones(())
    for it in range(max_iter):
        f = f + eps * (log_a - torch.logsumexp((f[:, None] + g[None] - cost) / eps, dim=1))
        g = g + eps * (log_b - torch.logsumexp((f[:, None] + g[None] - cost) / eps, dim=0))
        row = torch.exp((f[:, None] + g[None] - cost) / eps).sum(1)
        error = (row - a).abs().sum()
        if error < tol:
            iterations = it + 1
            break

    plan = torch.exp((f[:, None] + g[None] - cost) / eps)
    drift = (plan @ y) / plan.sum(1, keepdim=True) - x
    spread = -(plan * (plan + 1e-12).log()).sum()
    return drift, spread, (plan * cost).sum(), iterations, error


def main():
    gen = torch.Generator().manual_seed(21)
    pairs = [make_pair(160, 150, 14, gen) for _ in range(4)]
    growth = [1.0 + 0.3 * torch.rand(160, generator=gen) for _ in pairs]

    for (x, y, _), w in zip(pairs[:3], growth):
        match(x, y, w)

    times, infos, errors = [], [], []
    for i in range(20):
        x, y, shift = pairs[i % 4]
        t0 = time.perf_counter()
        drift, spread, loss, iters, err = match(x, y, growth[i % 4])
        times.append(time.perf_counter() - t0)
        infos.append(SolveInfo(iters, float(err)))
        estimate = drift.mean(0)
        errors.append(float(torch.cosine_similarity(estimate, shift, dim=0)))

    worst = max(info.error for info in infos)
    mean_iter = sum(info.iterations for info in infos) / len(infos)
    print(
        f"mean iterations {mean_iter:.1f}, worst marginal error {worst:.1e}, "
        f"transport loss {loss:.4f}, entropy {spread:.2f}, "
        f"drift alignment {sum(errors) / len(errors):.3f}"
    )
    assert worst < 0.02 and sum(errors) / len(errors) > 0.5
    times.sort()
    print(f"{1e3 * times[len(times) // 2]:.1f} ms per pair")


if __name__ == "__main__":
    main()
