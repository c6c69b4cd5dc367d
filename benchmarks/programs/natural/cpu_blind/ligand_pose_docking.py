"""Rigid docking of a fragment into a protein pocket: parallel Metropolis chains on poses.

The score is of the AutoDock-Vina kind (two Gaussians, repulsion, hydrophobic contact, hydrogen
bonds) on surface distances between all ligand and receptor atoms.  Each chain holds a
translation, a unit quaternion and one of a few conformers; a temperature ladder cools all
chains; the best poses are clustered by RMSD at the end.
"""

import math
import time

import torch

CHAINS = 32
MOVES = 120
LIG_ATOMS = 28
REC_ATOMS = 1200
CONFORMERS = 5


def make_receptor(gen):
    """Atoms in a ball at protein density, with a cavity that opens to one side."""
    pts = (torch.rand(9000, 3, generator=gen) - 0.5) * 44.0
    cavity = pts.norm(dim=1) < 7.5
    mouth = (pts[:, :2].norm(dim=1) < 5.0) & (pts[:, 2] > 0)
    pts = pts[~(cavity | mouth)]
    pts = pts[pts.norm(dim=1).argsort()][:REC_ATOMS]
    kind = torch.randint(0, 4, (REC_ATOMS,), generator=gen)  # C, N donor, O acceptor, C polar
    radius = torch.tensor([1.9, 1.8, 1.7, 1.9])[kind]
    return pts, radius, kind


def make_conformers(gen):
    """Self-avoiding chains with bond length 1.5 A; the same atom types in all conformers."""
    out = []
    for _ in range(CONFORMERS):
        xyz = [torch.zeros(3)]
        while len(xyz) < LIG_ATOMS:
            step = torch.randn(3, generator=gen)
            cand = xyz[-1] + 1.5 * step / step.norm() - 0.12 * xyz[-1] / (1 + xyz[-1].norm())
            if torch.stack(xyz).sub(cand).norm(dim=1).min() > 1.2:
                xyz.append(cand)
        c = torch.stack(xyz)
        out.append(c - c.mean(0))
    kind = torch.randint(0, 4, (LIG_ATOMS,), generator=gen)
    return torch.stack(out), torch.tensor([1.9, 1.8, 1.7, 1.9])[kind], kind


def rotate(q, xyz):
    """Rotates (P, L, 3) by unit quaternions (P, 4)."""
    w, v = q[:, None, :1], q[:, None, 1:].expand_as(xyz)
    t = 2.0 * torch.linalg.cross(v, xyz)
    return xyz + w * t + torch.linalg.cross(v, t)


def make_scorer(rec_xyz, rec_radius, rec_kind, lig_radius, lig_kind):
    """Builds the scoring function of this receptor and ligand."""
    rx, ry, rz = (rec_xyz[:, i].contiguous() for i in range(3))
    reach = lig_radius[:, None] + rec_radius[None]
    apolar = ((lig_kind == 0)[:, None] & (rec_kind == 0)[None]).float()
    hbond = (
        ((lig_kind == 1)[:, None] & (rec_kind == 2)[None])
        | ((lig_kind == 2)[:, None] & (rec_kind == 1)[None])
    ).float()

    @torch.compile
    def score(trans, quat, conf_xyz):
        xyz = rotate(quat, conf_xyz) + trans[:, None]
        dx = xyz[:, :, 0, None] - rx
        dy = xyz[:, :, 1, None] - ry
        dz = xyz[:, :, 2, None] - rz
        r = torch.sqrt(dx * dx + dy * dy + dz * dz + 1e-6)
        d = r - reach
        gauss1 = torch.exp(-((d / 0.5) ** 2))
        gauss2 = torch.exp(-(((d - 3.0) / 2.0) ** 2))
        repulsion = torch.where(d < 0, d * d, 0.0)
        hydrophobic = apolar * ((1.5 - d) / 1.0).clamp(0.0, 1.0)
        bonding = hbond * (-d / 0.7).clamp(0.0, 1.0)
        e = -0.0356 * gauss1 - 0.00516 * gauss2 + 0.840 * repulsion - 0.0351 * hydrophobic - 0.587 * bonding
        e = torch.where(r < 8.0, e, 0.0)
        return e.sum((1, 2)) / (1 + 0.0585 * 6)

    return score


def propose(trans, quat, conf, scale, gen):
    n = len(trans)
    new_t = trans + scale * 0.8 * torch.randn(n, 3, generator=gen)
    ang = scale * 0.5 * torch.randn(n, 3, generator=gen)
    half = ang.norm(dim=1, keepdim=True).clamp(min=1e-6)
    dq = torch.cat([torch.cos(half / 2), torch.sin(half / 2) * ang / half], 1)
    w0, v0, w1, v1 = dq[:, :1], dq[:, 1:], quat[:, :1], quat[:, 1:]
    q = torch.cat(
        [w0 * w1 - (v0 * v1).sum(1, keepdim=True), w0 * v1 + w1 * v0 + torch.linalg.cross(v0, v1)], 1
    )
    q = q / q.norm(dim=1, keepdim=True)
    swap = torch.rand(n, generator=gen) < 0.1
    new_c = torch.where(swap, torch.randint(0, CONFORMERS, (n,), generator=gen), conf)
    return new_t, q, new_c


@torch.no_grad()
def main():
    gen = torch.Generator().manual_seed(8)
    rec_xyz, rec_radius, rec_kind = make_receptor(gen)
    conformers, lig_radius, lig_kind = make_conformers(gen)
    score = make_scorer(rec_xyz, rec_radius, rec_kind, lig_radius, lig_kind)

    trans = torch.randn(CHAINS, 3, generator=gen) * 2.0
    quat = torch.randn(CHAINS, 4, generator=gen)
    quat = quat / quat.norm(dim=1, keepdim=True)
    conf = torch.randint(0, CONFORMERS, (CHAINS,), generator=gen)
    energy = score(trans, quat, conformers[conf])
    best_e, best_xyz = energy.clone(), rotate(quat, conformers[conf]) + trans[:, None]
    t0, accepted = time.perf_counter(), 0
    for move in range(MOVES):
        temp = 20.0 * (0.02 ** (move / MOVES))
        t2, q2, c2 = propose(trans, quat, conf, 0.2 + temp / 20.0, gen)
        e2 = score(t2, q2, conformers[c2])
        ok = torch.rand(CHAINS, generator=gen) < torch.exp((energy - e2) / temp)
        trans = torch.where(ok[:, None], t2, trans)
        quat = torch.where(ok[:, None], q2, quat)
        conf, energy = torch.where(ok, c2, conf), torch.where(ok, e2, energy)
        accepted += int(ok.sum())
        better = energy < best_e
        best_e = torch.where(better, energy, best_e)
        best_xyz = torch.where(
            better[:, None, None], rotate(quat, conformers[conf]) + trans[:, None], best_xyz
        )
        if (move + 1) % 20 == 0:
            print(
                f"move {move + 1:4d}  T {temp:6.2f}  mean E {energy.mean().item():9.2f}  "
                f"best {best_e.min().item():8.2f}  acceptance {accepted / CHAINS / (move + 1):.2f}"
            )
    order = best_e.argsort()
    clusters = []
    for i in order.tolist():
        rmsd = [math.sqrt((best_xyz[i] - best_xyz[j]).pow(2).sum(-1).mean().item()) for j in clusters]
        if not rmsd or min(rmsd) > 2.0:
            clusters.append(i)
    print(
        f"{len(clusters)} clusters, top scores {[round(best_e[i].item(), 2) for i in clusters[:5]]}, "
        f"{time.perf_counter() - t0:.2f} s"
    )


if __name__ == "__main__":
    main()
