"""Bond-based peridynamics: a pre-cracked glass plate pulled at its upper and lower edges until the crack branches."""

import math
import time

import torch

torch.manual_seed(0)

NX, NY = 200, 80
DX = 0.1 / NX
M = 3.015
HORIZON = M * DX
E_MOD, RHO, G0 = 72e9, 2440.0, 135.0
THICK = DX
C = 9 * E_MOD / (math.pi * THICK * HORIZON**3)
S0 = math.sqrt(4 * math.pi * G0 / (9 * E_MOD * HORIZON))
DT = 0.6 * DX / math.sqrt(E_MOD / RHO)
SIGMA0 = 14e6
N_STEP = 600


def make_grid():
    x = (torch.arange(NX) + 0.5) * DX
    y = (torch.arange(NY) + 0.5) * DX - 0.5 * NY * DX
    X, Y = torch.meshgrid(x, y, indexing="ij")
    return torch.stack([X.reshape(-1), Y.reshape(-1)], -1)


def make_bonds(pos):
    idx = torch.arange(NX * NY).reshape(NX, NY)
    left, right = [], []
    for i in range(0, 4):
        for j in range(-3, 4):
            if (i, j) <= (0, 0) or i * i + j * j > M * M:
                continue
            a = idx[: NX - i, max(0, -j) : NY - max(0, j)]
            b = idx[i:, max(0, j) : NY + min(0, j)]
            left.append(a.reshape(-1))
            right.append(b.reshape(-1))
    i, j = torch.cat(left), torch.cat(right)
    # pre-crack: cut the bonds that cross y = 0 in the left half
    yi, yj = pos[i, 1], pos[j, 1]
    xm = 0.5 * (pos[i, 0] + pos[j, 0])
    cut = (yi * yj < 0) & (xm < 0.05)
    return i[~cut], j[~cut]


class Plate:
    def __init__(self):
        self.pos = make_grid()
        self.i, self.j = make_bonds(self.pos)
        self.xi = self.pos[self.j] - self.pos[self.i]
        self.len0 = self.xi.norm(dim=-1)
        # volume correction at the rim of the horizon
        self.vol = DX * DX * THICK * ((HORIZON + 0.5 * DX - self.len0) / DX).clamp(0, 1)
        self.alive = torch.ones(len(self.i))
        self.n0 = self.count(torch.ones(len(self.i)))
        self.u = torch.zeros_like(self.pos)
        self.v = torch.zeros_like(self.pos)
        self.load = torch.zeros_like(self.pos)
        edge = self.pos[:, 1].abs() > (0.5 * NY - 1) * DX
        self.load[:, 1] = torch.where(edge, torch.sign(self.pos[:, 1]) * SIGMA0 / DX, 0.0)
        self.acc = self.load / RHO

    def count(self, w):
        n = torch.zeros(len(self.pos))
        n.index_add_(0, self.i, w)
        n.index_add_(0, self.j, w)
        return n

    def damage(self):
        return 1 - self.count(self.alive) / self.n0


@torch.compile
def bond_forces(u, alive, i, j, xi, len0, vol):
    eta = u[j] - u[i]
    y = xi + eta
    length = torch.sqrt((y**2).sum(-1))
    stretch = (length - len0) / len0
    alive = alive * (stretch < S0)
    f = (C * stretch * alive * vol / length)[:, None] * y
    force = torch.zeros_like(u)
    force.index_add_(0, i, f)
    force.index_add_(0, j, -f)
    energy = 0.5 * (C * stretch**2 * len0 * alive * vol).sum()
    return force, alive, energy


@torch.compile
def verlet(u, v, acc, force, load):
    new = (force + load) / RHO
    v = v + 0.5 * DT * (acc + new)
    u = u + DT * v + 0.5 * DT * DT * new
    return u, v, new


def main():
    plate = Plate()
    print(f"{len(plate.pos)} nodes, {len(plate.i)} bonds, critical stretch {S0:.2e}, dt {DT:.2e} s")
    t0 = time.perf_counter()
    for step in range(N_STEP):
        force, plate.alive, energy = bond_forces(
            plate.u, plate.alive, plate.i, plate.j, plate.xi, plate.len0, plate.vol
        )
        plate.u, plate.v, plate.acc = verlet(plate.u, plate.v, plate.acc, force, plate.load)
        if (step + 1) % 150 == 0:
            d = plate.damage()
            tip = plate.pos[d > 0.35, 0].max().item() if bool((d > 0.35).any()) else 0.05
            print(
                f"step {step + 1:4d}  crack tip {1e3 * tip:6.2f} mm  broken {int((plate.alive == 0).sum()):6d}  "
                f"strain energy {energy.item():.4e}"
            )
    el = time.perf_counter() - t0
    print(f"{el:.2f} s, {1e3 * el / N_STEP:.2f} ms a step; max |u| {plate.u.abs().max():.3e} m")


if __name__ == "__main__":
    main()
