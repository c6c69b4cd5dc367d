"""Robust fluence-map optimisation for a prostate-like case.

Nine coplanar beams, a dense dose-influence matrix per set-up scenario, and a weighted sum of
clinical objectives (under/over-dose, gEUD, soft DVH), with a soft worst case over the scenarios.
"""

import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(5)
PRESCRIPTION = 60.0


def make_phantom(n=26, nz=12):
    ax = torch.linspace(-12, 12, n)
    az = torch.linspace(-6, 6, nz)
    z, y, x = torch.meshgrid(az, ax, ax, indexing="ij")
    pts = torch.stack([x, y, z], -1).reshape(-1, 3)
    body = (pts[:, 0] / 12) ** 2 + (pts[:, 1] / 10) ** 2 <= 1
    pts = pts[body]

    def ball(cx, cy, cz, r):
        return ((pts - torch.tensor([cx, cy, cz])) ** 2).sum(1) < r * r

    ptv = ball(0.0, 0.0, 0.0, 3.2)
    bladder = ball(0.0, 4.2, 0.5, 2.8) & ~ptv
    rectum = ball(0.0, -4.2, 0.0, 2.4) & ~ptv
    femurs = ball(6.5, 0.0, 0.0, 2.2) | ball(-6.5, 0.0, 0.0, 2.2)
    rest = ~(ptv | bladder | rectum | femurs)
    return pts, dict(ptv=ptv, bladder=bladder, rectum=rectum, femurs=femurs, rest=rest)


def influence(pts, shift, angles, nu=10, nv=8, pitch=0.9):
    """Pencil-beam dose of every beamlet in every voxel: lateral Gaussian times depth attenuation."""
    p = pts + shift
    cols = []
    u = (torch.arange(nu) - (nu - 1) / 2) * pitch
    v = (torch.arange(nv) - (nv - 1) / 2) * pitch
    for a in angles:
        c, s = math.cos(a), math.sin(a)
        lat = p[:, 0] * c + p[:, 1] * s
        depth = -p[:, 0] * s + p[:, 1] * c + 12.0
        sigma = 0.45 + 0.012 * depth
        gu = torch.exp(-0.5 * ((lat[:, None] - u) / sigma[:, None]) ** 2)
        gv = torch.exp(-0.5 * ((p[:, 2:3] - v) / sigma[:, None]) ** 2)
        att = torch.exp(-0.045 * depth)
        cols.append((gu[:, :, None] * gv[:, None, :] * att[:, None, None]).flatten(1))
    return torch.cat(cols, 1)


class PlanObjective(nn.Module):
    def __init__(self, D, masks, nbeams, nu=10, nv=8):
        super().__init__()
        self.register_buffer("D", D)  # scenarios x voxels x beamlets
        self.masks = masks
        self.shape = (nbeams, nu, nv)
        self.x = nn.Parameter(torch.full((D.shape[2],), 0.3))

    def fluence(self):
        return F.softplus(self.x)

    @staticmethod
    def geud(d, a):
        return (d.clamp_min(1e-3) ** a).mean(-1) ** (1.0 / a)

    @staticmethod
    def volume_above(d, level, width=2.0):
        return torch.sigmoid((d - level) / width).mean(-1)

    def forward(self):
        w = self.fluence()
        dose = self.D @ w  # scenarios x voxels
        ptv = dose[:, self.masks["ptv"]]
        under = F.relu(PRESCRIPTION - ptv).square().mean(-1)
        over = F.relu(ptv - 1.05 * PRESCRIPTION).square().mean(-1)
        loss = 10 * under + 4 * over
        loss = loss + 30 * F.relu(0.98 - self.volume_above(ptv, 0.95 * PRESCRIPTION))
        for name, a, limit, weight in (
            ("bladder", 4.0, 30.0, 0.6),
            ("rectum", 8.0, 32.0, 0.9),
            ("femurs", 6.0, 25.0, 0.4),
        ):
            d = dose[:, self.masks[name]]
            loss = loss + weight * F.relu(self.geud(d, a) - limit).square()
            loss = loss + 20 * F.relu(self.volume_above(d, 40.0) - 0.2)
        rest = dose[:, self.masks["rest"]]
        loss = loss + 0.02 * rest.square().mean(-1) + 0.5 * F.relu(rest - 45.0).square().mean(-1)
        worst = 5.0 * torch.logsumexp(loss / 5.0, 0)  # soft maximum over scenarios
        m = w.view(self.shape)
        smooth = (m[:, 1:] - m[:, :-1]).square().mean() + (m[:, :, 1:] - m[:, :, :-1]).square().mean()
        return worst + 2.0 * smooth


def main():
    pts, masks = make_phantom()
    angles = [2 * math.pi * k / 9 for k in range(9)]
    shifts = torch.tensor([[0, 0, 0], [0.4, 0, 0], [-0.4, 0, 0], [0, 0.4, 0], [0, -0.4, 0.0]])
    D = torch.stack([influence(pts, s, angles) for s in shifts])
    print("influence", tuple(D.shape), "voxels in ptv", int(masks["ptv"].sum()))

    objective = PlanObjective(D, masks, len(angles))
    step_loss = torch.compile(objective)
    opt = torch.optim.Adam(objective.parameters(), lr=0.1)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 100)

    t0 = time.perf_counter()
    for it in range(100):
        opt.zero_grad()
        loss = step_loss()
        loss.backward()
        opt.step()
        sched.step()
        if it % 40 == 0:
            print(f"iter {it:4d}  objective {loss.item():.3f}")
    print(f"plan optimised in {time.perf_counter() - t0:.2f} s, objective {loss.item():.3f}")

    with torch.no_grad():
        dose = D @ objective.fluence()
        for k, m in masks.items():
            d = dose[:, m]
            print(
                f"{k:8s} mean {d.mean():6.2f}  D95 {torch.quantile(d[0], 0.05):6.2f}  "
                f"worst D2 {torch.quantile(d, 0.98, dim=1).max():6.2f}"
            )


if __name__ == "__main__":
    main()
