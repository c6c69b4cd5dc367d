"""D3(BJ) dispersion in guest molecules relaxing inside a model carbon slit pore (tad-dftd3).

A padded batch of guests of different sizes is relaxed by damped dynamics; the forces come from autograd on the
dispersion energy plus a short-range repulsion.
"""

import time

import tad_dftd3 as d3
import torch

torch.manual_seed(21)
BOHR = 1.8897259886
PARAM = {k: torch.tensor(v) for k, v in dict(s6=1.0, s8=1.9889, a1=0.3981, a2=4.4211, s9=0.0).items()}


def slit_pore(cells=4, width=7.0):
    """Two graphene patches (numbers, positions in Bohr)."""
    a = 2.46
    basis = torch.tensor([[0.0, 0.0], [a / 2, a / 2 / 3**0.5]])
    lattice = torch.tensor([[a, 0.0], [a / 2, a * 3**0.5 / 2]])
    ij = torch.cartesian_prod(torch.arange(cells), torch.arange(cells)).float()
    xy = ((ij @ lattice)[:, None] + basis).reshape(-1, 2)
    xy = xy - xy.mean(0)
    sheets = [torch.cat([xy, torch.full((len(xy), 1), z)], 1) for z in (-width / 2, width / 2)]
    pos = torch.cat(sheets) * BOHR
    return torch.full((len(pos),), 6), pos


def guest(kind):
    if kind == "CO2":
        return [6, 8, 8], [[0, 0, 0], [1.16, 0, 0], [-1.16, 0, 0]]
    if kind == "CH4":
        s = 1.09 / 3**0.5
        return [6, 1, 1, 1, 1], [[0, 0, 0], [s, s, s], [s, -s, -s], [-s, s, -s], [-s, -s, s]]
    if kind == "N2":
        return [7, 7], [[-0.55, 0, 0], [0.55, 0, 0]]
    return [16, 1, 1], [[0, 0, 0], [0.96, 0.93, 0], [-0.96, 0.93, 0]]  # H2S


def build_batch(kinds):
    wall_z, wall_r = slit_pore()
    n_wall = len(wall_z)
    n_max = n_wall + 5
    numbers = torch.zeros(len(kinds), n_max, dtype=torch.long)
    positions = torch.zeros(len(kinds), n_max, 3)
    for b, kind in enumerate(kinds):
        z, r = guest(kind)
        q, _ = torch.linalg.qr(torch.randn(3, 3))
        r = (torch.tensor(r, dtype=torch.float) @ q + torch.randn(3) * torch.tensor([0.8, 0.8, 0.3])) * BOHR
        numbers[b, : n_wall + len(z)] = torch.cat([wall_z, torch.tensor(z)])
        positions[b, : n_wall + len(z)] = torch.cat([wall_r, r])
    return numbers, positions, n_wall


def repulsion(numbers, positions, n_wall):
    """Born-Mayer wall-guest repulsion."""
    real = (numbers[:, n_wall:] > 0).float()
    d = torch.cdist(positions[:, n_wall:], positions[:, :n_wall])
    return (real[..., None] * 40.0 * torch.exp(-d * 1.9)).sum((1, 2))


def energy(numbers, positions, n_wall):
    disp = d3.dftd3(numbers, positions, PARAM).sum(-1)
    return disp + repulsion(numbers, positions, n_wall)


def rigid_step(positions, velocity, forces, numbers, n_wall, dt):
    """The guest moves as a rigid body by its centre only; the walls are fixed."""
    real = (numbers[:, n_wall:] > 0).float()[..., None]
    net = (forces[:, n_wall:] * real).sum(1, keepdim=True)
    velocity = 0.85 * velocity + dt * net
    moved = positions.clone()
    moved[:, n_wall:] = moved[:, n_wall:] + velocity * real
    return moved, velocity


def main():
    kinds = ["CO2", "CH4", "N2", "H2S"] * 4
    numbers, positions, n_wall = build_batch(kinds)
    total_energy = torch.compile(energy)
    velocity = torch.zeros(len(kinds), 1, 3)
    reference = energy(
        numbers,
        torch.where((torch.arange(numbers.shape[1]) >= n_wall)[None, :, None], positions + 60.0, positions),
        n_wall,
    )
    start = time.perf_counter()
    for step in range(100):
        pos = positions.detach().requires_grad_()
        e = total_energy(numbers, pos, n_wall)
        (grad,) = torch.autograd.grad(e.sum(), pos)
        positions, velocity = rigid_step(positions, velocity, -grad, numbers, n_wall, dt=6.0)
        if step % 25 == 0 or step == 99:
            bind = (e.detach() - reference) * 627.509
            print(
                f"step {step:3d}  mean interaction {bind.mean():8.3f} kcal/mol  |g| {grad[:, n_wall:].norm():.2e}"
            )
    print(f"{time.perf_counter() - start:.2f} s")
    for kind in ("CO2", "CH4", "N2", "H2S"):
        pick = torch.tensor([i for i, k in enumerate(kinds) if k == kind])
        print(f"{kind:4s} binding {bind[pick].mean():7.3f} +- {bind[pick].std():.3f} kcal/mol")


if __name__ == "__main__":
    main()
