"""Reaction-diffusion with in-place interior updates of two fields."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def step_fields(u, v, du=0.16, dv=0.08, feed=0.035, kill=0.065, steps=4):
    for _ in range(steps):
        lu = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
        lv = v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:] - 4 * v[1:-1, 1:-1]
        uc, vc = u[1:-1, 1:-1], v[1:-1, 1:-1]
        uvv = uc * vc * vc
        nu = uc + du * lu - uvv + feed * (1 - uc)
        nv = vc + dv * lv + uvv - (feed + kill) * vc
        u[1:-1, 1:-1] = nu
        v[1:-1, 1:-1] = nv
        for f in (u, v):
            f[0], f[-1] = f[-2], f[1]
            f[:, 0], f[:, -1] = f[:, -2], f[:, 1]
    return v.sum()


def build(device, compiled):
    torch.manual_seed(0)
    n = pick(512, 16)
    u, v = torch.ones(n, n, device=device), torch.zeros(n, n, device=device)
    v[n // 3 : n // 2, n // 3 : n // 2] = 0.5
    u -= 0.5 * v
    run = torch.compile(step_fields, backend=BACKEND) if compiled else step_fields

    def step():
        return run(u, v)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
