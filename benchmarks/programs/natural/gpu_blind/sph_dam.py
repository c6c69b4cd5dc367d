"""2-D dam break with weakly compressible SPH. Neighbours from a sorted cell grid, adaptive time step."""

import math
import os

import torch

SMOKE = os.environ.get("SMOKE") == "1"
dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")

NX, NY = (24, 20) if SMOKE else (300, 200)  # fluid particles of the column
DX = 1.0 / NY
H = 1.3 * DX
CELL = 2 * H  # kernel support
BOX_W, BOX_H = 4.0, 2.0
CAP = 12  # particles looked at per cell
RHO0, G, C0 = 1000.0, 9.81, 10 * math.sqrt(2 * 9.81)
MASS = RHO0 * DX * DX
STEPS = 30 if SMOKE else 1500


class Tank:
    def __init__(self):
        ix, iy = torch.meshgrid(torch.arange(NX), torch.arange(NY), indexing="ij")
        g = torch.Generator().manual_seed(1)
        pos = torch.stack([(ix.flatten() + 0.5) * DX, (iy.flatten() + 0.5) * DX], 1)
        pos = pos + 0.02 * DX * torch.randn(pos.shape, generator=g)
        self.pos = pos.float().to(dev)
        self.vel = torch.zeros_like(self.pos)
        depth = 1.0 - self.pos[:, 1]
        self.rho = RHO0 * (1 + RHO0 * G * depth * 7 / (RHO0 * C0**2)).clamp_min(1.0) ** (1 / 7)
        self.time = 0.0

    def max_speed(self):
        return self.vel.norm(dim=1).max().item()


GX, GY = int(BOX_W / CELL) + 3, int(BOX_H * 2 / CELL) + 3


def cell_table(pos):
    """Sort particles by cell; returns order and the first slot of every cell."""
    c = (pos / CELL).floor().long() + 1
    cx, cy = c[:, 0].clamp(0, GX - 1), c[:, 1].clamp(0, GY - 1)
    key = cy * GX + cx
    skey, order = torch.sort(key)
    first = torch.searchsorted(skey, torch.arange(GX * GY + 1, device=pos.device))
    return order, first, cx, cy


def neighbour_list(pos):
    order, first, cx, cy = cell_table(pos)
    n = pos.shape[0]
    slots = torch.arange(CAP, device=pos.device)
    cand, valid = [], []
    for oy in (-1, 0, 1):
        for ox in (-1, 0, 1):
            x, y = cx + ox, cy + oy
            inside = (x >= 0) & (x < GX) & (y >= 0) & (y < GY)
            k = (y * GX + x).clamp(0, GX * GY - 1)
            s = first[k].unsqueeze(1) + slots
            valid.append((s < first[k + 1].unsqueeze(1)) & inside.unsqueeze(1))
            cand.append(order[s.clamp_max(n - 1)])
    return torch.cat(cand, 1), torch.cat(valid, 1)


def grad_w(r, q):
    """Wendland C2 kernel in 2-D: dW/dr / r."""
    ad = 7 / (4 * math.pi * H * H)
    return ad * (-5 * (1 - q / 2).clamp_min(0) ** 3) / (H * H)


def pressure(rho):
    return (RHO0 * C0**2 / 7) * ((rho / RHO0) ** 7 - 1)


def walls(pos, vel):
    """Penalty-free reflecting walls with some loss."""
    x, y = pos.unbind(1)
    u, v = vel.unbind(1)
    u = torch.where((x < 0.5 * DX) & (u < 0) | (x > BOX_W - 0.5 * DX) & (u > 0), -0.3 * u, u)
    v = torch.where((y < 0.5 * DX) & (v < 0), -0.3 * v, v)
    x = x.clamp(0.5 * DX, BOX_W - 0.5 * DX)
    y = y.clamp(0.5 * DX, 2 * BOX_H)
    return torch.stack([x, y], 1), torch.stack([u, v], 1)


@torch.compile
def step(pos, vel, rho, dt):
    nbr, ok = neighbour_list(pos)
    d = pos.unsqueeze(1) - pos[nbr]
    r2 = d.pow(2).sum(-1)
    r = r2.sqrt()
    q = r / H
    ok = ok & (q < 2) & (r2 > 0)
    gw = torch.where(ok, grad_w(r, q), 0.0)
    dv = vel.unsqueeze(1) - vel[nbr]
    rho_j = rho[nbr]
    vr = (dv * d).sum(-1)
    p = pressure(rho)
    # continuity with delta-SPH diffusion
    drho = MASS * (vr * gw).sum(1)
    diff = 2 * (rho_j - rho.unsqueeze(1)) * r2 / (r2 + 0.01 * H * H)
    drho = drho - 0.1 * H * C0 * (diff * gw * MASS / rho_j).sum(1)
    # momentum with artificial viscosity
    mu = H * vr / (r2 + 0.01 * H * H)
    visc = torch.where(vr < 0, -0.05 * C0 * mu / (0.5 * (rho.unsqueeze(1) + rho_j)), 0.0)
    term = (p / rho**2).unsqueeze(1) + p[nbr] / rho_j**2 + visc
    acc = -MASS * ((term * gw).unsqueeze(-1) * d).sum(1)
    acc = torch.stack([acc[:, 0], acc[:, 1] - G], 1)
    vel = vel + dt * acc
    rho = (rho + dt * drho).clamp(0.9 * RHO0, 1.1 * RHO0)
    pos, vel = walls(pos + dt * vel, vel)
    return pos, vel, rho, ok.sum(1)


def main():
    tank = Tank()
    fronts = []
    for k in range(STEPS):
        dt = 0.25 * H / (C0 + tank.max_speed())
        tank.pos, tank.vel, tank.rho, count = step(tank.pos, tank.vel, tank.rho, dt)
        tank.time += dt
        if (k + 1) % max(1, STEPS // 6) == 0:
            front = tank.pos[:, 0].max().item()
            fronts.append((tank.time, front))
            ke = 0.5 * MASS * tank.vel.pow(2).sum().item()
            print(
                f"t={tank.time:.4f} front={front:.4f} kinetic={ke:.4f} "
                f"neighbours={count.float().mean().item():.2f} rho max={tank.rho.max().item():.2f}"
            )
    pe = MASS * G * tank.pos[:, 1].double().sum().item()
    print(f"potential energy {pe:.4f}, last front {fronts[-1][1]:.4f} at t={fronts[-1][0]:.4f}")


if __name__ == "__main__":
    main()
