"""First-arrival travel times on a 2D section (eikonal equation, upwind iteration), for an ensemble of velocity models
that is weighted by its misfit to picked times."""

import torch
import torch.nn.functional as F

torch.manual_seed(8)
NZ, NX, H = 64, 160, 25.0
SRC_X = [8, 40, 80, 120, 150]
REC_X = torch.arange(4, NX, 6)
N_MODEL = 36
BIG = 1e3


def smooth_field(n, sigma):
    k = torch.arange(-3 * sigma, 3 * sigma + 1).float()
    g = torch.exp(-0.5 * (k / sigma) ** 2)
    g = g / g.sum()
    x = torch.randn(n, 1, NZ, NX)
    pad = 3 * sigma
    x = F.conv2d(F.pad(x, (pad, pad, pad, pad), mode="reflect"), g.view(1, 1, 1, -1))
    x = F.conv2d(x, g.view(1, 1, -1, 1))
    return (x / x.std())[:, 0]


def velocity_models(n):
    z = torch.arange(NZ).float()[:, None] * H
    background = 1200.0 + 1.3 * z
    return background * (1 + 0.10 * smooth_field(n, 8).clamp(-2.5, 2.5))


@torch.compile
def travel_times(slowness, sources, tol=1e-5, max_iter=400):
    """Jacobi iteration of Godunov's upwind scheme until the largest change is below tol. (S, NZ, NX) times."""
    n = sources.shape[0]
    T = torch.full((n, NZ, NX), BIG)
    T[torch.arange(n), sources[:, 0], sources[:, 1]] = 0.0
    fixed = T == 0.0
    sh = slowness * H
    it = 0
    while it < max_iter:
        P = F.pad(T, (1, 1, 1, 1), value=BIG)
        tx = torch.minimum(P[:, 1:-1, :-2], P[:, 1:-1, 2:])
        tz = torch.minimum(P[:, :-2, 1:-1], P[:, 2:, 1:-1])
        lo, hi = torch.minimum(tx, tz), torch.maximum(tx, tz)
        one_sided = lo + sh
        disc = 2 * sh**2 - (hi - lo) ** 2
        two_sided = 0.5 * (lo + hi + torch.sqrt(disc.clamp_min(0.0)))
        new = torch.where(hi - lo >= sh, one_sided, two_sided)
        new = torch.where(fixed, T, torch.minimum(T, new))
        change = (T - new).max().item()
        T = new
        it += 1
        if change < tol:
            break
    return T, it


def picks_at_receivers(T):
    return T[:, 0, REC_X]


def main():
    sources = torch.tensor([[2, x] for x in SRC_X])
    truth = velocity_models(1)[0]
    T, it = travel_times(1.0 / truth, sources)
    sigma = 0.01
    observed = picks_at_receivers(T)
    observed = observed + sigma * torch.randn_like(observed)
    print(f"true model: {it} iterations, latest arrival {T.max():.3f} s")

    models = velocity_models(N_MODEL)
    misfit, iters = [], 0
    for v in models:
        # models half way to the truth for an ensemble that has something to say
        v = 0.5 * (v + truth)
        T, it = travel_times(1.0 / v, sources)
        iters += it
        r = (picks_at_receivers(T) - observed) / sigma
        misfit.append((r**2).mean())
    misfit = torch.stack(misfit)
    w = torch.softmax(-0.5 * misfit / misfit.std(), 0)
    mean = (w[:, None, None] * 0.5 * (models + truth)).sum(0)
    print(
        f"{N_MODEL} models, {iters / N_MODEL:.1f} iterations each, misfit {misfit.min():.3f} to {misfit.max():.3f}"
    )
    print(
        f"effective ensemble {1 / (w**2).sum():.1f}, rms error of the weighted mean "
        f"{(mean - truth).pow(2).mean().sqrt():.1f} m/s"
    )


if __name__ == "__main__":
    main()
