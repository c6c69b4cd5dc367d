"""D2Q9 lattice Boltzmann flow past a cylinder."""

import os
import time

import torch

device = os.environ.get("DEVICE", "cuda")
SCALE = float(os.environ.get("SCALE", "1"))

NY = max(32, int(1024 * SCALE))
NX = max(64, int(2048 * SCALE))
U_IN = 0.08
RE = 200.0

C = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
W = [4 / 9] + [1 / 9] * 4 + [1 / 36] * 4
OPPOSITE = [0, 3, 4, 1, 2, 7, 8, 5, 6]

radius = NY / 9
nu = U_IN * 2 * radius / RE
OMEGA = 1.0 / (3.0 * nu + 0.5)


def equilibrium(rho, ux, uy):
    usq = 1.5 * (ux * ux + uy * uy)
    out = []
    for (cx, cy), w in zip(C, W):
        cu = 3.0 * (cx * ux + cy * uy)
        out.append(w * rho * (1.0 + cu + 0.5 * cu * cu - usq))
    return torch.stack(out)


def macroscopic(f):
    rho = f.sum(0)
    ux = (f[1] + f[5] + f[8] - f[3] - f[6] - f[7]) / rho
    uy = (f[2] + f[5] + f[6] - f[4] - f[7] - f[8]) / rho
    return rho, ux, uy


@torch.compile
def lbm_step(f, solid, inlet_profile):
    # streaming
    f = torch.stack([torch.roll(f[i], shifts=(cy, cx), dims=(0, 1)) for i, (cx, cy) in enumerate(C)])

    # outlet: copy the last-but-one column for the incoming directions
    for i in (3, 6, 7):
        f[i, :, -1] = f[i, :, -2]

    rho, ux, uy = macroscopic(f)

    # inlet: fixed velocity
    ux[:, 0] = inlet_profile
    uy[:, 0] = 0.0
    rho[:, 0] = (f[0, :, 0] + f[2, :, 0] + f[4, :, 0] + 2 * (f[3, :, 0] + f[6, :, 0] + f[7, :, 0])) / (
        1.0 - inlet_profile
    )
    feq = equilibrium(rho, ux, uy)
    for i in (1, 5, 8):
        f[i, :, 0] = feq[i, :, 0]

    # collide, then bounce back inside the obstacle
    post = f - OMEGA * (f - feq)
    bounced = f[OPPOSITE]
    return torch.where(solid, bounced, post)


def sync():
    if device == "cuda":
        torch.cuda.synchronize()


def main():
    torch.manual_seed(0)
    y = torch.arange(NY, device=device, dtype=torch.float32)[:, None]
    x = torch.arange(NX, device=device, dtype=torch.float32)[None, :]
    solid = (x - NX / 5) ** 2 + (y - NY / 2) ** 2 < radius**2
    solid = solid | (y == 0) | (y == NY - 1)
    inlet = U_IN * (1 + 1e-3 * torch.sin(y[:, 0] / NY * 2 * torch.pi))
    ux = inlet[:, None].expand(NY, NX).clone()
    f = equilibrium(torch.ones(NY, NX, device=device), ux, torch.zeros_like(ux))

    for _ in range(5):
        f = lbm_step(f, solid, inlet)
    sync()
    steps = 60
    t0 = time.perf_counter()
    for _ in range(steps):
        f = lbm_step(f, solid, inlet)
    sync()
    dt = (time.perf_counter() - t0) / steps
    rho, ux, uy = macroscopic(f)
    speed = torch.sqrt(ux**2 + uy**2).masked_fill(solid, 0)
    print(f"mass {rho.mean().item():.5f}  max speed {speed.max().item():.4f}")
    print(f"{dt * 1e3:.3f} ms/step, {NX * NY / dt / 1e6:.0f} MLUPS")


if __name__ == "__main__":
    main()
