"""Direct simulation Monte Carlo (Bird) of rarefied argon between two moving plates."""

import argparse
import logging
import math
import time

import torch

log = logging.getLogger("dsmc")

KB = 1.380649e-23
MASS = 6.63e-26
DIAM = 4.17e-10
T_WALL = 273.0


class Couette:
    def __init__(self, n=50_000, cells=100, knudsen=0.1, u_wall=150.0, seed=0):
        torch.manual_seed(seed)
        self.n, self.cells = n, cells
        self.L = 1e-3
        self.u_wall = u_wall
        self.c0 = math.sqrt(2 * KB * T_WALL / MASS)
        self.sigma = math.pi * DIAM**2
        mfp = knudsen * self.L
        number_density = 1.0 / (math.sqrt(2.0) * self.sigma * mfp)
        self.weight = number_density * self.L / n  # per unit plate area
        self.dx = self.L / cells
        self.dt = 0.3 * self.dx / self.c0
        self.x = torch.rand(n) * self.L
        self.v = torch.randn(n, 3) * self.c0 / math.sqrt(2)
        # sampled moments
        self.cnt = torch.zeros(cells)
        self.mom = torch.zeros(cells, 3)
        self.eng = torch.zeros(cells)
        self.samples = 0

    def profile(self):
        cnt = self.cnt.clamp(min=1)
        u = self.mom / cnt[:, None]
        temp = (self.eng / cnt - u.square().sum(1)) * MASS / (3 * KB)
        return self.cnt / max(self.samples, 1), u, temp


def diffuse_wall(v, hit, sign, u_wall, c0):
    """Fully accommodating wall: new velocity from the half-Maxwellian flux."""
    r = torch.rand(v.shape[0])
    vn = sign * c0 * torch.sqrt(-torch.log(r.clamp(min=1e-12)))
    vt = torch.randn(v.shape[0], 2) * (c0 / math.sqrt(2))
    new = torch.stack([vn, vt[:, 0] + u_wall, vt[:, 1]], dim=1)
    return torch.where(hit[:, None], new, v)


@torch.compile
def move(x, v, dt, L, u_wall, c0):
    x = x + v[:, 0] * dt
    lo = x < 0
    hi = x > L
    v = diffuse_wall(v, lo, 1.0, -u_wall, c0)
    v = diffuse_wall(v, hi, -1.0, u_wall, c0)
    # put it back at the wall, with a random part of the step left
    rest = torch.rand_like(x) * dt
    x = torch.where(lo, v[:, 0] * rest, x)
    x = torch.where(hi, L + v[:, 0] * rest, x)
    return x.clamp(0.0, L), v


@torch.compile
def collide(x, v, cells, dx, dt, sigma, weight):
    n = x.shape[0]
    cell = (x / dx).long().clamp(max=cells - 1)
    # random order inside the cells, then neighbours in the list are the pairs
    key = cell + torch.rand(n)
    order = torch.argsort(key)
    a, b = order[0 : n - 1 : 2], order[1:n:2]
    same = cell[a] == cell[b]
    va, vb = v[a], v[b]
    g = va - vb
    gmag = g.norm(dim=1)
    counts = torch.bincount(cell, minlength=cells)
    # each particle is in one candidate pair: (N-1) partners folded in the probability
    rate = weight / dx * sigma * gmag * dt * (counts[cell[a]] - 1)
    hit = same & (torch.rand(a.shape[0]) < rate)
    # hard sphere: isotropic scattering of the relative velocity
    cos = 2 * torch.rand(a.shape[0]) - 1
    sin = torch.sqrt(1 - cos * cos)
    phi = 2 * math.pi * torch.rand(a.shape[0])
    gnew = gmag[:, None] * torch.stack([cos, sin * torch.cos(phi), sin * torch.sin(phi)], 1)
    vc = 0.5 * (va + vb)
    va_new = torch.where(hit[:, None], vc + 0.5 * gnew, va)
    vb_new = torch.where(hit[:, None], vc - 0.5 * gnew, vb)
    v[a] = va_new
    v[b] = vb_new
    return v, hit.sum()


@torch.compile
def sample_moments(x, v, cnt, mom, eng, cells, dx):
    cell = (x / dx).long().clamp(max=cells - 1)
    cnt.index_add_(0, cell, torch.ones_like(x))
    mom.index_add_(0, cell, v)
    eng.index_add_(0, cell, v.square().sum(1))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=260)
    p.add_argument("--skip", type=int, default=120)
    args = p.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(2)

    s = Couette()
    collisions = 0
    last = time.time()
    with torch.no_grad():
        for it in range(args.steps):
            s.x, s.v = move(s.x, s.v, s.dt, s.L, s.u_wall, s.c0)
            s.v, nc = collide(s.x, s.v, s.cells, s.dx, s.dt, s.sigma, s.weight)
            collisions += nc.item()
            if it >= args.skip and it % 2 == 0:
                sample_moments(s.x, s.v, s.cnt, s.mom, s.eng, s.cells, s.dx)
                s.samples += 1
            if (it + 1) % 65 == 0:
                now = time.time()
                log.info("step %d  %.3g particle-steps/s", it + 1, 65 * s.n / (now - last))
                last = now

    dens, u, temp = s.profile()
    slope = (u[60, 1] - u[40, 1]) / (20 * s.dx)
    print(f"collisions {collisions}  mean density {dens.mean():.1f}/cell")
    print(f"wall slip u(0) {u[0, 1]:.2f}  u(L) {u[-1, 1]:.2f} m/s  shear {slope:.4g} 1/s")
    print(f"temperature centre {temp[45:55].mean():.2f} K, wall {temp[[0, -1]].mean():.2f} K")


if __name__ == "__main__":
    main()
