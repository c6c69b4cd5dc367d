"""Monte Carlo option pricing under Heston with antithetic paths."""

import math
import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def price(
    strikes,
    generator_free_paths=20000,
    steps=16,
    s0=100.0,
    v0=0.04,
    r=0.02,
    kappa=1.5,
    theta=0.04,
    xi=0.4,
    rho=-0.6,
    horizon=1.0,
):
    dt = horizon / steps
    n = generator_free_paths
    s = torch.full((2 * n,), s0)
    v = torch.full((2 * n,), v0)
    running = torch.zeros(2 * n)
    for _ in range(steps):
        z1, z2 = torch.randn(n), torch.randn(n)
        z1, z2 = torch.cat([z1, -z1]), torch.cat([z2, -z2])
        zv = rho * z1 + math.sqrt(1 - rho * rho) * z2
        vp = v.clamp(min=0)
        s = s * torch.exp((r - 0.5 * vp) * dt + torch.sqrt(vp * dt) * z1)
        v = v + kappa * (theta - vp) * dt + xi * torch.sqrt(vp * dt) * zv
        running = running + s
    average = running / steps
    payoff = (average[None] - strikes[:, None]).clamp(min=0)
    values = math.exp(-r * horizon) * payoff.mean(1)
    return values, payoff.std(1) / math.sqrt(2 * n)


def build(device, compiled):
    torch.manual_seed(0)
    strikes = torch.linspace(80, 120, 9, device=device)
    paths = pick(20000, 100)
    run = torch.compile(price, backend=BACKEND) if compiled else price

    def step():
        return run(strikes, paths)[0]

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
