"""Depth to the basement of a sedimentary basin from gravity: prisms with an exponential density contrast,
smoothness-regularised, solved with L-BFGS (pytorch-minimize) for a few regularisation weights (an L-curve).
"""

import time

import torch
from torchmin import minimize

torch.set_default_dtype(torch.float64)
GAMMA = 6.674e-11 * 1e5  # mGal
NX, NY, CELL = 16, 12, 1000.0
LAYERS = 3


def prism_edges():
    x = torch.arange(NX) * CELL
    y = torch.arange(NY) * CELL
    gx, gy = torch.meshgrid(x, y, indexing="ij")
    return gx.flatten(), gx.flatten() + CELL, gy.flatten(), gy.flatten() + CELL


def stations():
    gx, gy = torch.meshgrid(torch.arange(NX) + 0.47, torch.arange(NY) + 0.53, indexing="ij")
    return gx.flatten() * CELL, gy.flatten() * CELL


def prism_gz(x1, x2, y1, y2, z1, z2):
    """Vertical attraction of right rectangular prisms at the origin (Nagy 1966), per unit density."""
    total = 0.0
    for i, x in enumerate((x1, x2)):
        for j, y in enumerate((y1, y2)):
            for k, z in enumerate((z1, z2)):
                sign = (-1) ** (i + j + k + 1)
                r = torch.sqrt(x * x + y * y + z * z)
                term = x * torch.log(y + r) + y * torch.log(x + r) - z * torch.atan2(x * y, z * r)
                total = total + sign * term
    return -GAMMA * total


def forward(depth, geometry, rho0, decay):
    """Gravity of columns whose contrast falls with depth, in LAYERS slabs of equal thickness."""
    x1, x2, y1, y2 = geometry
    g = 0.0
    for layer in range(LAYERS):
        top = depth * (layer / LAYERS) + 1.0
        bottom = depth * ((layer + 1) / LAYERS) + 1.0
        contrast = rho0 * torch.exp(-0.5 * (top + bottom) / decay)
        g = g + (contrast * prism_gz(x1, x2, y1, y2, top, bottom)).sum(-1)
    return g


@torch.compile
def objective(log_depth, geometry, observed, sigma, weight, rho0, decay):
    depth = torch.exp(log_depth)
    residual = (forward(depth, geometry, rho0, decay) - observed) / sigma
    grid = depth.view(NX, NY) / 1000
    rough = (grid[1:] - grid[:-1]).square().sum() + (grid[:, 1:] - grid[:, :-1]).square().sum()
    return residual.square().mean() + weight * rough


def true_basin():
    gx, gy = torch.meshgrid(torch.linspace(-1, 1, NX), torch.linspace(-1, 1, NY), indexing="ij")
    bowl = 2600 * torch.exp(-((gx / 0.55) ** 2 + (gy / 0.6) ** 2))
    sub = 900 * torch.exp(-(((gx - 0.5) / 0.2) ** 2 + ((gy + 0.3) / 0.25) ** 2))
    return (150 + bowl + sub).flatten()


def main():
    torch.manual_seed(13)
    x1, x2, y1, y2 = prism_edges()
    sx, sy = stations()
    geometry = tuple(e[None, :] - s[:, None] for e, s in ((x1, sx), (x2, sx), (y1, sy), (y2, sy)))
    rho0, decay, sigma = -520.0, 2400.0, 0.15
    depth = true_basin()
    observed = forward(depth, geometry, rho0, decay)
    observed = observed + sigma * torch.randn_like(observed)
    print(f"{len(depth)} prisms, anomaly {observed.min():.1f} to {observed.max():.1f} mGal")

    start = time.perf_counter()
    guess = torch.full_like(depth, 800.0).log()
    for weight in (3.0, 0.3, 0.03):

        def fun(m):
            return objective(m, geometry, observed, sigma, weight, rho0, decay)

        res = minimize(fun, guess, method="l-bfgs", max_iter=25, options=dict(gtol=1e-6))
        guess = res.x
        estimate = guess.exp()
        rms = (forward(estimate, geometry, rho0, decay) - observed).square().mean().sqrt()
        err = (estimate - depth).square().mean().sqrt()
        print(
            f"weight {weight:5.2f}: {res.nfev:3d} evaluations, objective {res.fun:.4f}, "
            f"misfit {rms:.3f} mGal, depth error {err:.0f} m"
        )
    print(
        f"deepest point {estimate.max():.0f} m (true {depth.max():.0f} m), {time.perf_counter() - start:.2f} s"
    )


if __name__ == "__main__":
    main()
