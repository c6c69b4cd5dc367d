"""Softened gravitational N-body with kick-drift-kick leapfrog."""

import time

import torch

N = 1400
G = 1.0
SOFT = 0.05
DT = 0.002


def initial_conditions(n, seed=3):
    g = torch.Generator().manual_seed(seed)
    r = torch.rand(n, generator=g).clamp(min=1e-3) ** 0.5
    phi = torch.rand(n, generator=g) * 6.2831853
    x, y = r * torch.cos(phi), r * torch.sin(phi)
    z = 0.05 * torch.randn(n, generator=g)
    speed = torch.sqrt(G * r.clamp(min=0.05))
    vx, vy = -speed * torch.sin(phi), speed * torch.cos(phi)
    vz = 0.01 * torch.randn(n, generator=g)
    mass = torch.full((n,), 1.0 / n)
    return torch.stack([x, y, z]), torch.stack([vx, vy, vz]), mass


def acceleration(pos, mass):
    x, y, z = pos[0], pos[1], pos[2]
    dx = x[None, :] - x[:, None]
    dy = y[None, :] - y[:, None]
    dz = z[None, :] - z[:, None]
    r2 = dx * dx + dy * dy + dz * dz + SOFT * SOFT
    inv_r = torch.rsqrt(r2)
    w = G * mass[None, :] * inv_r * inv_r * inv_r
    ax = (w * dx).sum(dim=1)
    ay = (w * dy).sum(dim=1)
    az = (w * dz).sum(dim=1)
    return torch.stack([ax, ay, az])


@torch.compile
def leapfrog(pos, vel, acc, mass):
    vel = vel + 0.5 * DT * acc
    pos = pos + DT * vel
    acc = acceleration(pos, mass)
    vel = vel + 0.5 * DT * acc
    return pos, vel, acc


def energy(pos, vel, mass):
    ke = 0.5 * (mass * (vel * vel).sum(0)).sum()
    d = pos[:, None, :] - pos[:, :, None]
    inv = torch.rsqrt((d * d).sum(0) + SOFT * SOFT)
    inv.fill_diagonal_(0)
    pe = -0.5 * G * (mass[:, None] * mass[None, :] * inv).sum()
    return (ke + pe).item()


def main():
    pos, vel, mass = initial_conditions(N)
    acc = acceleration(pos, mass)
    e0 = energy(pos, vel, mass)

    for _ in range(5):
        pos, vel, acc = leapfrog(pos, vel, acc, mass)

    steps = 50
    tic = time.perf_counter()
    for _ in range(steps):
        pos, vel, acc = leapfrog(pos, vel, acc, mass)
    toc = time.perf_counter()

    e1 = energy(pos, vel, mass)
    print(f"N = {N}, {steps} steps")
    print(f"energy {e0:.6f} -> {e1:.6f} (drift {abs(e1 - e0) / abs(e0):.2e})")
    print(f"time per step: {(toc - tic) / steps * 1e3:.2f} ms")
    print(f"checksum: {pos.abs().double().sum().item():.5f} {vel.abs().double().sum().item():.5f}")


if __name__ == "__main__":
    main()
