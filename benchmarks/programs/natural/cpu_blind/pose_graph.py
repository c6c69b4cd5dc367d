"""2-D pose-graph SLAM back end: Gauss-Newton over odometry and loop-closure edges."""

import argparse
import math
import time

import torch

torch.set_default_dtype(torch.float64)


def wrap(a):
    return torch.atan2(torch.sin(a), torch.cos(a))


def relative(pi, pj):
    """Pose of j in the frame of i; pi, pj [E, 3]."""
    c, s = torch.cos(pi[:, 2]), torch.sin(pi[:, 2])
    dx, dy = pj[:, 0] - pi[:, 0], pj[:, 1] - pi[:, 1]
    return torch.stack([c * dx + s * dy, -s * dx + c * dy, wrap(pj[:, 2] - pi[:, 2])], dim=1)


def jacobians(pi, pj):
    c, s = torch.cos(pi[:, 2]), torch.sin(pi[:, 2])
    dx, dy = pj[:, 0] - pi[:, 0], pj[:, 1] - pi[:, 1]
    zero, one = torch.zeros_like(c), torch.ones_like(c)
    ji = torch.stack(
        [
            torch.stack([-c, -s, -s * dx + c * dy], dim=1),
            torch.stack([s, -c, -c * dx - s * dy], dim=1),
            torch.stack([zero, zero, -one], dim=1),
        ],
        dim=1,
    )
    jj = torch.stack(
        [
            torch.stack([c, s, zero], dim=1),
            torch.stack([-s, c, zero], dim=1),
            torch.stack([zero, zero, one], dim=1),
        ],
        dim=1,
    )
    return ji, jj


def huber_weight(chi2, delta):
    r = torch.sqrt(chi2 + 1e-12)
    return torch.where(r < delta, torch.ones_like(r), delta / r)


def scatter_block(H, rows, cols, block):
    k = torch.arange(3)
    r = (rows * 3)[:, None, None] + k[None, :, None]
    c = (cols * 3)[:, None, None] + k[None, None, :]
    return H.index_put((r.expand_as(block), c.expand_as(block)), block, accumulate=True)


def gauss_newton_step(poses, ei, ej, z, omega, delta, damping):
    n = poses.shape[0]
    pi, pj = poses[ei], poses[ej]
    e = relative(pi, pj) - z
    e = torch.cat([e[:, :2], wrap(e[:, 2:])], dim=1)
    ji, jj = jacobians(pi, pj)

    chi2 = torch.einsum("ea,eab,eb->e", e, omega, e)
    w = huber_weight(chi2, delta)
    om = omega * w[:, None, None]

    H = torch.zeros(3 * n, 3 * n)
    jit, jjt = ji.transpose(1, 2), jj.transpose(1, 2)
    H = scatter_block(H, ei, ei, jit @ om @ ji)
    H = scatter_block(H, ei, ej, jit @ om @ jj)
    H = scatter_block(H, ej, ei, jjt @ om @ ji)
    H = scatter_block(H, ej, ej, jjt @ om @ jj)

    b = torch.zeros(n, 3)
    oe = om @ e.unsqueeze(-1)
    b = b.index_add(0, ei, (jit @ oe).squeeze(-1))
    b = b.index_add(0, ej, (jjt @ oe).squeeze(-1))

    # gauge: pin the first pose
    H = H + damping * torch.eye(3 * n)
    H[:3, :3] += 1e6 * torch.eye(3)

    dx = torch.linalg.solve(H, -b.reshape(-1)).view(n, 3)
    new = poses + dx
    new = torch.cat([new[:, :2], wrap(new[:, 2:])], dim=1)
    return new, chi2.sum(), dx.abs().max()


def make_graph(n, loops, gen):
    """Lawn-mower trajectory with loop closures between adjacent lanes."""
    t = torch.arange(n)
    lane = t // 25
    along = t % 25
    x = torch.where(lane % 2 == 0, along, 24 - along).double()
    y = lane.double() * 2.0
    heading = torch.where(lane % 2 == 0, 0.0, math.pi)
    truth = torch.stack([x, y, heading], dim=1)

    ei, ej = t[:-1], t[1:]
    a = torch.randint(0, n - 60, (loops,), generator=gen)
    bb = (a + torch.randint(20, 55, (loops,), generator=gen)).clamp(max=n - 1)
    ei, ej = torch.cat([ei, a]), torch.cat([ej, bb])

    sig = torch.tensor([0.05, 0.05, 0.01])
    z = relative(truth[ei], truth[ej])
    z = z + sig * torch.randn(z.shape, generator=gen)
    z[-loops // 20 :, :2] += 3.0  # some wrong closures
    omega = torch.diag(1.0 / sig**2).expand(len(ei), 3, 3).contiguous()
    start = truth + torch.tensor([0.3, 0.3, 0.05]) * torch.randn(n, 3, generator=gen)
    start[0] = truth[0]
    return truth, start, ei, ej, z, omega


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--poses", type=int, default=300)
    ap.add_argument("--loops", type=int, default=220)
    ap.add_argument("--restarts", type=int, default=4)
    ap.add_argument("--iters", type=int, default=10)
    args = ap.parse_args()

    gen = torch.Generator().manual_seed(21)
    truth, start, ei, ej, z, omega = make_graph(args.poses, args.loops, gen)
    step = torch.compile(gauss_newton_step)
    for _ in range(2):
        step(start, ei, ej, z, omega, 2.5, 1e-6)

    calls, t0 = 0, time.perf_counter()
    best = None
    for r in range(args.restarts):
        poses = start + 0.02 * r * torch.randn(start.shape, generator=gen)
        for _ in range(args.iters):
            poses, chi2, change = step(poses, ei, ej, z, omega, 2.5, 1e-6)
            calls += 1
            if change.item() < 1e-9:
                break
        if best is None or chi2 < best[0]:
            best = (chi2.item(), poses)
    dt = time.perf_counter() - t0
    rmse = (best[1][:, :2] - truth[:, :2]).pow(2).sum(1).mean().sqrt()
    print(f"chi2 {best[0]:.1f}  position rmse {rmse:.4f} m")
    print(f"{calls} iterations, {dt / calls * 1e3:.2f} ms each")


if __name__ == "__main__":
    main()
