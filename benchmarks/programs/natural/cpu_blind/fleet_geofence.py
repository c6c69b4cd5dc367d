"""Replay a day of delivery-van GPS pings against the city's restricted zones.

For every ping we want: which zones it is inside, and how far (m) it is from
the closest zone border, so that dispatch can warn drivers before they enter.
"""

import math
import time

import numpy as np
import torch

torch.set_num_threads(2)

N_VANS = 3000
N_ZONES = 24
N_EDGES = 32
CITY_KM = 12.0
TICKS = 40
WARN_M = 60.0


def make_zones(rng):
    """Star-shaped polygons, every one with N_EDGES vertices (padded upstream)."""
    centres = rng.uniform(1.0, CITY_KM - 1.0, size=(N_ZONES, 2))
    ang = np.sort(rng.uniform(0, 2 * math.pi, size=(N_ZONES, N_EDGES)), axis=1)
    rad = rng.uniform(0.25, 0.9, size=(N_ZONES, 1)) * rng.uniform(0.7, 1.3, size=(N_ZONES, N_EDGES))
    x = centres[:, :1] + rad * np.cos(ang)
    y = centres[:, 1:] + rad * np.sin(ang)
    return torch.tensor(np.stack([x, y], axis=-1) * 1000.0, dtype=torch.float32)


def zone_query(pts, verts):
    """pts (P,2), verts (Z,E,2) -> inside (P,Z) bool, border distance (P,Z)."""
    a = verts
    b = torch.roll(verts, -1, dims=1)
    px = pts[:, 0, None, None]
    py = pts[:, 1, None, None]
    ax, ay = a[None, ..., 0], a[None, ..., 1]
    bx, by = b[None, ..., 0], b[None, ..., 1]

    # even-odd rule
    straddles = (ay > py) != (by > py)
    denom = torch.where((by - ay).abs() < 1e-6, torch.full_like(by, 1e-6), by - ay)
    xcross = ax + (py - ay) * (bx - ax) / denom
    crossings = (straddles & (px < xcross)).sum(dim=-1)
    inside = crossings % 2 == 1

    # distance to segment
    ex, ey = bx - ax, by - ay
    t = ((px - ax) * ex + (py - ay) * ey) / (ex * ex + ey * ey + 1e-6)
    t = t.clamp(0.0, 1.0)
    dx = px - (ax + t * ex)
    dy = py - (ay + t * ey)
    dist = (dx * dx + dy * dy).amin(dim=-1).sqrt()
    return inside, dist


query = torch.compile(zone_query)


class Fleet:
    def __init__(self, n, gen):
        self.gen = gen
        self.pos = torch.rand(n, 2, generator=gen) * CITY_KM * 1000.0
        self.heading = torch.rand(n, generator=gen) * 2 * math.pi
        self.speed = 4.0 + 8.0 * torch.rand(n, generator=gen)

    def advance(self, dt):
        self.heading += 0.3 * torch.randn(self.heading.shape, generator=self.gen)
        step = torch.stack([self.heading.cos(), self.heading.sin()], dim=-1)
        self.pos += step * self.speed[:, None] * dt
        self.pos.clamp_(0.0, CITY_KM * 1000.0)
        return self.pos


def main():
    rng = np.random.default_rng(20)
    gen = torch.Generator().manual_seed(20)
    verts = make_zones(rng)
    fleet = Fleet(N_VANS, gen)

    entries = torch.zeros(N_ZONES, dtype=torch.long)
    warnings = torch.zeros(N_ZONES, dtype=torch.long)
    was_inside = None
    t0 = time.time()
    for tick in range(TICKS):
        pts = fleet.advance(dt=15.0)
        with torch.no_grad():
            inside, dist = query(pts, verts)
        if was_inside is not None:
            entries += (inside & ~was_inside).sum(0)
        warnings += ((~inside) & (dist < WARN_M)).sum(0)
        was_inside = inside
        if tick % 10 == 9:
            print(
                f"tick {tick + 1:3d}  inside now {int(inside.any(1).sum()):5d}  "
                f"entries {int(entries.sum()):6d}  warnings {int(warnings.sum()):6d}  "
                f"[{time.time() - t0:.1f}s]"
            )

    top = torch.topk(entries, 5)
    for z, n in zip(top.indices.tolist(), top.values.tolist()):
        print(f"zone {z:2d}: {n} entries, {int(warnings[z])} proximity warnings")


if __name__ == "__main__":
    main()
