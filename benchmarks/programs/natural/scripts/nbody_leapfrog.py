"""Direct-sum gravity, kick-drift-kick, energy each ten steps."""

import numpy as np
import torch

G, EPS = 6.674e-3, 0.05


@torch.compile
def accelerations(pos, mass):
    d = pos[None, :, :] - pos[:, None, :]
    r2 = (d**2).sum(-1) + EPS**2
    inv = r2**-1.5
    return G * (d * (mass[None, :] * inv)[..., None]).sum(1)


@torch.compile
def energy(pos, vel, mass):
    kinetic = 0.5 * (mass * (vel**2).sum(-1)).sum()
    d = pos[None] - pos[:, None]
    r = torch.sqrt((d**2).sum(-1) + EPS**2)
    u = -G * mass[None] * mass[:, None] / r
    return kinetic + torch.triu(u, diagonal=1).sum()


def main(n=768, steps=60, dt=1e-3):
    rng = np.random.default_rng(1)
    pos = torch.tensor(rng.normal(size=(n, 3)))
    vel = torch.tensor(rng.normal(size=(n, 3)) * 0.1)
    mass = torch.tensor(rng.uniform(0.5, 1.5, n))
    acc = accelerations(pos, mass)
    for step in range(steps):
        vel = vel + 0.5 * dt * acc
        pos = pos + dt * vel
        acc = accelerations(pos, mass)
        vel = vel + 0.5 * dt * acc
        if step % 10 == 0:
            print(step, energy(pos, vel, mass).item())


main()
