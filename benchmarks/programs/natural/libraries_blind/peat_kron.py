"""Separable space-time model of water tables in a peat bog (dipwells x weeks), by marginal likelihood.

The covariance is K_space (x) K_time + noise, held as linear_operator objects, so that 60 x 104 readings never need
a dense 6240 x 6240 matrix.
"""

import math

import torch
from linear_operator import add_diagonal
from linear_operator.operators import KroneckerProductLinearOperator

torch.manual_seed(0)
torch.set_num_threads(2)
torch.set_default_dtype(torch.float64)

WELLS, WEEKS = 60, 104
STEPS = 150


def matern32(d, lengthscale):
    s = math.sqrt(3.0) * d / lengthscale
    return (1 + s) * torch.exp(-s)


def space_kernel(xy, elev, p):
    d = torch.cdist(xy, xy)
    de = (elev[:, None] - elev[None]).abs()
    k = matern32(d, p["space"].exp()) * torch.exp(-0.5 * (de / p["elev"].exp()) ** 2)
    return p["scale"].exp() * k + 1e-6 * torch.eye(len(xy))


def time_kernel(t, p):
    dt = (t[:, None] - t[None]).abs()
    season = torch.exp(-2 * torch.sin(math.pi * dt / 52.0) ** 2 / p["season"].exp() ** 2)
    weather = torch.exp(-dt / p["weather"].exp())
    mix = torch.sigmoid(p["mix"])
    return mix * season + (1 - mix) * weather + 1e-6 * torch.eye(len(t))


def covariance(xy, elev, t, p):
    kron = KroneckerProductLinearOperator(space_kernel(xy, elev, p), time_kernel(t, p))
    return add_diagonal(kron, p["noise"].exp())


@torch.compile
def neg_log_likelihood(xy, elev, t, y, p):
    resid = (y - p["mean"]).reshape(-1, 1)
    quad, logdet = covariance(xy, elev, t, p).inv_quad_logdet(inv_quad_rhs=resid, logdet=True)
    n = resid.shape[0]
    return 0.5 * (quad + logdet + n * math.log(2 * math.pi)) / n


def make_readings():
    xy = torch.rand(WELLS, 2) * 3.0
    elev = torch.sin(xy[:, 0] * 2) * 0.4 + 0.1 * torch.randn(WELLS)
    t = torch.arange(WEEKS).double()
    truth = dict(
        space=math.log(0.8),
        elev=math.log(0.5),
        scale=math.log(1.5),
        season=math.log(0.9),
        weather=math.log(4.0),
        mix=0.3,
        noise=math.log(0.05),
    )
    truth = {k: torch.tensor(v) for k, v in truth.items()}
    ls = torch.linalg.cholesky(space_kernel(xy, elev, truth))
    lt = torch.linalg.cholesky(time_kernel(t, truth))
    field = ls @ torch.randn(WELLS, WEEKS) @ lt.T
    y = -12.0 + field + truth["noise"].exp().sqrt() * torch.randn(WELLS, WEEKS)
    return xy, elev, t, y, truth


def main():
    xy, elev, t, y, truth = make_readings()
    start = dict(space=0.3, elev=0.2, scale=0.0, season=0.2, weather=0.7, mix=0.0, noise=-1.5, mean=-10.0)
    p = {k: torch.tensor([v]).requires_grad_() for k, v in start.items()}
    opt = torch.optim.Adam(p.values(), lr=0.05)
    for step in range(STEPS):
        opt.zero_grad()
        loss = neg_log_likelihood(xy, elev, t, y, p)
        loss.backward()
        opt.step()
        if step % 25 == 0 or step == STEPS - 1:
            print(f"step {step:3d}  nll per reading {loss.item():.4f}")
    for k in truth:
        print(f"  {k:8s} true {truth[k].item():6.2f}  fitted {p[k].item():6.2f}")

    # fill a fortnight's gap: posterior mean of the smooth field at the wells
    with torch.no_grad():
        cov = covariance(xy, elev, t, p)
        alpha = cov.solve((y - p["mean"]).reshape(-1, 1))
        smooth = p["mean"] + (y.reshape(-1, 1) - p["mean"] - p["noise"].exp() * alpha)
        print(
            f"mean table {smooth.mean():.2f} cm, rms residual {(smooth.view_as(y) - y).square().mean().sqrt():.3f} cm"
        )


if __name__ == "__main__":
    main()
