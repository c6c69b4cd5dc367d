# MPPI controller for a quadrotor flying a slalom between pillars.
import argparse
import time
from dataclasses import dataclass

import torch

torch.set_float32_matmul_precision("high")


@dataclass
class Config:
    samples: int = 8192
    horizon: int = 32
    dt: float = 0.04
    temperature: float = 0.04
    mass: float = 0.72
    arm: float = 0.14
    jx: float = 0.0023
    jy: float = 0.0025
    jz: float = 0.0041
    drag: float = 0.18
    yaw_gain: float = 0.016
    motor_tau: float = 0.05
    fmax: float = 4.2


CFG = Config()
PILLARS = [(1.5, 0.35), (3.0, -0.3), (4.5, 0.25), (6.0, -0.2)]


def derivative(p, v, q, w, f):
    """Rigid body derivative. All quantities are tuples of (samples,) tensors."""
    qw, qx, qy, qz = q
    wx, wy, wz = w
    thrust = (f[0] + f[1] + f[2] + f[3]) / CFG.mass
    ax = 2 * (qx * qz + qw * qy) * thrust - CFG.drag * v[0]
    ay = 2 * (qy * qz - qw * qx) * thrust - CFG.drag * v[1]
    az = (1 - 2 * (qx * qx + qy * qy)) * thrust - 9.81 - CFG.drag * v[2]
    tx = CFG.arm * (f[1] - f[3])
    ty = CFG.arm * (f[2] - f[0])
    tz = CFG.yaw_gain * (f[0] - f[1] + f[2] - f[3])
    dwx = (tx - (CFG.jz - CFG.jy) * wy * wz) / CFG.jx
    dwy = (ty - (CFG.jx - CFG.jz) * wz * wx) / CFG.jy
    dwz = (tz - (CFG.jy - CFG.jx) * wx * wy) / CFG.jz
    dq = (
        0.5 * (-qx * wx - qy * wy - qz * wz),
        0.5 * (qw * wx + qy * wz - qz * wy),
        0.5 * (qw * wy - qx * wz + qz * wx),
        0.5 * (qw * wz + qx * wy - qy * wx),
    )
    return v, (ax, ay, az), dq, (dwx, dwy, dwz)


def add(a, b, h):
    return tuple(x + h * y for x, y in zip(a, b))


def advance(state, u):
    """Midpoint step. state: (17, n) rows = p3 v3 q4 w3 motors4, u: (4, n) in [0, 1]."""
    rows = state.unbind(0)
    p, v, q, w, f = rows[0:3], rows[3:6], rows[6:10], rows[10:13], rows[13:17]
    h = CFG.dt
    cmd = [CFG.fmax * c for c in u.clamp(0, 1).unbind(0)]
    lag = h / (h + CFG.motor_tau)
    f = tuple(fi + lag * (ci - fi) for fi, ci in zip(f, cmd))
    k1 = derivative(p, v, q, w, f)
    mid = [add(a, b, 0.5 * h) for a, b in zip((p, v, q, w), k1)]
    k2 = derivative(*mid, f)
    p, v, q, w = (add(a, b, h) for a, b in zip((p, v, q, w), k2))
    n = torch.rsqrt(q[0] ** 2 + q[1] ** 2 + q[2] ** 2 + q[3] ** 2)
    q = tuple(c * n for c in q)
    return torch.stack([*p, *v, *q, *w, *f])


def running_cost(state, u, goal):
    x, y, z = state[0], state[1], state[2]
    cost = 1.2 * ((x - goal[0]) ** 2 + (y - goal[1]) ** 2).sqrt() + 4.0 * (z - goal[2]) ** 2
    for cx, cy in PILLARS:
        dist = torch.sqrt((x - cx) ** 2 + (y - cy) ** 2)
        cost = cost + 40.0 * torch.sigmoid((0.32 - dist) * 30.0)
    tilt = state[7] ** 2 + state[8] ** 2
    spin = state[10] ** 2 + state[11] ** 2 + 2.0 * state[12] ** 2
    return (
        cost + 6.0 * tilt + 0.03 * spin + 0.05 * state[3:6].square().sum(0) + 0.3 * (u - 0.42).square().sum(0)
    )


@torch.compile
def rollout_step(state, u, total, goal):
    state = advance(state, u)
    return state, total + running_cost(state, u, goal)


class MPPI:
    def __init__(self, cfg, gen):
        self.cfg, self.gen = cfg, gen
        hover = cfg.mass * 9.81 / 4 / cfg.fmax
        self.hover = hover
        self.plan = torch.full((cfg.horizon, 4), hover)

    def noise(self):
        c = self.cfg
        eps = torch.randn(c.horizon, 4, c.samples, generator=self.gen)
        for t in range(1, c.horizon):  # coloured in time
            eps[t] = 0.75 * eps[t - 1] + 0.66 * eps[t]
        return 0.10 * eps

    def act(self, state, goal):
        eps = self.noise()
        controls = (self.plan[:, :, None] + eps).clamp_(0, 1)
        s = state[:, None].expand(-1, self.cfg.samples).contiguous()
        total = torch.zeros(self.cfg.samples)
        for t in range(self.cfg.horizon):
            s, total = rollout_step(s, controls[t], total, goal)
        weight = torch.softmax(-(total - total.min()) / (self.cfg.temperature * total.std()), 0)
        self.plan = controls @ weight
        u = self.plan[0].clone()
        self.plan = torch.cat([self.plan[1:], torch.full((1, 4), self.hover)])
        return u, total.min().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--seed", type=int, default=5)
    args = ap.parse_args()
    gen = torch.Generator().manual_seed(args.seed)
    ctrl = MPPI(CFG, gen)
    goal = torch.tensor([7.5, 0.0, 1.2])
    state = torch.zeros(17)
    state[2], state[6] = 1.0, 1.0
    state[13:] = CFG.mass * 9.81 / 4
    clearance, lat = 9.0, []
    with torch.inference_mode():
        for k in range(args.steps):
            t0 = time.perf_counter()
            u, best = ctrl.act(state, goal)
            lat.append(time.perf_counter() - t0)
            state = advance(state[:, None], u[:, None])[:, 0]
            state[3:6] += 0.02 * torch.randn(3, generator=gen)
            gap = min(((state[0] - x) ** 2 + (state[1] - y) ** 2).sqrt().item() for x, y in PILLARS)
            clearance = min(clearance, gap)
            if k % 10 == 0 or k == args.steps - 1:
                px, py, pz = state[:3].tolist()
                print(
                    f"k={k:3d} pos=({px:5.2f},{py:5.2f},{pz:5.2f}) best={best:8.2f} "
                    f"plan {1e3 * lat[-1]:.1f} ms"
                )
    lat = sorted(lat)
    print(
        f"closest pillar distance {clearance:.2f} m, median planning time {1e3 * lat[len(lat) // 2]:.1f} ms"
    )


if __name__ == "__main__":
    main()
