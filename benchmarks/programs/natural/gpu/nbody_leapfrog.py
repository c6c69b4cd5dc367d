"""All-pairs gravity with softening, leapfrog steps, energy at the end."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def acceleration(pos, mass, eps=0.05):
    d = pos[None, :, :] - pos[:, None, :]
    r2 = (d * d).sum(-1) + eps**2
    return (d * (mass[None, :] * r2**-1.5)[..., None]).sum(1)


def leapfrog(pos, vel, mass, dt, steps=2):
    for _ in range(steps):
        vel = vel + 0.5 * dt * acceleration(pos, mass)
        pos = pos + dt * vel
        vel = vel + 0.5 * dt * acceleration(pos, mass)
    kinetic = 0.5 * (mass * (vel**2).sum(-1)).sum()
    dist = torch.cdist(pos, pos).clamp(min=1e-3)
    potential = -0.5 * (mass[:, None] * mass[None] / dist).triu(1).sum()
    return pos, vel, kinetic + potential


def build(device, compiled):
    torch.manual_seed(0)
    n = pick(6000, 32)
    state = [torch.randn(n, 3, device=device), 0.1 * torch.randn(n, 3, device=device)]
    mass = torch.rand(n, device=device) / n
    run = torch.compile(leapfrog, backend=BACKEND) if compiled else leapfrog

    def step():
        pos, vel, energy = run(*state, mass, 0.01)
        state[:] = [pos, vel]
        return energy

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
