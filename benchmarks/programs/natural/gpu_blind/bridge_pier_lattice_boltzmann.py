"""Drag on a row of bridge piers in a shallow river, 2-D lattice Boltzmann (D2Q9, BGK).

Depth averaged, so take the drag as relative between pier shapes only.
    python bridge_pier_lattice_boltzmann.py --nx 3072 --ny 1024
"""

import argparse
import math
import time

import torch

E = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
W = [4 / 9] + [1 / 9] * 4 + [1 / 36] * 4
OPP = [0, 3, 4, 1, 2, 7, 8, 5, 6]


def make_river(nx, ny, n_piers, device):
    """Boolean (nx, ny) mask, True where there is concrete."""
    x = torch.arange(nx, device=device).view(-1, 1).float()
    y = torch.arange(ny, device=device).view(1, -1).float()
    mask = torch.zeros(nx, ny, dtype=torch.bool, device=device)
    radius = ny / (6 * n_piers)
    for k in range(n_piers):
        cy = (k + 0.5) * ny / n_piers + 0.1 * radius
        cx = nx / 5
        nose = ((x - cx) / 2.2) ** 2 + (y - cy) ** 2 < radius**2
        mask |= nose
    mask[:, 0] = True
    mask[:, -1] = True
    return mask, radius


def equilibrium(rho, ux, uy):
    usq = 1.5 * (ux * ux + uy * uy)
    out = []
    for (ex, ey), w in zip(E, W):
        eu = 3.0 * (ex * ux + ey * uy)
        out.append(w * rho * (1.0 + eu + 0.5 * eu * eu - usq))
    return torch.stack(out)


class River:
    def __init__(self, nx, ny, reynolds, u_in, n_piers, device):
        self.mask, radius = make_river(nx, ny, n_piers, device)
        nu = u_in * 2 * radius / reynolds
        self.omega = 1.0 / (3.0 * nu + 0.5)
        self.piers = self.mask.clone()
        self.piers[:, 0] = False
        self.piers[:, -1] = False
        self.diameter = 2 * radius * n_piers
        self.u_in = u_in
        y = torch.linspace(0, math.pi, ny, device=device)
        # slight shear so the wake does not stay symmetric for ever
        self.inflow = u_in * (1.0 + 0.01 * torch.sin(2 * y))
        ones = torch.ones(nx, ny, device=device)
        ux = self.inflow.expand(nx, ny) * (~self.mask)
        self.f = equilibrium(ones, ux, torch.zeros_like(ones))
        self.f_in = equilibrium(ones[0], self.inflow, torch.zeros_like(self.inflow))


def lbm_step(f, mask, piers, f_in, omega):
    # moments
    rho = f.sum(0)
    ux = (f[1] - f[3] + f[5] - f[6] - f[7] + f[8]) / rho
    uy = (f[2] - f[4] + f[5] + f[6] - f[7] - f[8]) / rho
    # BGK collision
    feq = equilibrium(rho, ux, uy)
    post = f - omega * (f - feq)
    # full-way bounce back in the solid
    post = torch.where(mask, f[OPP], post)
    # momentum handed to the piers
    fx = f[1] - f[3] + f[5] - f[6] - f[7] + f[8]
    drag = 2.0 * (fx * piers).sum()
    # streaming
    new = torch.stack([torch.roll(post[i], shifts=E[i], dims=(0, 1)) for i in range(9)])
    # inlet at equilibrium, outlet zero gradient
    new[:, 0, :] = f_in
    new[:, -1, :] = new[:, -2, :]
    return new, drag


@torch.compile
def advance(f, mask, piers, f_in, omega):
    """Ten time steps; the log only needs the mean drag over them."""
    total = torch.zeros((), device=f.device)
    for _ in range(10):
        f, drag = lbm_step(f, mask, piers, f_in, omega)
        total = total + drag
    return f, total / 10


@torch.no_grad()
def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--nx", type=int, default=3072)
    ap.add_argument("--ny", type=int, default=1024)
    ap.add_argument("--piers", type=int, default=3)
    ap.add_argument("--reynolds", type=float, default=220.0)
    ap.add_argument("--u", type=float, default=0.06)
    ap.add_argument("--chunks", type=int, default=2500)
    ap.add_argument("--log-every", type=int, default=250)
    args = ap.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"

    river = River(args.nx, args.ny, args.reynolds, args.u, args.piers, device)
    f = river.f
    drags = []
    t0 = time.time()
    for chunk in range(1, args.chunks + 1):
        f, drag = advance(f, river.mask, river.piers, river.f_in, river.omega)
        drags.append(drag)
        if chunk % args.log_every == 0:
            cd = torch.stack(drags[-args.log_every :]) / (0.5 * args.u**2 * river.diameter)
            mlups = chunk * 10 * args.nx * args.ny / (time.time() - t0) / 1e6
            print(
                f"step {chunk * 10:6d}  Cd {cd.mean().item():7.3f} +- {cd.std().item():6.3f}"
                f"   {mlups:8.1f} MLUPS",
                flush=True,
            )
            if not torch.isfinite(f).all():
                raise SystemExit("blew up; lower --u or --reynolds")
    print(f"mean density {f.sum(0).mean().item():.5f}, done in {time.time() - t0:.1f} s")


if __name__ == "__main__":
    main()
