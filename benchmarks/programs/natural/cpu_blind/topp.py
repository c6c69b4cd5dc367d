"""Time-optimal speed profiles for sampled robot paths (batched TOPP).

A sampling planner proposes many candidate paths for a mobile manipulator; each
one is re-timed under curvature, velocity and acceleration limits with the usual
forward/backward sweep, and the fastest is kept.
"""

import time

import torch

torch.manual_seed(5)

N_PATHS = 49152
N_PTS = 36
V_MAX = 1.8
A_LAT = 2.2
A_MAX = 1.4
D_MAX = 1.9


def retime(ds, curv):
    """ds: (B, T-1) segment lengths, curv: (B, T) curvature."""
    limit = torch.sqrt(A_LAT / curv.abs().clamp_min(1e-4)).clamp_max(V_MAX)
    B, T = curv.shape
    v = torch.zeros(B, T)
    # accelerate from rest
    for k in range(T - 1):
        lat = v[:, k] ** 2 * curv[:, k]
        a = A_MAX * torch.sqrt((1.0 - (lat / (2 * A_LAT)) ** 2).clamp_min(0.05))
        reach = torch.sqrt(v[:, k] ** 2 + 2 * a * ds[:, k])
        v[:, k + 1] = torch.minimum(reach, limit[:, k + 1])
    # brake to a stop at the goal
    v[:, T - 1] = 0.0
    for k in range(T - 2, -1, -1):
        reach = torch.sqrt(v[:, k + 1] ** 2 + 2 * D_MAX * ds[:, k])
        v[:, k] = torch.minimum(v[:, k], reach)
    dt = 2 * ds / (v[:, 1:] + v[:, :-1]).clamp_min(1e-3)
    return v, dt.sum(1)


retime_fast = torch.compile(retime)


def sample_paths(gen, start, goal):
    """Straight line plus a few random sine detours, in the plane."""
    s = torch.linspace(0, 1, N_PTS)
    line = start + (goal - start) * s[:, None]
    amp = 0.25 * torch.randn(N_PATHS, 3, 2, generator=gen)
    modes = torch.stack([torch.sin((m + 1) * torch.pi * s) / (m + 1) for m in range(3)])
    xy = line + torch.einsum("bmd,mt->btd", amp, modes)
    d = xy[:, 1:] - xy[:, :-1]
    ds = d.norm(dim=-1)
    heading = torch.atan2(d[..., 1], d[..., 0])
    turn = heading[:, 1:] - heading[:, :-1]
    turn = torch.remainder(turn + torch.pi, 2 * torch.pi) - torch.pi
    k = turn / (0.5 * (ds[:, 1:] + ds[:, :-1]))
    curv = torch.nn.functional.pad(k, (1, 1))
    return xy, ds, curv


def main():
    gen = torch.Generator().manual_seed(17)
    goals = 4.0 * torch.rand(10, 2, generator=gen) + 1.0
    start = torch.zeros(2)
    rounds = 4
    spent, n = 0.0, 0
    for g, goal in enumerate(goals):
        xy, ds, curv = sample_paths(gen, start, goal)
        for r in range(rounds):
            t0 = time.perf_counter()
            v, total = retime_fast(ds, curv)
            spent += time.perf_counter() - t0
            n += 1
            best = int(total.argmin())
            # shrink the bundle towards the best path
            curv = 0.8 * curv + 0.2 * curv[best]
            ds = 0.8 * ds + 0.2 * ds[best]
        print(f"goal {g}: best time {total.min():.3f} s, peak speed {v[best].max():.2f} m/s")
        start = goal
    print(f"retiming: {spent / n * 1e3:.1f} ms per bundle of {N_PATHS}")


if __name__ == "__main__":
    main()
