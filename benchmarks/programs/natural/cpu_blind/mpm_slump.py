"""2-D MLS-MPM of a weakly compressible block slumping in a box."""

import time

import torch

N = 16000
GRID = 96
DX = 1.0 / GRID
INV_DX = float(GRID)
DT = 1.2e-4
P_VOL = (0.5 * DX) ** 2
P_MASS = P_VOL * 1.0
STIFF = 400.0
VISC = 0.02
GRAVITY = 9.8
BOUND = 3


def neighbour_offsets():
    i, j = torch.meshgrid(torch.arange(3), torch.arange(3), indexing="ij")
    return torch.stack([i.reshape(-1), j.reshape(-1)], dim=-1)


@torch.compile
def mpm_step(x, v, C, J, offsets):
    base = (x * INV_DX - 0.5).long()
    fx = x * INV_DX - base.to(x.dtype)
    w = torch.stack([0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1.0) ** 2, 0.5 * (fx - 0.5) ** 2], dim=1)
    weight = w[:, offsets[:, 0], 0] * w[:, offsets[:, 1], 1]
    dpos = (offsets[None].to(x.dtype) - fx[:, None]) * DX
    cell = base[:, None] + offsets[None]
    index = (cell[..., 0] * GRID + cell[..., 1]).reshape(-1)

    # particle stress
    eye = torch.eye(2, dtype=x.dtype)
    pressure = -DT * 4.0 * STIFF * P_VOL * (J - 1.0) * INV_DX**2
    shear = -DT * 4.0 * VISC * P_VOL * INV_DX**2 * (C + C.transpose(1, 2))
    affine = pressure[:, None, None] * eye + shear + P_MASS * C

    # particles to grid
    momentum = weight[..., None] * (P_MASS * v[:, None] + torch.einsum("nij,nkj->nki", affine, dpos))
    grid_v = torch.zeros(GRID * GRID, 2, dtype=x.dtype)
    grid_m = torch.zeros(GRID * GRID, dtype=x.dtype)
    grid_v = grid_v.index_add(0, index, momentum.reshape(-1, 2))
    grid_m = grid_m.index_add(0, index, (weight * P_MASS).reshape(-1))

    # grid update
    vel = grid_v / grid_m.clamp_min(1e-10)[:, None]
    vel = vel.view(GRID, GRID, 2) - torch.tensor([0.0, DT * GRAVITY])
    ax = torch.arange(GRID)
    lo, hi = ax < BOUND, ax > GRID - BOUND
    vx, vy = vel[..., 0], vel[..., 1]
    vx = torch.where(lo[:, None], vx.clamp_min(0.0), torch.where(hi[:, None], vx.clamp_max(0.0), vx))
    vy = torch.where(lo[None], vy.clamp_min(0.0), torch.where(hi[None], vy.clamp_max(0.0), vy))
    vel = torch.stack([vx, vy], dim=-1).view(-1, 2)

    # grid to particles
    gv = vel[index].view(-1, 9, 2)
    new_v = (weight[..., None] * gv).sum(1)
    new_C = 4.0 * INV_DX**2 * torch.einsum("nki,nkj->nij", weight[..., None] * gv, dpos)
    new_x = (x + DT * new_v).clamp(2 * DX, 1 - 2 * DX)
    trace = new_C[:, 0, 0] + new_C[:, 1, 1]
    new_J = (J * (1.0 + DT * trace)).clamp(0.6, 1.4)
    return new_x, new_v, new_C, new_J


def main():
    torch.manual_seed(2)
    x = torch.rand(N, 2) * torch.tensor([0.35, 0.55]) + torch.tensor([0.08, 0.06])
    state = (x, torch.zeros(N, 2), torch.zeros(N, 2, 2), torch.ones(N))
    offsets = neighbour_offsets()

    with torch.no_grad():
        for _ in range(3):
            state = mpm_step(*state, offsets)

        steps = 200
        t0 = time.perf_counter()
        for n in range(steps):
            state = mpm_step(*state, offsets)
            if n % 50 == 49:
                x, v = state[:2]
                print(
                    f"step {n + 1:4d}  centre ({x[:, 0].mean():.4f}, {x[:, 1].mean():.4f})  "
                    f"kinetic {0.5 * P_MASS * v.square().sum():.3e}"
                )
        dt = (time.perf_counter() - t0) / steps
    print(f"run-out {state[0][:, 0].max():.4f}, J in [{state[3].min():.3f}, {state[3].max():.3f}]")
    print(f"{1e3 * dt:.2f} ms/step, {N / dt / 1e6:.2f} M particle updates/s")


if __name__ == "__main__":
    main()
