"""
Krill super-individuals grazing on a chlorophyll field (Scotia Sea box model).

Lagrangian super-individuals carry biomass; each step they
  1. are advected by a stream function and swim up the chlorophyll gradient,
  2. put their biomass onto the lattice (cloud-in-cell),
  3. graze, and the lattice chlorophyll grows back and diffuses.
"""

import time

import torch

torch.manual_seed(1977)

G = 160  # lattice cells per side, 2 km each
N = 240_000  # super-individuals
STEPS = 25


class ScotiaBox:
    def __init__(self):
        self.xy = torch.rand(N, 2) * (G - 3) + 1.0
        self.mass = torch.empty(N).log_normal_(0.0, 0.6)
        yy, xx = torch.meshgrid(torch.arange(G), torch.arange(G), indexing="ij")
        bloom = torch.exp(-((yy - 60.0) ** 2 + (xx - 95.0) ** 2) / 900.0)
        self.chl = 0.3 + 2.0 * bloom
        self.capacity = 0.5 + 2.5 * bloom
        self.k_half = 0.8  # half saturation of grazing, mg m-3
        self.max_rate = 0.012
        self.growth = 0.08

    @torch.compile(fullgraph=True)
    def step(self, xy, mass, chl, noise):
        # --- where are we on the lattice -------------------------------
        x, y = xy[:, 0], xy[:, 1]
        ix = x.floor().long()
        iy = y.floor().long()
        fx = x - ix
        fy = y - iy
        cell = iy * G + ix

        # --- local chlorophyll and its gradient ------------------------
        c = chl.reshape(-1)
        c00, c01 = c[cell], c[cell + 1]
        c10, c11 = c[cell + G], c[cell + G + 1]
        food = (1 - fy) * ((1 - fx) * c00 + fx * c01) + fy * ((1 - fx) * c10 + fx * c11)
        gx = (1 - fy) * (c01 - c00) + fy * (c11 - c10)
        gy = (1 - fx) * (c10 - c00) + fx * (c11 - c01)

        # --- swim and drift --------------------------------------------
        u = 0.25 * torch.sin(y * 0.05) + 1.5 * gx + 0.3 * noise[:, 0]
        v = 0.18 * torch.cos(x * 0.04) + 1.5 * gy + 0.3 * noise[:, 1]
        new_xy = torch.stack([(x + u).clamp(1.0, G - 2.001), (y + v).clamp(1.0, G - 2.001)], dim=1)

        # --- grazing pressure on the lattice (cloud-in-cell) ------------
        intake = mass * self.max_rate * food / (food + self.k_half)
        grazed = torch.zeros_like(c)
        grazed = grazed.index_add(0, cell, intake * (1 - fx) * (1 - fy))
        grazed = grazed.index_add(0, cell + 1, intake * fx * (1 - fy))
        grazed = grazed.index_add(0, cell + G, intake * (1 - fx) * fy)
        grazed = grazed.index_add(0, cell + G + 1, intake * fx * fy)

        # --- regrowth ---------------------------------------------------
        new_chl = c + self.growth * c * (1 - c / self.capacity.reshape(-1)) - 0.1 * grazed
        new_chl = new_chl.clamp_min(0.01).reshape(G, G)
        new_mass = mass * 0.999 + 0.3 * intake
        return new_xy, new_mass, new_chl


def smooth(chl):
    """turbulent mixing of the surface layer"""
    p = torch.nn.functional.pad(chl[None, None], (1, 1, 1, 1), mode="replicate")[0, 0]
    lap = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * chl
    return chl + 0.1 * lap


def main():
    box = ScotiaBox()
    xy, mass, chl = box.xy, box.mass, box.chl
    for day in range(STEPS):
        noise = torch.randn(N, 2)
        t0 = time.perf_counter()
        xy, mass, chl = box.step(xy, mass, chl, noise)
        dt = time.perf_counter() - t0
        chl = smooth(chl)
        print(f"day {day:3d}   {dt * 1e3:8.2f} ms   chl {chl.mean():.4f}")
    print(
        f"krill biomass {mass.sum() / N:.4f}, aggregation index "
        f"{torch.histc(xy[:, 0], 40).std() / (N / 40):.4f}"
    )


if __name__ == "__main__":
    main()
