"""Cycling LETKF data assimilation on a two-dimensional Lorenz-type lattice.

Each cycle integrates an ensemble to the next analysis time, draws synthetic
observations from a nature run and updates every grid point independently in
ensemble space, with R-localisation (Hunt et al. 2007).
"""

import math
import os
import time

import torch

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1"))

SIDE = max(12, int(48 * math.sqrt(SCALE)))
MEMBERS = 32
LOCAL_OBS = 64 if SCALE >= 0.5 else 16
FORCING = 8.0
DT = 0.01
STEPS_PER_CYCLE = 5
OBS_ERROR = 1.0
INFLATION = 1.06
RADIUS = 4.0


def tendency(x):
    """Lorenz-96 advection along both axes; x is (..., side, side)."""
    zonal = (torch.roll(x, -1, -1) - torch.roll(x, 2, -1)) * torch.roll(x, 1, -1)
    merid = (torch.roll(x, -1, -2) - torch.roll(x, 2, -2)) * torch.roll(x, 1, -2)
    return 0.7 * zonal + 0.3 * merid - x + FORCING


def rk4(x):
    k1 = tendency(x)
    k2 = tendency(x + 0.5 * DT * k1)
    k3 = tendency(x + 0.5 * DT * k2)
    k4 = tendency(x + DT * k3)
    return x + DT / 6.0 * (k1 + 2 * k2 + 2 * k3 + k4)


def forecast(x):
    for _ in range(STEPS_PER_CYCLE):
        x = rk4(x)
    return x


def gaspari_cohn(r):
    near = ((((-0.25 * r + 0.5) * r + 0.625) * r - 5.0 / 3.0) * r * r) + 1.0
    far = (
        ((((r / 12.0 - 0.5) * r + 0.625) * r + 5.0 / 3.0) * r - 5.0) * r
        + 4.0
        - 2.0 / (3.0 * r.clamp_min(1e-6))
    )
    return torch.where(r < 1, near, torch.where(r < 2, far, torch.zeros_like(r)))


def build_localisation(side, n_obs, device):
    """Observation positions, and per grid point its closest observations."""
    gen = torch.Generator().manual_seed(7)
    where = torch.randperm(side * side, generator=gen)[:n_obs].sort().values
    yy, xx = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    grid = torch.stack([yy.flatten(), xx.flatten()], 1).float()
    delta = (grid[:, None] - grid[where][None]).abs()
    delta = torch.minimum(delta, side - delta)
    dist = delta.pow(2).sum(-1).sqrt()
    near, index = dist.topk(LOCAL_OBS, dim=1, largest=False)
    weight = gaspari_cohn(near / RADIUS) / OBS_ERROR**2
    return where.to(device), index.to(device), weight.to(device)


def letkf_analysis(ens, obs, where, index, weight):
    """ens (members, points), obs (n_obs) -> analysis ensemble, mean spread."""
    m = ens.shape[0]
    mean = ens.mean(0)
    pert = ens - mean
    hx = ens[:, where]
    hx_mean = hx.mean(0)
    y_pert = (hx - hx_mean).t()
    innov = obs - hx_mean

    local_y = y_pert[index]  # points, local, members
    local_d = innov[index]  # points, local
    c = local_y.transpose(1, 2) * weight[:, None, :]  # points, members, local

    eye = torch.eye(m, device=ens.device, dtype=ens.dtype)
    precision = torch.bmm(c, local_y) + eye * ((m - 1) / INFLATION)
    lam, vec = torch.linalg.eigh(precision)
    lam = lam.clamp_min(1e-4)
    cov = (vec / lam[:, None, :]) @ vec.transpose(1, 2)
    root = (vec * ((m - 1) / lam).sqrt()[:, None, :]) @ vec.transpose(1, 2)
    w_mean = torch.bmm(cov, torch.bmm(c, local_d[..., None]))
    w = root + w_mean

    analysis = mean + torch.einsum("kp,pkm->mp", pert, w)
    spread = analysis.var(0).mean().sqrt()
    return analysis, spread


def make_cycle(side):
    def cycle(ens, truth, noise, where, index, weight):
        m = ens.shape[0]
        truth = forecast(truth)
        ens = forecast(ens.view(m, side, side)).view(m, -1)
        obs = truth.flatten()[where] + OBS_ERROR * noise
        ens, spread = letkf_analysis(ens, obs, where, index, weight)
        rmse = (ens.mean(0) - truth.flatten()).pow(2).mean().sqrt()
        return ens, truth, rmse, spread

    return cycle


def sync():
    if DEVICE.startswith("cuda"):
        torch.cuda.synchronize()


def main():
    torch.manual_seed(0)
    points = SIDE * SIDE
    n_obs = max(LOCAL_OBS, points // 2)
    where, index, weight = build_localisation(SIDE, n_obs, DEVICE)
    truth = FORCING + torch.randn(SIDE, SIDE, device=DEVICE)
    for _ in range(100):
        truth = rk4(truth)
    ens = truth.flatten() + 2.0 * torch.randn(MEMBERS, points, device=DEVICE)

    cycle = torch.compile(make_cycle(SIDE), mode="max-autotune-no-cudagraphs")

    with torch.no_grad():
        for _ in range(3):
            noise = torch.randn(n_obs, device=DEVICE)
            ens, truth, rmse, spread = cycle(ens, truth, noise, where, index, weight)
        sync()
        start = time.perf_counter()
        history = []
        cycles = 30
        for _ in range(cycles):
            noise = torch.randn(n_obs, device=DEVICE)
            ens, truth, rmse, spread = cycle(ens, truth, noise, where, index, weight)
            history.append(torch.stack([rmse, spread]))
        sync()
        took = time.perf_counter() - start
    stats = torch.stack(history)[cycles // 2 :].mean(0).tolist()
    print(f"grid {SIDE}x{SIDE}  obs {n_obs}  {1e3 * took / cycles:.2f} ms/cycle")
    print(f"analysis rmse {stats[0]:.3f}  spread {stats[1]:.3f}")


if __name__ == "__main__":
    main()
