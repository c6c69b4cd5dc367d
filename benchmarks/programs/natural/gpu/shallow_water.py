"""Shallow-water equations on a grid, several explicit steps with periodic edges."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def ddx(f, dx):
    return (torch.roll(f, -1, -1) - torch.roll(f, 1, -1)) / (2 * dx)


def ddy(f, dx):
    return (torch.roll(f, -1, -2) - torch.roll(f, 1, -2)) / (2 * dx)


def laplace(f, dx):
    return (
        torch.roll(f, 1, -1) + torch.roll(f, -1, -1) + torch.roll(f, 1, -2) + torch.roll(f, -1, -2) - 4 * f
    ) / dx**2


def tendency(h, u, v, dx, g=9.81, nu=0.1, f0=1e-2):
    dh = -ddx(h * u, dx) - ddy(h * v, dx)
    du = -u * ddx(u, dx) - v * ddy(u, dx) - g * ddx(h, dx) + f0 * v + nu * laplace(u, dx)
    dv = -u * ddx(v, dx) - v * ddy(v, dx) - g * ddy(h, dx) - f0 * u + nu * laplace(v, dx)
    return dh, du, dv


def rk2(h, u, v, dx, dt, steps=3):
    for _ in range(steps):
        a = tendency(h, u, v, dx)
        hm, um, vm = h + dt / 2 * a[0], u + dt / 2 * a[1], v + dt / 2 * a[2]
        b = tendency(hm, um, vm, dx)
        h, u, v = h + dt * b[0], u + dt * b[1], v + dt * b[2]
    return h, u, v


def build(device, compiled):
    torch.manual_seed(0)
    n = pick(2048, 32)
    grid = torch.linspace(-1, 1, n, device=device)
    bump = torch.exp(-40 * (grid[:, None] ** 2 + grid[None] ** 2))
    state = [1 + 0.1 * bump, torch.zeros(n, n, device=device), torch.zeros(n, n, device=device)]
    run = torch.compile(rk2, backend=BACKEND) if compiled else rk2

    def step():
        state[:] = run(*state, 1.0, 0.05)
        return state[0]

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
