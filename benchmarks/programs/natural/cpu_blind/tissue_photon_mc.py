"""Monte Carlo photon transport in a layered skin phantom (MCML style).

Photon packets enter a semi-infinite slab through a pencil beam, scatter with
the Henyey-Greenstein phase function and deposit part of their weight in an
(r, z) absorption grid at every interaction.
"""

import math
import time
from dataclasses import dataclass

import torch

torch.set_num_threads(2)


@dataclass
class Tissue:
    # per layer: epidermis, dermis, subcutis  (lengths in mm)
    depth: torch.Tensor
    mu_a: torch.Tensor
    mu_s: torch.Tensor
    g: torch.Tensor


def skin_630nm():
    return Tissue(
        depth=torch.tensor([0.10, 1.60]),
        mu_a=torch.tensor([0.35, 0.06, 0.02]),
        mu_s=torch.tensor([22.0, 14.0, 9.0]),
        g=torch.tensor([0.79, 0.82, 0.85]),
    )


NR, NZ = 80, 120
DR, DZ = 0.05, 0.05
W_MIN = 1e-3
SURVIVE = 0.1


def launch(n):
    pos = torch.zeros(n, 3)
    d = torch.zeros(n, 3)
    d[:, 2] = 1.0
    return pos, d, torch.ones(n)


def hop_drop_spin(pos, d, w, grid, escaped, tissue):
    layer = torch.bucketize(pos[:, 2], tissue.depth)
    mu_a = tissue.mu_a[layer]
    mu_s = tissue.mu_s[layer]
    g = tissue.g[layer]
    mu_t = mu_a + mu_s

    # hop
    step = -torch.log(torch.rand_like(w).clamp_min(1e-7)) / mu_t
    pos = pos + d * step[:, None]

    # packets that left through the surface
    out = pos[:, 2] < 0
    escaped += (w * out).sum()
    w = torch.where(out, 0.0, w)

    # drop
    dw = w * mu_a / mu_t
    r = torch.sqrt(pos[:, 0] ** 2 + pos[:, 1] ** 2)
    ir = (r / DR).long().clamp(0, NR - 1)
    iz = (pos[:, 2] / DZ).long().clamp(0, NZ - 1)
    grid.index_put_((ir, iz), dw, accumulate=True)
    w = w - dw

    # spin
    xi = torch.rand_like(w)
    frac = (1 - g * g) / (1 - g + 2 * g * xi)
    cos_t = ((1 + g * g - frac * frac) / (2 * g)).clamp(-1, 1)
    sin_t = torch.sqrt(1 - cos_t * cos_t)
    phi = 2 * math.pi * torch.rand_like(w)
    cos_p, sin_p = torch.cos(phi), torch.sin(phi)
    ux, uy, uz = d.unbind(1)
    s = torch.sqrt((1 - uz * uz).clamp_min(1e-12))
    tilted = torch.stack(
        [
            sin_t * (ux * uz * cos_p - uy * sin_p) / s + ux * cos_t,
            sin_t * (uy * uz * cos_p + ux * sin_p) / s + uy * cos_t,
            -sin_t * cos_p * s + uz * cos_t,
        ],
        dim=1,
    )
    straight = torch.stack([sin_t * cos_p, sin_t * sin_p, cos_t * torch.sign(uz)], dim=1)
    d = torch.where((uz.abs() > 0.99999)[:, None], straight, tilted)
    d = d / d.norm(dim=1, keepdim=True)

    # roulette
    weak = (w < W_MIN) & (w > 0)
    live = torch.rand_like(w) < SURVIVE
    w = torch.where(weak, torch.where(live, w / SURVIVE, 0.0), w)
    return pos, d, w


def main():
    torch.manual_seed(7)
    tissue = skin_630nm()
    step = torch.compile(hop_drop_spin)
    grid = torch.zeros(NR, NZ)
    escaped = torch.zeros(())
    n, batches, hops = 60_000, 3, 40

    pos, d, w = launch(n)
    for _ in range(3):
        pos, d, w = step(pos, d, w, grid, escaped, tissue)
    grid.zero_()
    escaped.zero_()

    t0 = time.perf_counter()
    for _ in range(batches):
        pos, d, w = launch(n)
        for _ in range(hops):
            pos, d, w = step(pos, d, w, grid, escaped, tissue)
    dt = time.perf_counter() - t0

    total = batches * n
    print(f"diffuse reflectance {escaped.item() / total:.4f}")
    print(f"absorbed            {grid.sum().item() / total:.4f}")
    fluence_z = grid.sum(0) / total / DZ
    print("absorption by depth:", [round(v, 4) for v in fluence_z[::20].tolist()])
    print(f"{1e3 * dt / (batches * hops):.2f} ms per interaction step")


if __name__ == "__main__":
    with torch.no_grad():
        main()
