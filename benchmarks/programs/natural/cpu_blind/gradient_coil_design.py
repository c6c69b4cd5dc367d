"""Design of an MRI head gradient coil (x gradient) by direct optimisation of the wire paths.

Every loop lies on a cylinder and is a Fourier curve in (angle, z).  The field is Biot-Savart over the straight
pieces of wire, the loss asks for Bz = G * x in the imaging volume, little stray field at the cryostat, and short
wires.  Optimised with Adam.
"""

import math
import time

import torch
from torch import nn

MU0_4PI = 1e-7
G_TARGET = 30e-3  # T/m
R_COIL, R_DSV, R_CRYO = 0.21, 0.10, 0.42
N_SEG = 72
ORDER = 4
STEPS = 55


def fibonacci_sphere(n, radius):
    k = torch.arange(n, dtype=torch.float32) + 0.5
    phi = torch.acos(1 - 2 * k / n)
    theta = math.pi * (1 + 5**0.5) * k
    return radius * torch.stack([theta.cos() * phi.sin(), theta.sin() * phi.sin(), phi.cos()], dim=-1)


def cryostat_points(n_phi, n_z):
    phi = torch.linspace(0, 2 * math.pi, n_phi + 1)[:-1]
    z = torch.linspace(-0.5, 0.5, n_z)
    pp, zz = torch.meshgrid(phi, z, indexing="ij")
    return torch.stack([R_CRYO * pp.cos(), R_CRYO * pp.sin(), zz], dim=-1).reshape(-1, 3)


class FourierCoils(nn.Module):
    """Saddle loops: four quadrants, several nested loops in each one."""

    def __init__(self, loops_per_quadrant=4):
        super().__init__()
        quadrant_phi = torch.tensor([0.0, 0.0, math.pi, math.pi])
        quadrant_z = torch.tensor([1.0, -1.0, 1.0, -1.0])
        sign = torch.tensor([1.0, -1.0, -1.0, 1.0])
        size = torch.linspace(0.35, 1.0, loops_per_quadrant)
        phi0 = quadrant_phi.repeat_interleave(loops_per_quadrant)
        z0 = 0.16 * quadrant_z.repeat_interleave(loops_per_quadrant)
        scale = size.repeat(4)
        n = phi0.numel()
        self.phi_cos = nn.Parameter(torch.zeros(n, ORDER))
        self.phi_sin = nn.Parameter(torch.zeros(n, ORDER))
        self.z_cos = nn.Parameter(torch.zeros(n, ORDER))
        self.z_sin = nn.Parameter(torch.zeros(n, ORDER))
        with torch.no_grad():
            self.phi_cos[:, 0] = 1.1 * scale
            self.z_sin[:, 0] = 0.12 * scale
        self.phi0 = nn.Parameter(phi0)
        self.z0 = nn.Parameter(z0)
        self.log_current = nn.Parameter(torch.full((n,), math.log(300.0)))
        self.register_buffer("sign", sign.repeat_interleave(loops_per_quadrant))
        s = torch.linspace(0, 2 * math.pi, N_SEG + 1)
        k = torch.arange(1, ORDER + 1)
        self.register_buffer("cos_ks", torch.cos(k[:, None] * s[None, :]))
        self.register_buffer("sin_ks", torch.sin(k[:, None] * s[None, :]))

    def wires(self):
        phi = self.phi0[:, None] + self.phi_cos @ self.cos_ks + self.phi_sin @ self.sin_ks
        z = self.z0[:, None] + self.z_cos @ self.cos_ks + self.z_sin @ self.sin_ks
        return torch.stack([R_COIL * torch.cos(phi), R_COIL * torch.sin(phi), z], dim=-1)

    def forward(self, points):
        wire = self.wires()  # [loops, N_SEG + 1, 3]
        dl = wire[:, 1:] - wire[:, :-1]
        mid = 0.5 * (wire[:, 1:] + wire[:, :-1])
        length = dl.norm(dim=-1).sum()
        current = self.sign * self.log_current.exp()
        idl = (current[:, None, None] * dl).reshape(-1, 3)
        r = points[:, None, :] - mid.reshape(-1, 3)[None, :, :]  # [points, segments, 3]
        db = torch.linalg.cross(idl[None].expand_as(r), r, dim=-1)
        dist = torch.linalg.vector_norm(r, dim=-1, keepdim=True)
        field = MU0_4PI * (db / dist**3).sum(dim=1)
        return field, length


def main():
    torch.manual_seed(0)
    dsv = torch.cat([fibonacci_sphere(260, R_DSV), fibonacci_sphere(140, 0.6 * R_DSV)])
    stray = cryostat_points(20, 13)
    points = torch.cat([dsv, stray])
    n_dsv = dsv.shape[0]
    coil = FourierCoils()
    coil.compile()
    slow = [coil.phi0, coil.z0, coil.phi_cos, coil.phi_sin]
    fast = [coil.z_cos, coil.z_sin]
    opt = torch.optim.Adam(
        [
            {"params": slow, "lr": 4e-3},
            {"params": fast, "lr": 1e-3},
            {"params": [coil.log_current], "lr": 2e-2},
        ]
    )
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)
    target = G_TARGET * dsv[:, 0]
    b_ref = G_TARGET * R_DSV
    t0 = time.perf_counter()
    for step in range(STEPS):
        opt.zero_grad(set_to_none=True)
        field, length = coil(points)
        bz = field[:n_dsv, 2]
        err = ((bz - target) / b_ref).square().mean()
        leak = (field[n_dsv:] / b_ref).square().sum(dim=-1).mean()
        loss = err + 0.02 * leak + 2e-4 * length
        loss.backward()
        nn.utils.clip_grad_norm_(coil.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 10 == 0 or step == STEPS - 1:
            with torch.no_grad():
                grad_eff = (bz * dsv[:, 0]).sum() / dsv[:, 0].square().sum()
                worst = (bz - grad_eff * dsv[:, 0]).abs().max() / (grad_eff.abs() * R_DSV)
                inductive = coil.log_current.exp().square().sum()
            print(
                f"step {step:3d} loss {loss.item():.4f} gradient {1e3 * grad_eff.item():6.2f} mT/m "
                f"nonlinearity {100 * worst.item():5.1f} % stray {1e6 * b_ref * leak.sqrt().item():7.1f} uT "
                f"wire {length.item():.1f} m sum I^2 {inductive.item():.3g} A^2"
            )
    print(f"{STEPS} steps in {time.perf_counter() - t0:.2f} s")


if __name__ == "__main__":
    main()
