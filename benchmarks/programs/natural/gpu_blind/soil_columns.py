"""Implicit soil heat diffusion for a land-surface model.

Each land point owns a column of soil layers; each hour the surface is forced
with a ground heat flux and the diffusion equation is stepped with backward
Euler.  The tridiagonal system of every column is solved with the Thomas
algorithm, all columns at once.
"""

import math
import time

import torch

DEVICE = "cuda"


class SoilGrid:
    """Layer thicknesses grow with depth, as in most land schemes."""

    def __init__(self, layers=16, top=0.02, growth=1.28):
        dz = top * growth ** torch.arange(layers, dtype=torch.float64)
        node = torch.cumsum(dz, 0) - 0.5 * dz
        self.layers = layers
        self.dz = dz.float().to(DEVICE)
        self.gap = (node[1:] - node[:-1]).float().to(DEVICE)
        self.depth = node.float().to(DEVICE)


class SoilHeat:
    def __init__(self, grid, columns, dt=3600.0, seed=3):
        g = torch.Generator(device=DEVICE).manual_seed(seed)
        n = grid.layers
        self.grid = grid
        self.dt = dt
        sand = torch.rand(columns, device=DEVICE, generator=g)
        wet = 0.1 + 0.3 * torch.rand(n, columns, device=DEVICE, generator=g)
        self.heat_cap = (1.2e6 + 0.5e6 * sand) * (1 - wet) + 4.18e6 * wet
        self.conduct = 0.25 + 1.6 * wet * (0.5 + sand)

    def coefficients(self, temp, flux):
        """Sub, main and super diagonal and the right-hand side, [layer, col]."""
        k_face = 2.0 / (1.0 / self.conduct[1:] + 1.0 / self.conduct[:-1])
        k_face = k_face / self.grid.gap[:, None]
        scale = self.dt / (self.heat_cap * self.grid.dz[:, None])
        zero = torch.zeros_like(temp[:1])
        lower = -scale * torch.cat([zero, k_face])
        upper = -scale * torch.cat([k_face, zero])
        diag = 1.0 - lower - upper
        rhs = temp + scale * torch.cat([flux[None], zero.expand(self.grid.layers - 1, -1)])
        return lower, diag, upper, rhs


def thomas(lower, diag, upper, rhs):
    n = rhs.shape[0]
    cp = torch.empty_like(rhs)
    dp = torch.empty_like(rhs)
    cp[0] = upper[0] / diag[0]
    dp[0] = rhs[0] / diag[0]
    for k in range(1, n):
        w = 1.0 / (diag[k] - lower[k] * cp[k - 1])
        cp[k] = upper[k] * w
        dp[k] = (rhs[k] - lower[k] * dp[k - 1]) * w
    x = torch.empty_like(rhs)
    x[n - 1] = dp[n - 1]
    for k in range(n - 2, -1, -1):
        x[k] = dp[k] - cp[k] * x[k + 1]
    return x


solve_columns = torch.compile(thomas)


@torch.no_grad()
def main():
    torch.manual_seed(0)
    columns = 2_000_000
    grid = SoilGrid()
    soil = SoilHeat(grid, columns)
    lat = torch.linspace(-1.2, 1.3, columns, device=DEVICE)
    mean = 273.15 + 27.0 * torch.cos(lat)
    temp = mean.expand(grid.layers, columns).contiguous()

    for hour in range(28):
        sun = max(0.0, math.sin(math.pi * ((hour % 24) - 6) / 12.0))
        flux = 220.0 * sun * torch.cos(lat).clamp_min(0) - 60.0
        system = soil.coefficients(temp, flux)
        torch.cuda.synchronize()
        t0 = time.perf_counter()
        temp = solve_columns(*system)
        torch.cuda.synchronize()
        ms = (time.perf_counter() - t0) * 1e3
        print(
            f"hour {hour:2d}: solve {ms:8.3f} ms   "
            f"skin {temp[0].mean().item() - 273.15:7.3f} C   "
            f"deep {temp[-1].mean().item() - 273.15:7.3f} C"
        )

    lower, diag, upper, rhs = system
    lhs = diag * temp
    lhs[1:] += lower[1:] * temp[:-1]
    lhs[:-1] += upper[:-1] * temp[1:]
    print(f"largest residual of the last solve: {(lhs - rhs).abs().max().item():.2e} K")
    print("mean profile:", [round(v - 273.15, 2) for v in temp.mean(1).tolist()])


if __name__ == "__main__":
    main()
