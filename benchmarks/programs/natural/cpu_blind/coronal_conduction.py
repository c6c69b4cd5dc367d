"""Conducts heat through a coronal plasma: Spitzer's conductivity, saturated where the plasma is hot and thin."""

import torch

KAPPA0 = 0.02


def conductivity(temp, density):
    return KAPPA0 * temp**2.5 / (1.0 + 0.3 * (temp / density) ** 1.7)


def conduct(temp, density, dt, substeps=3):
    for _ in range(substeps):
        kappa = conductivity(temp, density)
        kx = 0.5 * (kappa[:, 1:] + kappa[:, :-1])
        ky = 0.5 * (kappa[1:, :] + kappa[:-1, :])
        qx = kx * (temp[:, 1:] - temp[:, :-1])
        qy = ky * (temp[1:, :] - temp[:-1, :])
        div = (qx[1:-1, 1:] - qx[1:-1, :-1]) + (qy[1:, 1:-1] - qy[:-1, 1:-1])
        inner = temp[1:-1, 1:-1] + dt * div / (1.5 * density[1:-1, 1:-1])
        temp = torch.nn.functional.pad(inner[None, None], (1, 1, 1, 1), mode="replicate")[0, 0]
    return temp


y, x = torch.meshgrid(torch.linspace(-1, 1, 512), torch.linspace(-1, 1, 512), indexing="ij")
temp = 1.0 + 1.5 * torch.exp(-20 * (x**2 + (y - 0.2) ** 2))
density = 1.0 + 0.5 * torch.exp(-y)

step = torch.compile(conduct)
with torch.no_grad():
    for _ in range(40):
        temp = step(temp, density, 0.05)
print("hottest", temp.max().item(), "mean", temp.mean().item())
