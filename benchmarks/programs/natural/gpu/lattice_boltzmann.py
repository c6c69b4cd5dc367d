"""D2Q9 lattice Boltzmann flow around a cylinder."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class LBM:
    def __init__(self, ny, nx, device, omega=1.7):
        self.omega = omega
        self.c = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
        self.w = torch.tensor([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4, device=device)
        self.cv = torch.tensor(self.c, device=device, dtype=torch.float32)
        self.opposite = torch.tensor([0, 3, 4, 1, 2, 7, 8, 5, 6], device=device)
        y, x = torch.meshgrid(torch.arange(ny, device=device), torch.arange(nx, device=device), indexing="ij")
        self.solid = (x - nx // 4) ** 2 + (y - ny // 2) ** 2 < (ny // 9) ** 2

    def equilibrium(self, rho, u):
        cu = 3 * torch.einsum("qd,dyx->qyx", self.cv, u)
        return rho * self.w[:, None, None] * (1 + cu + 0.5 * cu**2 - 1.5 * (u**2).sum(0))

    def step(self, f):
        f = torch.stack([torch.roll(f[i], (cy, cx), (0, 1)) for i, (cx, cy) in enumerate(self.c)])
        rho = f.sum(0)
        u = torch.einsum("qd,qyx->dyx", self.cv, f) / rho
        collided = f - self.omega * (f - self.equilibrium(rho, u))
        return torch.where(self.solid, f[self.opposite], collided)


def build(device, compiled):
    torch.manual_seed(0)
    ny, nx = pick(1024, 24), pick(2048, 48)
    sim = LBM(ny, nx, device)
    u0 = torch.zeros(2, ny, nx, device=device)
    u0[0] = 0.08
    state = {"f": sim.equilibrium(torch.ones(ny, nx, device=device), u0)}
    run = torch.compile(sim.step, backend=BACKEND) if compiled else sim.step

    def step():
        state["f"] = run(state["f"])
        return state["f"].sum(0)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
