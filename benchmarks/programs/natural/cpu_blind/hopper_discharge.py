"""Discharge of a plane silo with a wedge hopper, soft-disk discrete element model.

Normal contact: linear spring + dashpot.  Tangential: viscous, capped by Coulomb.
Contacts are found with a Verlet list which is refreshed when grains have moved
a fraction of the skin.
"""

import argparse
import math
import time

import torch

G = 9.81
HALF_W = 0.60  # half width of the bin
HOPPER_H = 0.45  # height of the wedge
HALF_ORIFICE = 0.07
RHO = 2500.0
SKIN = 0.002
MU, MU_WALL = 0.45, 0.30


def fill_silo(n, gen):
    """Jittered lattice, bottom row just above the orifice."""
    d = 0.0100
    rows = []
    y, total = -HOPPER_H + 0.002, 0
    while total < n:
        half = HALF_W if y > 0 else HALF_ORIFICE + (HALF_W - HALF_ORIFICE) * (y + HOPPER_H) / HOPPER_H
        m = max(int((2 * half - 3 * d) / d), 1)
        x = (torch.arange(m) - (m - 1) / 2) * d
        rows.append(torch.stack([x, torch.full_like(x, y)], 1))
        total += m
        y += d
    pos = torch.cat(rows)[:n]
    pos = pos + 0.0003 * (torch.rand(n, 2, generator=gen) - 0.5)
    rad = 0.0040 + 0.0014 * torch.rand(n, generator=gen)
    return pos, rad


class VerletList:
    HALF_STENCIL = ((0, 0), (1, 0), (-1, 1), (0, 1), (1, 1))
    CAP = 8

    def __init__(self, rmax):
        self.cell = 2 * rmax + SKIN
        self.lo = torch.tensor([-HALF_W - 0.05, -HOPPER_H - 0.40])
        self.nx = int((2 * HALF_W + 0.1) / self.cell) + 3
        self.ny = int((HOPPER_H + 0.40 + 1.8) / self.cell) + 3
        self.rebuilds = 0

    def build(self, pos, rad):
        n = pos.shape[0]
        c = ((pos - self.lo) / self.cell).long()
        cx = c[:, 0].clamp(0, self.nx - 3) + 1
        cy = c[:, 1].clamp(0, self.ny - 3) + 1
        cid = cy * self.nx + cx
        order = torch.argsort(cid)
        scid = cid[order]
        counts = torch.bincount(scid, minlength=self.nx * self.ny)
        start = counts.cumsum(0) - counts
        slot = torch.arange(n) - start[scid]
        table = torch.full((self.nx * self.ny, self.CAP), -1, dtype=torch.long)
        keep = slot < self.CAP
        table[scid[keep], slot[keep]] = order[keep]
        out_i, out_j = [], []
        me = torch.arange(n)[:, None]
        for dx, dy in self.HALF_STENCIL:
            cand = table[cid + dy * self.nx + dx]
            ok = cand >= 0
            if dx == 0 and dy == 0:
                ok &= cand > me
            jj = cand.clamp(min=0)
            d2 = (pos[jj] - pos[:, None]).square().sum(-1)
            ok &= d2 < (rad[jj] + rad[:, None] + SKIN).square()
            a, b = ok.nonzero(as_tuple=True)
            out_i.append(a)
            out_j.append(cand[a, b])
        self.ref = pos.clone()
        self.rebuilds += 1
        return torch.cat(out_i), torch.cat(out_j)

    def stale(self, pos):
        return (pos - self.ref).square().sum(1).max().item() > (0.3 * SKIN) ** 2


def wall_planes():
    slope = math.atan2(HALF_W - HALF_ORIFICE, HOPPER_H)
    c, s = math.cos(slope), math.sin(slope)
    normal = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [c, s], [-c, s]])
    point = torch.tensor([[-HALF_W, 0.0], [HALF_W, 0.0], [-HALF_W, 0.0], [HALF_W, 0.0]])
    return normal, (normal * point).sum(1)


@torch.compile
def dem_step(pos, vel, rad, mass, pi, pj, normal, offset, k, gamma, dt: float):
    # grain-grain
    rel = pos[pj] - pos[pi]
    dist = rel.square().sum(-1).clamp(min=1e-12).sqrt()
    overlap = torch.relu(rad[pi] + rad[pj] - dist)
    touching = overlap > 0
    nrm = rel / dist[:, None]
    dv = vel[pj] - vel[pi]
    vn = (dv * nrm).sum(-1)
    vt = dv - vn[:, None] * nrm
    meff = mass[pi] * mass[pj] / (mass[pi] + mass[pj])
    fn = torch.relu(k * overlap - gamma * meff * vn) * touching
    vts = vt.square().sum(-1).add(1e-12).sqrt()
    ft = torch.minimum(0.5 * gamma * meff * vts, MU * fn) * touching
    f = -fn[:, None] * nrm + (ft / vts)[:, None] * vt
    force = torch.zeros_like(pos)
    force.index_add_(0, pi, f)
    force.index_add_(0, pj, -f)
    # grain-wall, only above the outlet level
    gap = pos @ normal.T - offset
    wo = torch.relu(rad[:, None] - gap) * (pos[:, 1:] > -HOPPER_H)
    wvn = vel @ normal.T
    wf = torch.relu(k * wo - gamma * mass[:, None] * wvn) * (wo > 0)
    wvt = vel[:, None] - wvn[..., None] * normal
    wts = wvt.square().sum(-1).add(1e-12).sqrt()
    wft = torch.minimum(0.5 * gamma * mass[:, None] * wts, MU_WALL * wf)
    force = force + wf @ normal - ((wft / wts)[..., None] * wvt).sum(1)
    acc = force / mass[:, None]
    acc = acc - torch.tensor([0.0, G])
    vel = vel + dt * acc
    pos = pos + dt * vel
    return pos, vel, touching.sum()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--grains", type=int, default=12000)
    ap.add_argument("--steps", type=int, default=1000)
    ap.add_argument("--dt", type=float, default=1e-4)
    ap.add_argument("--every", type=int, default=200)
    ap.add_argument("--seed", type=int, default=4)
    a = ap.parse_args()
    gen = torch.Generator().manual_seed(a.seed)
    pos, rad = fill_silo(a.grains, gen)
    vel = torch.zeros_like(pos)
    mass = RHO * math.pi * rad.square()
    normal, offset = wall_planes()
    k, gamma = torch.tensor(5e5), torch.tensor(900.0)
    verlet = VerletList(rad.max().item())
    pi, pj = verlet.build(pos, rad)
    print(f"{a.grains} grains, {pi.numel()} listed pairs, dt {a.dt:.1e}")
    t0 = time.perf_counter()
    for s in range(1, a.steps + 1):
        pos, vel, nc = dem_step(pos, vel, rad, mass, pi, pj, normal, offset, k, gamma, a.dt)
        if s % 5 == 0 and verlet.stale(pos):
            pi, pj = verlet.build(pos, rad)
        if s % a.every == 0:
            out = mass[pos[:, 1] < -HOPPER_H].sum().item()
            ke = 0.5 * (mass[:, None] * vel.square()).sum().item()
            print(
                f"t={s * a.dt * 1e3:7.2f} ms  contacts {int(nc):6d}  KE {ke:9.3f} J/m  "
                f"discharged {out:8.3f} kg/m  lists {verlet.rebuilds}"
            )
    el = time.perf_counter() - t0
    assert torch.isfinite(pos).all()
    q = mass[pos[:, 1] < -HOPPER_H].sum().item() / (a.steps * a.dt)
    bev = 0.82 * RHO * math.sqrt(G) * (2 * HALF_ORIFICE - 0.013) ** 1.5
    print(
        f"mean outflow {q:.2f} kg/m/s (Beverloo, steady: {bev:.1f});  "
        f"{a.steps * a.grains / el / 1e6:.2f} M grain-steps/s, {el:.2f} s"
    )


if __name__ == "__main__":
    main()
