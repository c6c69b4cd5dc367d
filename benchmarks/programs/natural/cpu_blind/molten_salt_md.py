"""NVE molecular dynamics of a small molten-salt box with all pair terms."""

import time

import torch

N_SIDE = 8
BOX = 11.6
CUTOFF = 5.5
SIGMA = 1.1
EPSILON = 0.8
ALPHA = 0.35
DT = 0.001


def build_system(seed=0):
    g = torch.Generator().manual_seed(seed)
    axis = torch.arange(N_SIDE) * (BOX / N_SIDE)
    pos = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), dim=-1)
    pos = pos.reshape(-1, 3)
    n = pos.shape[0]
    pos = pos + 0.02 * torch.randn(n, 3, generator=g)
    index = torch.arange(n)
    i, j, k = index // N_SIDE**2, index // N_SIDE % N_SIDE, index % N_SIDE
    charge = torch.where((i + j + k) % 2 == 0, 1.0, -1.0)
    mass = torch.where(charge > 0, 1.0, 1.55)[:, None]
    vel = 0.5 * torch.randn(n, 3, generator=g) / mass.sqrt()
    vel = vel - (vel * mass).sum(0) / mass.sum()
    return pos, vel, charge, mass


@torch.compile
def forces_and_energy(pos, charge):
    disp = pos[:, None, :] - pos[None, :, :]
    disp = disp - BOX * torch.round(disp / BOX)
    r2 = disp.square().sum(dim=-1)
    n = pos.shape[0]
    self_pair = torch.eye(n, dtype=torch.bool)
    active = (r2 < CUTOFF * CUTOFF) & ~self_pair
    r2 = torch.where(active, r2, torch.ones_like(r2))
    r = torch.sqrt(r2)
    inv_r2 = 1.0 / r2

    s6 = (SIGMA * SIGMA * inv_r2) ** 3
    lj = 4.0 * EPSILON * (s6 * s6 - s6)
    lj_f = 24.0 * EPSILON * (2.0 * s6 * s6 - s6) * inv_r2

    qq = charge[:, None] * charge[None, :]
    screen = torch.exp(-ALPHA * r)
    coul = qq * screen / r
    coul_f = coul * (1.0 / r + ALPHA) / r

    zero = torch.zeros_like(r)
    energy = 0.5 * torch.where(active, lj + coul, zero).sum()
    scale = torch.where(active, lj_f + coul_f, zero)
    force = (scale[:, :, None] * disp).sum(dim=1)
    return force, energy


def verlet(pos, vel, force, charge, mass):
    vel = vel + 0.5 * DT * force / mass
    pos = torch.remainder(pos + DT * vel, BOX)
    force, energy = forces_and_energy(pos, charge)
    vel = vel + 0.5 * DT * force / mass
    return pos, vel, force, energy


def main():
    torch.manual_seed(0)
    torch.set_num_threads(2)
    pos, vel, charge, mass = build_system()
    with torch.no_grad():
        force, energy = forces_and_energy(pos, charge)
        for _ in range(5):
            pos, vel, force, energy = verlet(pos, vel, force, charge, mass)
        kinetic = 0.5 * (mass * vel.square()).sum()
        e0 = (energy + kinetic).item()

        steps = 60
        start = time.perf_counter()
        for _ in range(steps):
            pos, vel, force, energy = verlet(pos, vel, force, charge, mass)
        elapsed = time.perf_counter() - start
        kinetic = 0.5 * (mass * vel.square()).sum()
        e1 = (energy + kinetic).item()

    print(f"atoms {pos.shape[0]}  energy drift {abs(e1 - e0) / abs(e0):.2e}")
    print(f"time per step: {elapsed / steps * 1e3:.3f} ms")
    print(f"checksum: {e1:.3f} {force.abs().sum().item():.3f}")


if __name__ == "__main__":
    main()
