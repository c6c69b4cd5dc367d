"""Generate trajectories of the shallow water equations on the rotating sphere.

These are the training pairs for a spherical neural operator: random initial
states are spun up and the prognostic fields are stored every half hour,
standardised and on the grid. Diagnostics (mass, energy, enstrophy) are kept
to throw away trajectories that blow up.
"""

import argparse
import time

import torch
from torch_harmonics.examples import ShallowWaterSolver


def build_solver(nlat, nlon, dt):
    lmax = nlat * 2 // 3  # two-thirds rule against aliasing
    solver = ShallowWaterSolver(nlat, nlon, dt, lmax=lmax, mmax=lmax, grid="legendre-gauss").float()
    solver.dudtspec = torch.compile(solver.dudtspec)
    return solver


def diagnostics(solver, uspec):
    ugrid = solver.spec2grid(uspec)
    wind = solver.getuv(uspec[1:])
    height = ugrid[0] / solver.gravity
    mass = solver.integrate_grid(height, dimensionless=True)
    energy = solver.integrate_grid(
        0.5 * height * (wind**2).sum(0) + 0.5 * solver.gravity * height**2, dimensionless=True
    )
    enstrophy = solver.integrate_grid(0.5 * (ugrid[1] + solver.coriolis) ** 2 / height, dimensionless=True)
    return mass.item(), energy.item(), enstrophy.item()


@torch.no_grad()
def run_trajectory(solver, n_frames, steps_per_frame, spinup):
    uspec = solver.random_initial_condition(mach=0.15)
    uspec = solver.timestep(uspec, spinup)
    m0, e0, _ = diagnostics(solver, uspec)

    frames = [solver.spec2grid(uspec)]
    for k in range(n_frames):
        uspec = solver.timestep(uspec, steps_per_frame)
        frames.append(solver.spec2grid(uspec))
        if (k + 1) % 3 == 0:
            m, e, z = diagnostics(solver, uspec)
            hours = (k + 1) * steps_per_frame * solver.dt / 3600
            print(
                f"  {hours:5.1f} h  mass drift {m / m0 - 1:+.2e}  "
                f"energy drift {e / e0 - 1:+.2e}  enstrophy {z:.3e}"
            )
    return torch.stack(frames)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nlat", type=int, default=96)
    parser.add_argument("--nlon", type=int, default=192)
    parser.add_argument("--dt", type=float, default=225.0)
    parser.add_argument("--frames", type=int, default=6)
    parser.add_argument("--trajectories", type=int, default=2)
    args = parser.parse_args()

    torch.manual_seed(333)
    solver = build_solver(args.nlat, args.nlon, args.dt)
    steps_per_frame = int(1800 // args.dt)

    kept = []
    start = time.perf_counter()
    for i in range(args.trajectories):
        print(f"trajectory {i}")
        traj = run_trajectory(solver, args.frames, steps_per_frame, spinup=steps_per_frame)
        if torch.isfinite(traj).all():
            kept.append(traj)
        else:
            print("  dropped: not finite")
    elapsed = time.perf_counter() - start

    data = torch.stack(kept)
    mean = data.mean(dim=(0, 1, 3, 4), keepdim=True)
    std = data.std(dim=(0, 1, 3, 4), keepdim=True)
    data = (data - mean) / std
    inputs, targets = data[:, :-1].flatten(0, 1), data[:, 1:].flatten(0, 1)
    persistence = (inputs - targets).pow(2).mean(dim=(0, 2, 3)).sqrt()

    print(f"{inputs.shape[0]} pairs of shape {tuple(inputs.shape[1:])} in {elapsed:.1f} s")
    for name, s, p in zip(("geopotential", "vorticity", "divergence"), std.flatten(), persistence):
        print(f"  {name:13s} std {s:.3e}  persistence rmse {p:.3f}")


if __name__ == "__main__":
    main()
