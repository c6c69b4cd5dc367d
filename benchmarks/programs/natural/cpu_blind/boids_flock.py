"""Starlings for the background of a game: 1400 boids with separation, alignment, cohesion and a hunting falcon."""

import math
import time
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Flocking:
    sight: float = 9.0
    crowd: float = 2.2
    fov_cos: float = -0.4
    separation: float = 3.0
    alignment: float = 0.9
    cohesion: float = 0.5
    max_speed: float = 12.0
    min_speed: float = 5.0
    fear: float = 60.0
    home: float = 0.02
    dt: float = 1 / 30


CFG = Flocking()


@torch.compile(dynamic=False)
def steer(x, y, z, vx, vy, vz, falcon):
    """All against all; component arrays (N,). Returns the new state and the mean number of neighbours."""
    dx, dy, dz = x[None, :] - x[:, None], y[None, :] - y[:, None], z[None, :] - z[:, None]
    dist = torch.sqrt(dx * dx + dy * dy + dz * dz + 1e-6)
    speed = torch.sqrt(vx * vx + vy * vy + vz * vz + 1e-6)
    cosine = (dx * vx[:, None] + dy * vy[:, None] + dz * vz[:, None]) / (dist * speed[:, None])
    visible = torch.sigmoid(12 * (cosine - CFG.fov_cos))
    attention = torch.exp(-((dist / CFG.sight) ** 2)) * visible * (dist > 1e-2)
    mass = attention.sum(1) + 1e-3
    repel = torch.exp(-((dist / CFG.crowd) ** 2)) / dist

    def towards(d, v):
        align = (attention * v[None, :]).sum(1) / mass - v
        cohere = (attention * d).sum(1) / mass
        avoid = -(repel * d).sum(1)
        return CFG.alignment * align + CFG.cohesion * cohere + CFG.separation * avoid

    ax, ay, az = towards(dx, vx), towards(dy, vy), towards(dz, vz)
    fx, fy, fz = x - falcon[0], y - falcon[1], z - falcon[2]
    near = (
        CFG.fear
        * torch.exp(-(fx * fx + fy * fy + fz * fz) / 50.0)
        / torch.sqrt(fx * fx + fy * fy + fz * fz + 1.0)
    )
    ax, ay, az = (
        ax + near * fx - CFG.home * x,
        ay + near * fy - CFG.home * y,
        az + near * fz - 3 * CFG.home * z,
    )
    vx, vy, vz = vx + CFG.dt * ax, vy + CFG.dt * ay, vz + CFG.dt * az
    speed = torch.sqrt(vx * vx + vy * vy + vz * vz + 1e-6)
    k = speed.clamp(CFG.min_speed, CFG.max_speed) / speed
    vx, vy, vz = vx * k, vy * k, vz * k
    return x + CFG.dt * vx, y + CFG.dt * vy, z + CFG.dt * vz, vx, vy, vz, mass.mean()


def falcon_at(t, centre):
    swoop = 20 * math.cos(0.7 * t)
    return torch.tensor(
        [centre[0] + swoop, centre[1] + 12 * math.sin(0.5 * t), centre[2] + 6 * math.cos(1.3 * t)]
    )


def polarisation(v):
    v = torch.stack(v)
    return float((v / v.norm(dim=0)).mean(1).norm())


def main():
    torch.manual_seed(5)
    n = 1400
    pos = [s * torch.randn(n) for s in (18.0, 18.0, 6.0)]
    heading = 2 * math.pi * torch.rand(n)
    vel = [8 * torch.cos(heading), 8 * torch.sin(heading), torch.randn(n)]
    frames, t0 = 48, time.perf_counter()
    with torch.no_grad():
        for frame in range(1, frames + 1):
            centre = [float(p.mean()) for p in pos]
            *state, neighbours = steer(*pos, *vel, falcon_at(frame * CFG.dt, centre))
            pos, vel = state[:3], state[3:]
            if frame % 12 == 0:
                fps = frame / (time.perf_counter() - t0)
                print(
                    f"frame {frame:3d} polarisation {polarisation(vel):.3f} neighbours {neighbours:.1f} {fps:.1f} fps"
                )
    assert all(torch.isfinite(p).all() for p in pos)


if __name__ == "__main__":
    main()
