"""D2Q9 lattice Boltzmann flow around a cylinder."""

import numpy as np
import torch

NX, NY, TAU = 300, 100, 0.6
C = torch.tensor([[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1], [1, 1], [-1, 1], [-1, -1], [1, -1]])
W = torch.from_numpy(np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4))
OPP = [0, 3, 4, 1, 2, 7, 8, 5, 6]
Y, X = torch.meshgrid(torch.arange(NY), torch.arange(NX), indexing="ij")
SOLID = (X - NX // 4) ** 2 + (Y - NY // 2) ** 2 < 13**2


@torch.compile
def step(f):
    f = torch.stack([torch.roll(f[k], (int(C[k, 0]), int(C[k, 1])), (1, 0)) for k in range(9)])
    bounced = f[OPP][:, SOLID]
    rho = f.sum(0)
    ux = (f * C[:, 0, None, None]).sum(0) / rho
    uy = (f * C[:, 1, None, None]).sum(0) / rho
    cu = C[:, 0, None, None] * ux + C[:, 1, None, None] * uy
    feq = rho * W[:, None, None] * (1 + 3 * cu + 4.5 * cu**2 - 1.5 * (ux**2 + uy**2))
    f = f - (f - feq) / TAU
    f[:, SOLID] = bounced
    return f, ux


torch.manual_seed(0)
f = torch.ones(9, NY, NX, dtype=torch.float64) + 0.01 * torch.randn(9, NY, NX)
f[1] += 2 * (1 + 0.2 * torch.cos(2 * np.pi * X / NX * 4))
for it in range(60):
    f, ux = step(f)
    if it % 20 == 0:
        print(it, ux.abs().max().item())
