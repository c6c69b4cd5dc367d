"""Batched inverse kinematics for a 7-DoF arm (damped least squares).

Used offline to test grasp reachability: for every candidate grasp pose we run
a fixed number of DLS updates from the previous solution and keep the ones that
converge inside the joint limits.
"""

import argparse
import math
import time

import torch

# modified DH parameters (a, d, alpha) of a Panda-like arm, metres / radians
DH = [
    (0.0, 0.333, 0.0),
    (0.0, 0.0, -math.pi / 2),
    (0.0, 0.316, math.pi / 2),
    (0.0825, 0.0, math.pi / 2),
    (-0.0825, 0.384, -math.pi / 2),
    (0.0, 0.0, math.pi / 2),
    (0.088, 0.0, math.pi / 2),
]
FLANGE = 0.107
Q_MIN = torch.tensor([-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973])
Q_MAX = torch.tensor([2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973])
Q_HOME = torch.tensor([0.0, -0.6, 0.0, -2.2, 0.0, 1.7, 0.8])


def dh_matrix(q, a, d, alpha):
    ct, st = torch.cos(q), torch.sin(q)
    ca, sa = math.cos(alpha), math.sin(alpha)
    zero, one = torch.zeros_like(q), torch.ones_like(q)
    rows = [
        torch.stack([ct, -st, zero, a * one], dim=-1),
        torch.stack([st * ca, ct * ca, -sa * one, -d * sa * one], dim=-1),
        torch.stack([st * sa, ct * sa, ca * one, d * ca * one], dim=-1),
        torch.stack([zero, zero, zero, one], dim=-1),
    ]
    return torch.stack(rows, dim=-2)


def forward_kinematics(q):
    """Returns the frames of all joints and the end-effector pose."""
    T = torch.eye(4, dtype=q.dtype).expand(q.shape[0], 4, 4)
    frames = []
    for j, (a, d, alpha) in enumerate(DH):
        T = torch.matmul(T, dh_matrix(q[:, j], a, d, alpha))
        frames.append(T)
    flange = torch.eye(4, dtype=q.dtype)
    flange[2, 3] = FLANGE
    return frames, torch.matmul(T, flange)


def geometric_jacobian(frames, tip):
    p = tip[:, :3, 3]
    cols = []
    for T in frames:
        z = T[:, :3, 2]
        cols.append(torch.cat([torch.cross(z, p - T[:, :3, 3], dim=-1), z], dim=-1))
    return torch.stack(cols, dim=-1)  # (B, 6, 7)


def pose_error(tip, target):
    dp = target[:, :3, 3] - tip[:, :3, 3]
    R = torch.matmul(target[:, :3, :3], tip[:, :3, :3].transpose(1, 2))
    w = torch.stack([R[:, 2, 1] - R[:, 1, 2], R[:, 0, 2] - R[:, 2, 0], R[:, 1, 0] - R[:, 0, 1]], dim=-1)
    cos_t = ((R.diagonal(dim1=1, dim2=2).sum(-1) - 1) / 2).clamp(-1 + 1e-6, 1 - 1e-6)
    angle = torch.acos(cos_t)
    scale = torch.where(angle < 1e-3, torch.full_like(angle, 0.5), angle / (2 * torch.sin(angle)))
    return torch.cat([dp, scale[:, None] * w], dim=-1)


def dls_step(q, target, damping):
    frames, tip = forward_kinematics(q)
    J = geometric_jacobian(frames, tip)
    err = pose_error(tip, target)
    A = torch.matmul(J, J.transpose(1, 2)) + damping**2 * torch.eye(6, dtype=q.dtype)
    y = torch.linalg.solve(A, err.unsqueeze(-1))
    dq = torch.matmul(J.transpose(1, 2), y).squeeze(-1)

    # pull the redundant degree of freedom towards the middle of the range
    mid = 0.5 * (Q_MIN + Q_MAX)
    null = 0.02 * (mid - q)
    Jn = torch.matmul(J, null.unsqueeze(-1))
    null = null - torch.matmul(J.transpose(1, 2), torch.linalg.solve(A, Jn)).squeeze(-1)

    q = q + dq.clamp(-0.25, 0.25) + null
    return torch.minimum(torch.maximum(q, Q_MIN), Q_MAX), err


dls_step_c = torch.compile(dls_step, mode="reduce-overhead")


def solve_batch(target, iters, damping):
    q = Q_HOME.expand(target.shape[0], 7).clone()
    for _ in range(iters):
        q, err = dls_step_c(q, target, damping)
    ok = (err[:, :3].norm(dim=1) < 2e-3) & (err[:, 3:].norm(dim=1) < 1e-2)
    return q, ok


def sample_targets(n, gen):
    """Reachable poses: forward kinematics of random joint vectors around home."""
    spread = 0.35 * (Q_MAX - Q_MIN) * (torch.rand(n, 7, generator=gen) - 0.5)
    q = torch.minimum(torch.maximum(Q_HOME + spread, Q_MIN), Q_MAX)
    return forward_kinematics(q)[1]


@torch.no_grad()
def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--grasps", type=int, default=512, help="candidate grasps per object")
    ap.add_argument("--objects", type=int, default=20)
    ap.add_argument("--iters", type=int, default=30)
    ap.add_argument("--damping", type=float, default=0.05)
    args = ap.parse_args()
    gen = torch.Generator().manual_seed(7)

    batches = [sample_targets(args.grasps, gen) for _ in range(args.objects + 1)]
    solve_batch(batches[0], args.iters, args.damping)

    t0 = time.perf_counter()
    reach = []
    for target in batches[1:]:
        q, ok = solve_batch(target, args.iters, args.damping)
        reach.append(ok.float().mean().item())
    dt = time.perf_counter() - t0

    n_steps = args.objects * args.iters
    print(
        f"reachable grasps per object: mean {sum(reach) / len(reach):.3f}, "
        f"worst {min(reach):.3f}, best {max(reach):.3f}"
    )
    print(f"{n_steps} DLS steps of {args.grasps} arms in {dt:.2f} s ({1e3 * dt / n_steps:.2f} ms per step)")


if __name__ == "__main__":
    main()
