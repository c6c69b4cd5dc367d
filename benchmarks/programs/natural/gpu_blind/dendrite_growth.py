"""Phase-field solidification (Kobayashi 1993): an ensemble of crystals of different anisotropy and latent heat."""

import math
import os
from dataclasses import dataclass

import torch

SMOKE = os.environ.get("SMOKE") == "1"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@dataclass
class Params:
    n: int = 64 if SMOKE else 1024
    dx: float = 0.03
    dt: float = 1.0e-4
    tau: float = 3.0e-4
    eps_bar: float = 0.010
    alpha: float = 0.9
    gamma: float = 10.0
    noise: float = 0.01
    steps: int = 40 if SMOKE else 3000


def ddx(f, dx):
    return (torch.roll(f, -1, -1) - torch.roll(f, 1, -1)) / (2 * dx)


def ddy(f, dx):
    return (torch.roll(f, -1, -2) - torch.roll(f, 1, -2)) / (2 * dx)


def lap(f, dx):
    # nine-point, less grid anisotropy
    n, s = torch.roll(f, 1, -2), torch.roll(f, -1, -2)
    e, w = torch.roll(f, -1, -1), torch.roll(f, 1, -1)
    diag = torch.roll(n, 1, -1) + torch.roll(n, -1, -1) + torch.roll(s, 1, -1) + torch.roll(s, -1, -1)
    return (4 * (n + s + e + w) + diag - 20 * f) / (6 * dx * dx)


def make_step(p: Params, delta, fold, latent, theta0):
    """delta/fold/latent/theta0: (E,1,1) tensors of the ensemble members."""

    def step(phi, temp):
        px, py = ddx(phi, p.dx), ddy(phi, p.dx)
        theta = torch.atan2(py, px)
        arg = fold * (theta - theta0)
        eps = p.eps_bar * (1 + delta * torch.cos(arg))
        deps = -p.eps_bar * fold * delta * torch.sin(arg)
        cross1 = ddy(eps * deps * px, p.dx)
        cross2 = ddx(eps * deps * py, p.dx)
        grad_e2 = ddx(eps**2, p.dx) * px + ddy(eps**2, p.dx) * py
        m = p.alpha / math.pi * torch.atan(p.gamma * (1.0 - temp))
        react = phi * (1 - phi) * (phi - 0.5 + m)
        jitter = p.noise * phi * (1 - phi) * (torch.rand_like(phi) - 0.5)
        rate = (cross1 - cross2 + eps**2 * lap(phi, p.dx) + grad_e2 + react + jitter) / p.tau
        new_phi = phi + p.dt * rate
        new_temp = temp + p.dt * lap(temp, p.dx) + latent * (new_phi - phi)
        return new_phi, new_temp

    return step


def perimeter(phi):
    solid = phi > 0.5
    return (solid != torch.roll(solid, 1, -1)).sum((-1, -2)) + (solid != torch.roll(solid, 1, -2)).sum(
        (-1, -2)
    )


def main():
    p = Params()
    torch.manual_seed(9)
    col = lambda *v: torch.tensor(v, device=DEVICE).view(-1, 1, 1)
    delta = col(0.02, 0.04, 0.04, 0.05)
    fold = col(4.0, 4.0, 6.0, 6.0)
    latent = col(1.2, 1.6, 1.8, 2.0)
    theta0 = col(0.0, 0.2, 0.0, 0.3)

    ax = torch.arange(p.n, device=DEVICE) - p.n // 2
    r2 = ax.view(-1, 1) ** 2 + ax.view(1, -1) ** 2
    phi = (r2 < 25).float().expand(4, -1, -1).clone()
    temp = torch.zeros_like(phi)

    step = torch.compile(make_step(p, delta, fold, latent, theta0))
    history = []
    for k in range(p.steps):
        phi, temp = step(phi, temp)
        if (k + 1) % (p.steps // 10) == 0:
            # solid fraction and reach of the longest arm
            frac = (phi > 0.5).float().mean((-1, -2))
            reach = torch.where(phi > 0.5, r2, 0).amax((-1, -2)).sqrt()
            history.append(torch.stack([frac, reach]))
    hist = torch.stack(history).cpu()
    for i in range(4):
        speed = (hist[-1, 1, i] - hist[len(hist) // 2, 1, i]) * p.dx / (p.dt * p.steps / 2)
        print(
            f"delta {delta[i].item():.3f} fold {fold[i].item():.0f} K {latent[i].item():.1f}: solid "
            f"{hist[-1, 0, i]:.5f} reach {hist[-1, 1, i]:.1f} cells, tip speed {speed:.3f}, "
            f"perimeter {perimeter(phi)[i].item()}"
        )
    print(f"heat {temp.mean().item():.6f} max T {temp.max().item():.4f}")


if __name__ == "__main__":
    main()
